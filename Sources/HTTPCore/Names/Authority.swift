// SPDX-License-Identifier: Apache-2.0
/// The ranges of host and port in an authority (RFC 3986 3.2, without user information).
struct Authority {
    enum Fault: Error {
        case userinfo, malformed, port
    }

    let host: Range<Int>
    /// nil without a port, or with a colon only: the scheme's default then (RFC 3986 6.2.3).
    let port: UInt16?

    /// Finds the parts; `Host.normalize` validates the host.
    static func parse(_ text: borrowing Span<UInt8>) -> Result<Authority, Fault> {
        let count = text.count
        guard count > 0 else { return .failure(.malformed) }
        var index = 0
        if text[0] == ASCII.openBracket {
            while index < count, text[index] != ASCII.closeBracket {
                if text[index] == ASCII.at { return .failure(.userinfo) }
                index &+= 1
            }
            guard index < count else { return .failure(.malformed) }
            index &+= 1
        } else {
            while index < count, text[index] != ASCII.colon {
                if text[index] == ASCII.at { return .failure(.userinfo) }
                index &+= 1
            }
        }
        guard index > 0 else { return .failure(.malformed) }
        if index == count { return .success(Authority(host: 0..<count, port: nil)) }
        guard text[index] == ASCII.colon else {
            return .failure(text.firstIndex(of: ASCII.at, from: index) == nil ? .malformed : .userinfo)
        }
        if index &+ 1 == count { return .success(Authority(host: 0..<index, port: nil)) }
        guard let port = parsePort(text, index &+ 1) else {
            return .failure(text.firstIndex(of: ASCII.at, from: index) == nil ? .port : .userinfo)
        }
        return .success(Authority(host: 0..<index, port: port))
    }

    /// Digits from 1 to 65535 without leading zeros.
    private static func parsePort(_ text: borrowing Span<UInt8>, _ start: Int) -> UInt16? {
        let digits = text.count &- start
        guard digits >= 1, digits <= 5, text[start] != UInt8(ascii: "0") else { return nil }
        var value = 0
        var index = start
        while index < text.count {
            guard ASCII.isDigit(text[index]) else { return nil }
            value = value &* 10 &+ Int(text[index] &- UInt8(ascii: "0"))
            index &+= 1
        }
        return UInt16(exactly: value)
    }
}
