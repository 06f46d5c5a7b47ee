// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The Via field of this proxy (RFC 9110, section 7.6.3): protocol version and pseudonym.
enum ViaField {
    /// The value added to a request from a client, for example `1.1 pinproxy-k3v9qz`.
    static func value(majorVersion: UInt8 = 1, minorVersion: UInt8, pseudonym: [UInt8]) -> [UInt8] {
        var value: [UInt8] = []
        value.reserveCapacity(4 + pseudonym.count)
        value.append(UInt8(ascii: "0") + majorVersion)
        value.append(UInt8(ascii: "."))
        value.append(UInt8(ascii: "0") + minorVersion)
        value.append(UInt8(ascii: " "))
        value.append(contentsOf: pseudonym)
        return value
    }

    /// Writes the value for a response.
    static func write(of response: borrowing ResponseHead, pseudonym: [UInt8], to output: inout ByteBuffer) {
        output.append(UInt8(ascii: "0") + response.majorVersion)
        if response.majorVersion == 1 {
            output.append(UInt8(ascii: "."))
            output.append(UInt8(ascii: "0") + response.minorVersion)
        }
        output.append(" ")
        output.append(pseudonym)
    }

    /// A name for this process, which distinguishes two proxies in a row.
    static func makePseudonym() -> [UInt8] {
        let letters = Array("abcdefghijklmnopqrstuvwxyz0123456789".utf8)
        return Array("pinproxy-".utf8) + (0..<8).map { _ in letters.randomElement() ?? letters[0] }
    }
}
