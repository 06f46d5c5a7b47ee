// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// Changes URLs in a response so that a client that follows them uses the proxy again, and in a request to what the origin knows.
///
/// A URL is changed only if its authority has a single interpretation; everything after the authority stays byte for
/// byte.
struct URLRewriter {
    enum Mode: Equatable {
        case off
        /// https becomes http, which the proxy upgrades again.
        case upgraded
        /// The same for a redirected client: https on port 443 alone, since no other port is known to lead here, and nothing where the
        /// client has come by another port than 80.
        case redirected(isAtUsualPort: Bool)
        /// The upstream becomes the gateway, under the name that the client used for it.
        case gateway

        init(for route: Route, at listener: ListenerConfiguration.Mode) {
            self =
                if !route.rewritesUpgraded {
                    .off
                } else {
                    switch listener {
                    case .gateway: .gateway
                    case .forward: route.isUpgraded ? .upgraded : .off
                    case .transparent:
                        route.isUpgraded ? .redirected(isAtUsualPort: route.endpoint?.port == 443) : .off
                    }
                }
        }
    }

    enum Direction {
        case toClient
        /// The reverse: what becomes https, or the upstream.
        case toOrigin
    }

    let mode: Mode
    private let direction: Direction
    private let router: Router
    private let upstream: ListenerConfiguration.Upstream?
    private let clientAuthority: [UInt8]
    /// Whether clients use TLS to the gateway.
    private let isTLS: Bool
    private let base: AbsoluteURL?

    init(
        mode: Mode,
        direction: Direction = .toClient,
        router: Router,
        upstream: ListenerConfiguration.Upstream? = nil,
        clientAuthority: [UInt8] = [],
        isTLS: Bool = false,
        base: AbsoluteURL? = nil
    ) {
        self.mode = mode
        self.direction = direction
        self.router = router
        self.upstream = upstream
        self.clientAuthority = clientAuthority
        self.isTLS = isTLS
        self.base = base
    }

    /// A URL with a scheme in the form for the other side; nil when it stays unchanged, and for everything else.
    func rewritten(url: borrowing Span<UInt8>) -> [UInt8]? {
        guard let parts = Parts(url), let scheme = parts.scheme else { return nil }
        let origin = Origin(scheme: scheme, host: parts.host, port: parts.port)
        let rest = Array(copying: url.extracting(parts.rest))
        return switch direction {
        case .toOrigin: changedForOrigin(origin, parts.userinfo, rest)
        // A client of a gateway without a name for it would get a path.
        case .toClient where mode == .gateway && clientAuthority.isEmpty: nil
        case .toClient: changed(origin, isWhole: true, parts.userinfo, rest)
        }
    }

    /// A URL reference in the form for the client; nil when it stays unchanged. For an origin only whole URLs change.
    func rewritten(_ reference: borrowing Span<UInt8>) -> [UInt8]? {
        if direction == .toOrigin { return rewritten(url: reference) }
        if let parts = Parts(reference) {
            let scheme = parts.scheme ?? base?.origin.scheme
            let origin = Origin(scheme: scheme ?? .https, host: parts.host, port: parts.port)
            let rest = Array(copying: reference.extracting(parts.rest))
            if let changed = changed(origin, isWhole: scheme != nil, parts.userinfo, rest) { return changed }
            // The client may resolve this reference with another scheme.
            guard parts.scheme == nil, base != nil else { return nil }
            return text(origin.scheme.text, parts.userinfo, authority(origin), rest)
        }
        guard let base, let resolved = base.resolving(Self.escaped(reference).span) else { return nil }
        // The base may hold what ends a URL in the field.
        let rest = Self.escaped(resolved.rest.span)
        return changed(resolved.origin, isWhole: true, [], rest)
            ?? text(resolved.origin.scheme.text, [], authority(resolved.origin), rest)
    }

    /// - Parameter isWhole: false for a URL without a scheme, which gets the scheme of the client's page.
    private func changed(_ origin: Origin, isWhole: Bool, _ userinfo: [UInt8], _ rest: [UInt8]) -> [UInt8]? {
        switch mode {
        case .off:
            return nil
        case .upgraded:
            // Port 80 over TLS has no http form: http on port 80 means https on 443.
            guard isWhole, origin.scheme == .https, origin.port != 80, router.wouldUpgrade(origin.host) else {
                return nil
            }
            let port = origin.port == 443 ? "" : ":\(origin.port)"
            return text("http", userinfo, Array("\(origin.host.authorityText)\(port)".utf8), rest)
        case .redirected(let isAtUsualPort):
            guard isAtUsualPort, isWhole, origin.scheme == .https, origin.port == 443, router.wouldUpgrade(origin.host)
            else { return nil }
            return text("http", userinfo, Array(origin.host.authorityText.utf8), rest)
        case .gateway:
            // A gateway's client uses no proxy, so http to the upstream would be sent without TLS.
            let port = origin.scheme == .http && origin.port == 80 ? 443 : origin.port
            guard let upstream, origin.host == upstream.host, port == upstream.port else { return nil }
            // A client of HTTP/1.0 may not have said by which name it knows the gateway: the path is enough.
            guard !clientAuthority.isEmpty else {
                // With a second slash or a backslash the path would be read as another host (RFC 3986, section 4.2).
                let slash = UInt8(ascii: "/")
                guard rest.first == slash else { return [slash] + rest }
                return rest.dropFirst().first.map { $0 == slash || $0 == UInt8(ascii: "\\") } == true
                    ? Array("/.".utf8) + rest : rest
            }
            return text(isTLS ? "https" : "http", userinfo, clientAuthority, rest)
        }
    }

    /// The reverse of `changed`, for a URL with a scheme.
    private func changedForOrigin(_ origin: Origin, _ userinfo: [UInt8], _ rest: [UInt8]) -> [UInt8]? {
        let secure: Origin
        switch mode {
        case .off: return nil
        case .upgraded, .redirected:
            guard origin.scheme == .http, router.wouldUpgrade(origin.host) else { return nil }
            // http on port 80 means https on 443.
            secure = Origin(scheme: .https, host: origin.host, port: origin.port == 80 ? 443 : origin.port)
        case .gateway:
            // The name is one of the gateway's own: it refuses requests under others.
            let name = Parts((Array(isTLS ? "https://".utf8 : "http://".utf8) + clientAuthority).span)
            guard let upstream, let name, let scheme = name.scheme,
                origin == Origin(scheme: scheme, host: name.host, port: name.port)
            else { return nil }
            secure = Origin(scheme: .https, host: upstream.host, port: upstream.port)
        }
        return text("https", userinfo, authority(secure), rest)
    }

    private func authority(_ origin: Origin) -> [UInt8] {
        let port = origin.port == origin.scheme.defaultPort ? "" : ":\(origin.port)"
        return Array("\(origin.host.authorityText)\(port)".utf8)
    }

    private func text(_ scheme: StaticString, _ userinfo: [UInt8], _ authority: [UInt8], _ rest: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(scheme.bytes)
        bytes.append(contentsOf: "://".utf8)
        bytes += userinfo
        bytes += authority
        bytes += rest
        return bytes
    }

    /// Percent-encodes spaces, bytes that are not ASCII, and what a field may have around a URL, as browsers do.
    private static func escaped(_ reference: borrowing Span<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(reference.count)
        for index in 0..<reference.count {
            let byte = reference[index]
            switch byte {
            case 0...0x20, 0x7F..., UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"):
                bytes.append(UInt8(ascii: "%"))
                bytes.append(ASCII.hexDigit(byte >> 4))
                bytes.append(ASCII.hexDigit(byte & 15))
            default: bytes.append(byte)
            }
        }
        return bytes
    }

    /// The parts of a reference that begins with an authority.
    private struct Parts {
        /// nil when the reference begins with `//`.
        var scheme: RequestHead.Scheme?
        var host: Host
        var port: UInt16?
        /// The user information with its `@`.
        var userinfo: [UInt8]
        var rest: Range<Int>

        /// - Returns: nil for other references, and for an authority with two interpretations.
        init?(_ reference: borrowing Span<UInt8>) {
            var start = 0
            if reference.hasPrefixIgnoringCase("https://") {
                scheme = .https
                start = 8
            } else if reference.hasPrefixIgnoringCase("http://") {
                scheme = .http
                start = 7
            } else if reference.hasPrefixIgnoringCase("//") {
                start = 2
            } else {
                return nil
            }
            var end = start
            var at: Int?
            while end < reference.count, reference[end] != UInt8(ascii: "/"), reference[end] != UInt8(ascii: "?"),
                reference[end] != UInt8(ascii: "#")
            {
                if reference[end] == UInt8(ascii: "@") {
                    // A second `@` has two interpretations.
                    guard at == nil else { return nil }
                    at = end
                }
                end += 1
            }
            let hostStart = at.map { $0 + 1 } ?? start
            userinfo = Array(copying: reference.extracting(start..<hostStart))
            guard userinfo.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\\") }) else { return nil }
            let authority = Array("//".utf8) + Array(copying: reference.extracting(hostStart..<end))
            guard case .schemeRelative(let host, let port, _)? = URLReference(authority.span) else { return nil }
            self.host = host
            self.port = port
            rest = end..<reference.count
        }
    }
}

extension URLRewriter {
    /// Changes a value like `5; url=https://…` (HTML, section 4.2.5.3, describes this field).
    func rewritten(refresh value: borrowing Span<UInt8>) -> [UInt8]? {
        guard let range = Self.url(inRefresh: value), let url = rewritten(value.extracting(range)) else { return nil }
        return Array(copying: value.extracting(0..<range.lowerBound)) + url
            + Array(copying: value.extracting(range.upperBound..<value.count))
    }

    private static func url(inRefresh value: borrowing Span<UInt8>) -> Range<Int>? {
        var index = 0
        func skipBlanks() { while index < value.count, ASCII.isBlank(value[index]) { index += 1 } }
        skipBlanks()
        while index < value.count, ASCII.isDigit(value[index]) || value[index] == UInt8(ascii: ".") { index += 1 }
        skipBlanks()
        guard index < value.count, value[index] == UInt8(ascii: ";") || value[index] == UInt8(ascii: ",") else {
            return nil
        }
        index += 1
        skipBlanks()
        let start = index
        if value.extracting(index..<value.count).hasPrefixIgnoringCase("url") {
            index += 3
            skipBlanks()
            if index < value.count, value[index] == UInt8(ascii: "=") {
                index += 1
                skipBlanks()
            } else {
                index = start
            }
        }
        guard index < value.count else { return nil }
        let first = value[index]
        if first == UInt8(ascii: "\"") || first == UInt8(ascii: "'") {
            let end = value.firstIndex(of: first, from: index + 1) ?? value.count
            return index + 1..<end
        }
        return index..<value.count
    }

    /// Changes the targets of links (RFC 8288, section 3): `<https://…>; rel="next"`. API clients find the next page
    /// with them.
    ///
    /// - Returns: empty when the work or the result would be too much (`budget`).
    func rewritten(link value: borrowing Span<UInt8>, _ budget: inout Budget) -> [UInt8]? {
        rewritten(targetsIn: value, hasLists: false, &budget)
    }

    /// Changes the resources of tagged lists in `If` (RFC 4918, section 10.4): `<https://…> (<urn:…>)`. What stands between the
    /// parentheses are state tokens, which are no places.
    func rewritten(condition value: borrowing Span<UInt8>, _ budget: inout Budget) -> [UInt8]? {
        rewritten(targetsIn: value, hasLists: true, &budget)
    }

    /// The work that the URLs of one head may cost: a peer may put thousands of short references into it, each of which becomes as
    /// long as the URL that the response came from.
    struct Budget {
        private var urls = 1000
        private var bytes = 256 << 10

        /// - Returns: false when it is used up.
        mutating func takeURL() -> Bool {
            urls -= 1
            return urls >= 0
        }

        /// - Returns: false when it is used up.
        mutating func take(_ count: Int) -> Bool {
            bytes -= count
            return bytes >= 0
        }
    }

    /// - Parameter hasLists: whether parentheses stand around lists that hold no targets.
    private func rewritten(
        targetsIn value: borrowing Span<UInt8>,
        hasLists: Bool,
        _ budget: inout Budget
    ) -> [UInt8]? {
        var result: [UInt8] = []
        var copied = 0
        var index = 0
        var isQuoted = false
        var isInList = false
        while index < value.count {
            let byte = value[index]
            if isQuoted {
                if byte == UInt8(ascii: "\\") { index += 1 } else if byte == UInt8(ascii: "\"") { isQuoted = false }
            } else if byte == UInt8(ascii: "\"") {
                isQuoted = true
            } else if hasLists, byte == UInt8(ascii: "(") || byte == UInt8(ascii: ")") {
                isInList = byte == UInt8(ascii: "(")
            } else if byte == UInt8(ascii: "<") {
                guard let end = value.firstIndex(of: UInt8(ascii: ">"), from: index) else { break }
                guard isInList || budget.takeURL() else { return [] }
                if !isInList, let url = rewritten(value.extracting((index + 1)..<end)) {
                    guard budget.take(url.count) else { return [] }
                    result.append(value.extracting(copied..<(index + 1)))
                    result += url
                    copied = end
                }
                index = end
            }
            index += 1
        }
        guard copied > 0 else { return nil }
        result.append(value.extracting(copied..<value.count))
        return result
    }

    /// Changes the URLs in the parameters of a challenge (RFC 9110, section 11.3): `Bearer realm="https://…"` names the place
    /// where container registries give tokens (RFC 9728 and others have further ones). The parameters of other schemes are not
    /// places: that of Digest goes into the hash of the password.
    ///
    /// - Returns: empty when the work or the result would be too much (`budget`).
    func rewritten(challenge value: borrowing Span<UInt8>, _ budget: inout Budget) -> [UInt8]? {
        var result: [UInt8] = []
        var copied = 0
        var isOfTokens = false
        var start = 0
        while start < value.count {
            // A parameter, or a scheme with its first parameter.
            var end = start
            var quoted = 0..<0
            while end < value.count, value[end] != UInt8(ascii: ",") {
                if value[end] == UInt8(ascii: "\"") {
                    let open = end + 1
                    end = open
                    while end < value.count, value[end] != UInt8(ascii: "\"") {
                        end += value[end] == UInt8(ascii: "\\") ? 2 : 1
                    }
                    // A value without an end is left as it is.
                    guard end < value.count else { break }
                    quoted = open..<end
                }
                end += 1
            }
            end = min(end, value.count)
            let part = value.extracting(start..<end)
            let word = Self.firstWord(of: part)
            if !word.isName, !word.range.isEmpty {
                let scheme = part.extracting(word.range)
                isOfTokens = scheme.equalsIgnoringCase("Bearer") || scheme.equalsIgnoringCase("DPoP")
            }
            let isCandidate = isOfTokens && !quoted.isEmpty
            guard !isCandidate || budget.takeURL() else { return [] }
            if isCandidate, let url = rewritten(url: value.extracting(quoted)) {
                guard budget.take(url.count) else { return [] }
                result.append(value.extracting(copied..<quoted.lowerBound))
                result += url
                copied = quoted.upperBound
            }
            start = end + 1
        }
        guard copied > 0 else { return nil }
        result.append(value.extracting(copied..<value.count))
        return result
    }

    /// The word at the beginning, and whether it is a parameter's name, which an equals sign follows.
    private static func firstWord(of part: borrowing Span<UInt8>) -> (range: Range<Int>, isName: Bool) {
        let start = part.trimmingBlanks(0..<part.count).lowerBound
        var end = start
        while end < part.count, !ASCII.isBlank(part[end]), part[end] != UInt8(ascii: "=") { end += 1 }
        var next = end
        while next < part.count, ASCII.isBlank(part[next]) { next += 1 }
        return (start..<end, next < part.count && part[next] == UInt8(ascii: "="))
    }
}

/// Removes attributes of a cookie that make a plain-HTTP client reject it (RFC 6265 and its successor,
/// `draft-ietf-httpbis-rfc6265bis`): `Secure`, and the attributes that require it.
struct CookieRewriter {
    /// The host behind a gateway that clients know by another name; nil elsewhere.
    let gateway: Host?
    /// The client uses TLS to the gateway, and its cookies change only in their domain.
    var keepsSecure = false

    /// - Returns: nil when the cookie stays unchanged.
    func rewritten(_ cookie: borrowing Span<UInt8>) -> [UInt8]? {
        // Without Secure every client rejects these; with it, clients that trust loopback accept them.
        if cookie.hasPrefixIgnoringCase("__Secure-") || cookie.hasPrefixIgnoringCase("__Host-") { return nil }
        let isSecure = !keepsSecure && hasAttribute(cookie, "Secure")
        var result: [UInt8] = []
        var position = 0
        var isFirst = true
        while position <= cookie.count {
            let end = cookie.firstIndex(of: UInt8(ascii: ";"), from: position) ?? cookie.count
            let part = cookie.extracting(position..<end)
            if isFirst || !goes(part.extracting(part.trimmingBlanks(0..<part.count)), isSecure) {
                if !isFirst { result.append(UInt8(ascii: ";")) }
                result.append(part)
            }
            isFirst = false
            position = end + 1
        }
        guard result.count < cookie.count else { return nil }
        // No value has blanks at its end (RFC 9113, section 8.2.1), as before a last attribute that went.
        while let last = result.last, ASCII.isBlank(last) { result.removeLast() }
        return result
    }

    private func goes(_ attribute: borrowing Span<UInt8>, _ isSecure: Bool) -> Bool {
        let equals = attribute.firstIndex(of: UInt8(ascii: "=")) ?? attribute.count
        let name = attribute.extracting(attribute.trimmingBlanks(0..<equals))
        if name.equalsIgnoringCase("Secure") { return isSecure }
        let start = min(equals + 1, attribute.count)
        let value = attribute.extracting(attribute.trimmingBlanks(start..<attribute.count))
        if isSecure {
            if name.equalsIgnoringCase("Partitioned") { return true }
            if name.equalsIgnoringCase("SameSite"), value.equalsIgnoringCase("None") { return true }
        }
        return name.equalsIgnoringCase("Domain") && isDomainOfUpstream(value)
    }

    /// Whether the domain includes the upstream's host (RFC 6265, section 5.1.3), and so not the gateway's name.
    private func isDomainOfUpstream(_ value: borrowing Span<UInt8>) -> Bool {
        guard let gateway, value.count > 0 else { return false }
        let domain =
            value[0] == UInt8(ascii: ".") ? value.extracting(1..<value.count) : value.extracting(0..<value.count)
        let host = gateway.bytes.span
        if host.equalsIgnoringCase(domain) { return true }
        guard gateway.kind == .name, domain.count > 0, host.count > domain.count else { return false }
        let start = host.count - domain.count
        return host[start - 1] == UInt8(ascii: ".") && host.extracting(start..<host.count).equalsIgnoringCase(domain)
    }

    private func hasAttribute(_ cookie: borrowing Span<UInt8>, _ name: StaticString) -> Bool {
        var position = cookie.firstIndex(of: UInt8(ascii: ";")).map { $0 + 1 } ?? cookie.count
        while position < cookie.count {
            let end = cookie.firstIndex(of: UInt8(ascii: ";"), from: position) ?? cookie.count
            let part = cookie.extracting(position..<end)
            let equals = part.firstIndex(of: UInt8(ascii: "=")) ?? part.count
            if part.extracting(part.trimmingBlanks(0..<equals)).equalsIgnoringCase(name) { return true }
            position = end + 1
        }
        return false
    }
}
