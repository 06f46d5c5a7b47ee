// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore

/// An IP address and a port, of a listener or of a `resolve`.
package struct AddressAndPort: Hashable, Sendable {
    package var address: IPAddress
    package var port: UInt16

    package init(_ address: IPAddress, _ port: UInt16) {
        self.address = address
        self.port = port
    }
}

extension AddressAndPort: CustomStringConvertible {
    /// `127.0.0.1:8080`, `[::1]:8080`.
    package var description: String {
        address.isIPv4 ? "\(address):\(port)" : "[\(address)]:\(port)"
    }
}

extension AddressAndPort {
    /// The reason why a text is not an address and a port.
    package enum Fault: Error, Hashable, Sendable {
        case portMissing
        case portInvalid
        case bracketsMissing
        case addressInvalid
    }

    /// Reads `127.0.0.1:8080` and `[::1]:8080`. Names are not resolved.
    package init(parsing text: String) throws(Fault) {
        let bytes = Array(text.utf8)
        guard let colon = bytes.lastIndex(of: UInt8(ascii: ":")) else { throw .portMissing }
        if bytes.last == UInt8(ascii: "]") { throw .portMissing }
        let literal: String
        if bytes.first == UInt8(ascii: "[") {
            guard colon > 1, bytes[colon - 1] == UInt8(ascii: "]") else { throw .addressInvalid }
            literal = String(decoding: bytes[1..<(colon - 1)], as: UTF8.self)
            guard literal.utf8.contains(UInt8(ascii: ":")) else { throw .addressInvalid }
        } else {
            literal = String(decoding: bytes[..<colon], as: UTF8.self)
            guard !literal.utf8.contains(UInt8(ascii: ":")) else { throw .bracketsMissing }
        }
        guard let address = IPAddress(literal) else { throw .addressInvalid }
        guard let port = Self.port(bytes[(colon + 1)...]) else { throw .portInvalid }
        self.init(address, port)
    }

    /// A port in decimal digits, without sign or leading zeros; `0` itself is one.
    static func port(_ digits: ArraySlice<UInt8>) -> UInt16? {
        guard let first = digits.first, digits.count <= 5 else { return nil }
        guard first != UInt8(ascii: "0") || digits.count == 1 else { return nil }
        var value = 0
        for digit in digits {
            guard digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + Int(digit - UInt8(ascii: "0"))
        }
        return UInt16(exactly: value)
    }
}

// MARK: - What sockets take

extension AddressAndPort {
    /// Nil for a Unix socket.
    package init?(_ socketAddress: SocketAddress) {
        switch socketAddress.family {
        case .ipv4: self.init(IPAddress(ipv4: socketAddress.ipv4), socketAddress.port)
        case .ipv6:
            self.init(IPAddress(ipv6High: socketAddress.upper, low: socketAddress.lower), socketAddress.port)
        case .unix: return nil
        }
    }

    package var socketAddress: SocketAddress { SocketAddress(address, port: port) }
}
