// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The four forms of a request target (RFC 9112 3.2).
enum RequestTarget {
    /// Parses `target` into `head`, whose method is already set.
    ///
    /// - Parameter isVisible: whether all bytes are visible ASCII; otherwise there are some above 0x7F as well.
    static func parse(
        _ target: borrowing Span<UInt8>,
        isVisible: Bool,
        into head: inout RequestHead
    ) -> RequestFault? {
        if isVisible, target.firstIndex(of: ASCII.numberSign) == nil { return parse(target, into: &head) }
        switch IrregularTarget.makeRegular(target) {
        case .success(let regular): return parse(regular.span, into: &head)
        case .failure(let fault): return fault
        }
    }

    private static func parse(_ target: borrowing Span<UInt8>, into head: inout RequestHead) -> RequestFault? {
        guard target.count > 0 else { return head.method == .connect ? .connectWithoutAuthority : .missingTarget }
        head.rawTargetRange = 0..<target.count
        head.targetRange = 0..<target.count
        head.storage.append(target)
        if head.method == .connect { return parseAuthority(target, into: &head) }
        if target[0] == ASCII.slash {
            head.form = .origin
            return nil
        }
        if target.count == 1, target[0] == ASCII.asterisk {
            guard head.method == .options else { return .asteriskWithoutOptions }
            head.form = .asterisk
            return nil
        }
        return parseAbsolute(target, into: &head)
    }

    private static func parseAuthority(_ target: borrowing Span<UInt8>, into head: inout RequestHead) -> RequestFault? {
        head.form = .authority
        // A CONNECT to a path or a URL gets a more specific fault than "malformed".
        if target[0] == ASCII.slash || target[0] == ASCII.asterisk || target.firstIndex(of: ASCII.slash) != nil {
            return .connectWithoutAuthority
        }
        if let fault = head.parseHost(0..<target.count) { return fault }
        return head.explicitPort == nil ? .connectWithoutAuthority : nil
    }

    private static func parseAbsolute(_ target: borrowing Span<UInt8>, into head: inout RequestHead) -> RequestFault? {
        head.form = .absolute
        var index = 0
        while index < target.count, isSchemeByte(target[index]) { index &+= 1 }
        guard index > 0, index < target.count, target[index] == ASCII.colon, ASCII.isLetter(target[0]) else {
            return target.firstIndex(of: ASCII.at) == nil ? .targetForm : .userinfo
        }
        let scheme = target.extracting(0..<index)
        let hasAuthority =
            index &+ 2 < target.count && target[index &+ 1] == ASCII.slash && target[index &+ 2] == ASCII.slash
        if scheme.equalsIgnoringCase("http") {
            head.scheme = .http
        } else if scheme.equalsIgnoringCase("https") {
            head.scheme = .https
        } else if hasAuthority, scheme.equalsIgnoringCase("ws") || scheme.equalsIgnoringCase("wss") {
            // RFC 6455, section 3. Whether there is an Upgrade is known at the end of the head.
            head.scheme = scheme.count == 2 ? .http : .https
            head.isWebSocketURL = true
        } else if hasAuthority || !(index &+ 1 < target.count && ASCII.isDigit(target[index &+ 1])) {
            return .schemeUnsupported
        } else {
            // `host:80` looks like a scheme, too.
            return .connectWithoutAuthority
        }
        guard hasAuthority else { return .authorityInvalid }
        let start = index &+ 3
        var end = start
        while end < target.count, target[end] != ASCII.slash, target[end] != ASCII.questionMark { end &+= 1 }
        if let fault = head.parseHost(start..<end) {
            let hasUserinfo = target.extracting(start..<end).firstIndex(of: ASCII.at) != nil
            return hasUserinfo ? parseUserinfo(of: target, authority: start..<end, into: &head) : fault
        }

        if end < target.count, target[end] == ASCII.slash {
            head.targetRange = end..<target.count
            return nil
        }
        // An empty path is sent as `/`, or as `*` for the server as a whole (RFC 9112 3.2.1 and 3.2.4).
        let made = head.storage.count
        head.storage.append(head.method == .options && end == target.count ? ASCII.asterisk : ASCII.slash)
        head.storage.append(target.extracting(end..<target.count))
        head.targetRange = made..<head.storage.count
        return nil
    }

    /// Parses the target again without its user information, which becomes the value of Authorization.
    private static func parseUserinfo(
        of target: borrowing Span<UInt8>,
        authority: Range<Int>,
        into head: inout RequestHead
    ) -> RequestFault? {
        guard let user = IrregularTarget.userinfo(of: target.extracting(authority)) else { return .userinfo }
        var regular = Array(copying: target.extracting(0..<authority.lowerBound))
        regular.append(target.extracting((authority.lowerBound &+ user.count &+ 1)..<target.count))
        head.storage.removeAll(keepingCapacity: true)
        if let fault = parse(regular.span, into: &head) { return fault }
        guard let value = user.authorization else { return nil }
        let start = head.storage.count
        head.storage.append(contentsOf: value)
        head.credentialsRange = start..<head.storage.count
        return nil
    }

    private static func isSchemeByte(_ byte: UInt8) -> Bool {
        ASCII.isLetter(byte) || ASCII.isDigit(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-")
            || byte == ASCII.dot
    }
}

extension RequestHead {
    /// Parses the authority at `range` of the storage.
    mutating func parseHost(_ range: Range<Int>) -> RequestFault? {
        if knownAuthority.text.span.equals(storage.span.extracting(range)), !range.isEmpty {
            explicitPort = knownAuthority.port
            rawAuthorityRange = range
            rawHostRange = range.lowerBound..<range.lowerBound &+ knownAuthority.rawHostLength
            hostKind = knownAuthority.kind
            hostRange = range.lowerBound..<range.lowerBound &+ knownAuthority.hostLength
            return nil
        }
        let authority: Authority
        switch Authority.parse(storage.span.extracting(range)) {
        case .success(let found): authority = found
        case .failure(.userinfo): return .userinfo
        case .failure(.malformed): return .authorityInvalid
        case .failure(.port): return .portInvalid
        }
        explicitPort = authority.port
        rawAuthorityRange = range
        rawHostRange = range.lowerBound..<range.lowerBound &+ authority.host.upperBound
        do {
            (hostKind, hostRange) = try Host.normalize(rawHostRange, of: &storage)
        } catch {
            return error == .ambiguousNumber ? .hostAmbiguousNumber : .hostInvalid
        }
        if hostRange.lowerBound == range.lowerBound, range.count <= KnownAuthority.longest {
            knownAuthority = KnownAuthority(
                text: Array(storage[range]),
                port: explicitPort,
                rawHostLength: rawHostRange.count,
                kind: hostKind,
                hostLength: hostRange.count
            )
        }
        return nil
    }
}
