// SPDX-License-Identifier: Apache-2.0
import IOCore

/// Scheme, host and port, which identify connections and policies (RFC 6454, for http and https).
package struct Origin: Hashable, Sendable, CustomStringConvertible {
    package let scheme: RequestHead.Scheme
    package let host: Host
    package let port: UInt16

    package init(scheme: RequestHead.Scheme, host: Host, port: UInt16? = nil) {
        self.scheme = scheme
        self.host = host
        self.port = port ?? scheme.defaultPort
    }

    /// `https://host:port`, without the scheme's default port.
    package var description: String {
        "\(scheme.text)://\(host.authorityText)" + (port == scheme.defaultPort ? "" : ":\(port)")
    }
}

/// An http or https URL in its parts, with the host in normal form.
package struct AbsoluteURL: Hashable, Sendable {
    package let origin: Origin
    /// Path, query and fragment unchanged: empty, or beginning with `/`, `?` or `#`.
    package let rest: [UInt8]

    package init?(_ text: borrowing Span<UInt8>) {
        guard case .absolute(let origin, let rest)? = URLReference(text) else { return nil }
        self.origin = origin
        var copy: [UInt8] = []
        copy.append(text.extracting(rest))
        self.rest = copy
    }

    package init?(_ text: String) {
        self.init(Array(text.utf8).span)
    }
}

/// A URI reference (RFC 3986 4.1) such as in Location, classified for following or rewriting it.
///
/// Strict: references that parsers interpret differently (control characters, spaces, backslashes, user information, a
/// host without a normal form) are not accepted.
package enum URLReference: Hashable, Sendable {
    /// `http://…` or `https://…`, with the position of the rest after the authority.
    case absolute(Origin, rest: Range<Int>)
    /// `//host…`: the scheme is that of the base.
    case schemeRelative(Host, port: UInt16?, rest: Range<Int>)
    /// `/path…`
    case pathAbsolute
    /// A path without leading `/`, a query, a fragment, or empty.
    case relative
    /// Another scheme, such as `mailto:`.
    case otherScheme

    package init?(_ text: borrowing Span<UInt8>) {
        for index in 0..<text.count where text[index] <= 0x20 || text[index] >= 0x7F || text[index] == ASCII.backslash {
            return nil
        }
        if text.count >= 2, text[0] == ASCII.slash, text[1] == ASCII.slash {
            guard let (host, port, end) = Self.authority(text, from: 2) else { return nil }
            self = .schemeRelative(host, port: port, rest: end..<text.count)
            return
        }
        if text.count > 0, text[0] == ASCII.slash {
            self = .pathAbsolute
            return
        }
        // A scheme ends with the first colon before any of `/?#` (RFC 3986 4.2).
        var colon = 0
        while colon < text.count, text[colon] != ASCII.colon, text[colon] != ASCII.slash,
            text[colon] != ASCII.questionMark, text[colon] != ASCII.numberSign
        { colon += 1 }
        guard colon < text.count, text[colon] == ASCII.colon else {
            self = .relative
            return
        }
        let name = text.extracting(0..<colon)
        guard Self.isScheme(name) else { return nil }
        let scheme: RequestHead.Scheme
        if name.equalsIgnoringCase("http") {
            scheme = .http
        } else if name.equalsIgnoringCase("https") {
            scheme = .https
        } else {
            self = .otherScheme
            return
        }
        guard text.count > colon + 3, text[colon + 1] == ASCII.slash, text[colon + 2] == ASCII.slash,
            let (host, port, end) = Self.authority(text, from: colon + 3)
        else { return nil }
        self = .absolute(Origin(scheme: scheme, host: host, port: port), rest: end..<text.count)
    }

    private static func isScheme(_ name: borrowing Span<UInt8>) -> Bool {
        guard name.count > 0, ASCII.isLetter(name[0]) else { return false }
        for index in 0..<name.count {
            let byte = name[index]
            let isMark = byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-") || byte == ASCII.dot
            guard ASCII.isLetter(byte) || ASCII.isDigit(byte) || isMark else { return false }
        }
        return true
    }

    private static func authority(_ text: borrowing Span<UInt8>, from start: Int) -> (Host, UInt16?, Int)? {
        var end = start
        while end < text.count, text[end] != ASCII.slash, text[end] != ASCII.questionMark,
            text[end] != ASCII.numberSign
        { end += 1 }
        let part = text.extracting(start..<end)
        guard case .success(let authority) = Authority.parse(part),
            let host = try? Host(normalizing: part.extracting(authority.host))
        else { return nil }
        return (host, authority.port, end)
    }
}
