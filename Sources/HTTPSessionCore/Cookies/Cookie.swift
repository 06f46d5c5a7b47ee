// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
import ServerTrust
package import SessionCore

/// A cookie as a server has set it (RFC 6265).
public struct Cookie: Hashable, Sendable {
    /// The name, a token (RFC 6265, section 4.1.1); case matters.
    public let name: String
    /// The value as the server has written it, with quotes; nothing is decoded.
    public let value: String
    /// The host of the cookie, or the domain whose hosts get it.
    public let domain: Host
    /// Whether only the host `domain` gets it, and not the hosts below.
    public let isHostOnly: Bool
    /// The path below which it is sent.
    public let path: String
    /// Expiry in seconds since 1970; nil: it lives as long as the storage.
    package let expires: Int64?
    /// Whether it is sent over TLS alone.
    public let isSecure: Bool
    /// Whether scripts must not read it. This library has no scripts.
    public let isHTTPOnly: Bool

    package init(
        name: String,
        value: String,
        domain: Host,
        isHostOnly: Bool = true,
        path: String = "/",
        expires: Int64?,
        isSecure: Bool = true,
        isHTTPOnly: Bool = false
    ) throws(SessionError) {
        guard !name.isEmpty, name.utf8.allSatisfy(ASCII.isToken), value.utf8.allSatisfy(Self.mayStandInValue),
            path.hasPrefix("/")
        else { throw SessionError(.requestInvalid, "A cookie has a token for a name, no ; in its value, and a path.") }
        self.init(
            unchecked: name,
            value,
            domain,
            isHostOnly: isHostOnly,
            path: path,
            expires: expires,
            isSecure: isSecure,
            isHTTPOnly: isHTTPOnly
        )
    }

    private init(
        unchecked name: String,
        _ value: String,
        _ domain: Host,
        isHostOnly: Bool,
        path: String,
        expires: Int64?,
        isSecure: Bool,
        isHTTPOnly: Bool
    ) {
        self.name = name
        self.value = value
        self.domain = domain
        self.isHostOnly = isHostOnly
        self.path = path
        self.expires = expires
        self.isSecure = isSecure
        self.isHTTPOnly = isHTTPOnly
    }

    /// A cookie from a file; nil for one that no `Set-Cookie` could have made.
    init?(
        stored name: String,
        _ value: String,
        _ domain: Host,
        isHostOnly: Bool,
        path: String,
        expires: Int64,
        isSecure: Bool,
        isHTTPOnly: Bool
    ) {
        let mayStand: (UInt8) -> Bool = { $0 == 0x09 || Self.mayStandInValue($0) }
        guard name.utf8.allSatisfy({ mayStand($0) && $0 != UInt8(ascii: "=") }), value.utf8.allSatisfy(mayStand),
            path.hasPrefix("/"), name.utf8.count + value.utf8.count <= 4096, path.utf8.count <= 1024
        else { return nil }
        let lower = name.lowercased()
        if lower.hasPrefix("__secure-"), !isSecure { return nil }
        if lower.hasPrefix("__host-"), !isSecure || !isHostOnly || path != "/" { return nil }
        self.init(
            unchecked: name,
            value,
            domain,
            isHostOnly: isHostOnly,
            path: path,
            expires: expires,
            isSecure: isSecure,
            isHTTPOnly: isHTTPOnly
        )
    }

    private static func mayStandInValue(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte != 0x7F && byte != UInt8(ascii: ";") || byte == 0x20
    }

    /// The identity of a cookie: a cookie with the same key replaces it.
    struct Key: Hashable {
        let name: String
        let domain: Host
        let path: String
    }

    var key: Key { Key(name: name, domain: domain, path: path) }

    func isExpired(at now: Int64) -> Bool { expires.map { $0 <= now } ?? false }

    /// Whether a request gets it (RFC 6265, section 5.4).
    func applies(to url: AbsoluteURL) -> Bool {
        guard !isSecure || url.origin.scheme == .https else { return false }
        guard isHostOnly ? url.origin.host == domain : Self.matches(url.origin.host, domain) else { return false }
        let target = Self.path(of: url)
        let path = Array(path.utf8)
        guard target.starts(with: path) else { return false }
        return target.count == path.count || path.last == UInt8(ascii: "/") || target[path.count] == UInt8(ascii: "/")
    }

    /// RFC 6265, section 5.1.3.
    static func matches(_ host: Host, _ domain: Host) -> Bool {
        if host == domain { return true }
        guard host.kind == .name, domain.kind == .name, host.bytes.count > domain.bytes.count else { return false }
        return host.bytes.suffix(domain.bytes.count + 1) == [UInt8(ascii: ".")] + domain.bytes
    }

    static func path(of url: AbsoluteURL) -> [UInt8] {
        let path = Array(url.rest.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        return path.first == UInt8(ascii: "/") ? path : [UInt8(ascii: "/")]
    }
}

extension Cookie {
    /// One `Set-Cookie` field of a response (RFC 6265, sections 5.2 and 5.3, with the stricter rules of its successor
    /// draft on `Secure` and on the prefixes of names).
    ///
    /// - Returns: nil for a cookie that is to be ignored.
    package init?(setCookie line: [UInt8], from url: AbsoluteURL, at now: Int64) {
        guard line.count <= 8192, !line.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) else { return nil }
        var parts = line.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)[...]
        guard let pair = parts.popFirst(), let (name, value) = Self.pair(pair), !name.isEmpty,
            name.utf8.count + value.utf8.count <= 4096
        else { return nil }
        var attributes: [String: String] = [:]
        for part in parts {
            let (name, value) = Self.pair(part) ?? (Self.trimmed(part), "")
            guard value.utf8.count <= 1024 else { continue }
            attributes[name.lowercased()] = value
        }
        let host = url.origin.host
        let isSecure = attributes["secure"] != nil
        guard !isSecure || url.origin.scheme == .https else { return nil }
        guard let (domain, isHostOnly) = Self.domain(attributes["domain"], of: host) else { return nil }
        let path = attributes["path"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? Self.defaultPath(url)
        if name.lowercased().hasPrefix("__secure-"), !isSecure { return nil }
        if name.lowercased().hasPrefix("__host-"), !isSecure || !isHostOnly || attributes["path"] != "/" { return nil }
        self.init(
            unchecked: name,
            value,
            domain,
            isHostOnly: isHostOnly,
            path: path,
            expires: Self.expiry(attributes, now),
            isSecure: isSecure,
            isHTTPOnly: attributes["httponly"] != nil
        )
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> String {
        let front = bytes.drop(while: ASCII.isBlank)
        let end = front.lastIndex { !ASCII.isBlank($0) } ?? front.startIndex - 1
        return String(decoding: front[front.startIndex..<max(end + 1, front.startIndex)], as: UTF8.self)
    }

    private static func pair(_ part: ArraySlice<UInt8>) -> (String, String)? {
        guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        return (trimmed(part[..<equals]), trimmed(part[(equals + 1)...]))
    }

    /// - Returns: nil when the host may not set a cookie for that domain.
    private static func domain(_ attribute: String?, of host: Host) -> (Host, Bool)? {
        guard var text = attribute, !text.isEmpty else { return (host, true) }
        if text.hasPrefix(".") { text.removeFirst() }
        guard let domain = try? Host(text) else { return nil }
        if domain == host { return (host, host.kind != .name || isSuffix(domain)) }
        // Hosts of strangers would get the cookie of a public suffix.
        guard matches(host, domain), !isSuffix(domain) else { return nil }
        return (domain, false)
    }

    static func isSuffix(_ domain: Host) -> Bool {
        !domain.bytes.contains(UInt8(ascii: ".")) || DomainName.isPublicSuffix(domain)
    }

    /// RFC 6265, section 5.1.4.
    private static func defaultPath(_ url: AbsoluteURL) -> String {
        let path = path(of: url)
        guard let slash = path.lastIndex(of: UInt8(ascii: "/")), slash > 0 else { return "/" }
        return String(decoding: path[..<slash], as: UTF8.self)
    }

    /// The longest life of a cookie: 400 days, as in the successor draft of RFC 6265.
    static let longest: Int64 = 400 * 86_400

    private static func expiry(_ attributes: [String: String], _ now: Int64) -> Int64? {
        if let age = attributes["max-age"], age.drop(while: { $0 == "-" }).allSatisfy({ $0.isASCII && $0.isNumber }),
            !age.isEmpty, age != "-"
        {
            guard let seconds = Int64(age) else { return age.hasPrefix("-") ? 0 : now.addingSaturated(longest) }
            return seconds <= 0 ? 0 : now.addingSaturated(min(seconds, longest))
        }
        guard let text = attributes["expires"], let date = CookieDate.parse(Array(text.utf8)) else { return nil }
        return min(Int64(date), now.addingSaturated(longest))
    }
}
