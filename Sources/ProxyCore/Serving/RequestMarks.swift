// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The fields that name this proxy in requests to origins, made once: by them it finds a loop.
struct RequestMarks {
    private let ofVersion10: PreparedField
    private let ofVersion11: PreparedField
    private let ofVersion2: PreparedField
    private let withoutVia: PreparedField

    static let cdnLoop: StaticString = "CDN-Loop"

    init(pseudonym: [UInt8]) {
        ofVersion10 = Self.via(ViaField.value(minorVersion: 0, pseudonym: pseudonym))
        ofVersion11 = Self.via(ViaField.value(minorVersion: 1, pseudonym: pseudonym))
        ofVersion2 = Self.via(ViaField.value(majorVersion: 2, minorVersion: 0, pseudonym: pseudonym))
        withoutVia = Self.cdnLoop(pseudonym)
    }

    /// - Parameter addsVia: whether the request gets a Via.
    func field(for head: borrowing RequestHead, addsVia: Bool) -> PreparedField {
        if !addsVia { return withoutVia }
        if head.majorVersion == 2 { return ofVersion2 }
        return head.minorVersion == 0 ? ofVersion10 : ofVersion11
    }

    /// - Parameter member: of Via, as `ViaField.value` makes it (RFC 9110, section 7.6.3).
    static func via(_ member: [UInt8]) -> PreparedField {
        PreparedField(name: FieldName.via.text.bytes, value: member.span)
    }

    /// The pseudonym alone, in CDN-Loop (RFC 8586), for which no server switches compression off.
    static func cdnLoop(_ pseudonym: [UInt8]) -> PreparedField {
        PreparedField(name: cdnLoop.bytes, value: pseudonym.span)
    }
}
