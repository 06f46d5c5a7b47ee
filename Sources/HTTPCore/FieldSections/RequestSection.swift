import IOCore

/// The head of a request of HTTP/2, field by field (RFC 9113, section 8.3.1).
///
/// A value: fields go in, and at the end the same `RequestHead` comes out, under the same rules for host, target and
/// length, as from HTTP/1.1's parser. nghttp2 has seen to most of what is malformed; this does not rely on it.
package struct RequestSection: Sendable {
    private enum Pseudo: Int { case method, scheme, authority, path }

    private let limits: HeadLimits
    /// Pseudo-header fields, at their number; nil while they have not come.
    private var pseudo: [[UInt8]?] = [nil, nil, nil, nil]
    private var seesFields = false
    private var cookie: [UInt8]?
    private var size = 0
    private var fault: RequestFault?

    package init(limits: HeadLimits) { self.limits = limits }

    /// A field was too large to be taken at all.
    package mutating func omitField() { fault = fault ?? .headTooLarge }

    /// - Returns: false when the request is malformed (RFC 9113, section 8.1.1): it gets no answer but a reset.
    package mutating func append(
        name: borrowing Span<UInt8>,
        value: borrowing Span<UInt8>,
        into head: inout RequestHead
    ) -> Bool {
        size += SectionField.size(name: name, value: value)
        head.byteCount = size
        // What outgrows the limit is not kept; the answer is 431 when all of it has come.
        guard size <= limits.headBytes else {
            fault = fault ?? .headTooLarge
            return true
        }
        if name.count > 0, name[0] == ASCII.colon { return appendPseudo(name, value) }
        seesFields = true
        let id = FieldName(name)
        guard SectionField.isWellFormed(id, name: name, value: value) else { return false }
        if id == .underscoredContentLength || id == .underscoredTransferEncoding { fault = .underscoredFraming }
        guard fault == nil else { return true }
        if id == .cookie {
            // Split for compression; elsewhere it is one field (RFC 9113, section 8.2.3).
            cookie = cookie.map { $0 + [ASCII.semicolon, ASCII.space] } ?? []
            cookie?.append(value)
            return true
        }
        guard head.fields.count < limits.fieldCount else {
            fault = .tooManyFields
            return true
        }
        head.fields.append(name: name, value: value)
        return true
    }

    private mutating func appendPseudo(_ name: borrowing Span<UInt8>, _ value: borrowing Span<UInt8>) -> Bool {
        let kind: Pseudo
        if name.equals(":method") {
            kind = .method
        } else if name.equals(":scheme") {
            kind = .scheme
        } else if name.equals(":authority") {
            kind = .authority
        } else if name.equals(":path") {
            kind = .path
        } else {
            return false
        }
        guard !seesFields, pseudo[kind.rawValue] == nil else { return false }
        pseudo[kind.rawValue] = Array(copying: value)
        return true
    }

    private subscript(_ kind: Pseudo) -> [UInt8]? { pseudo[kind.rawValue] }

    /// The section is complete.
    ///
    /// - Parameters:
    ///   - isForOrigin: the client takes this server for the origin: the head gets a target in origin-form. Otherwise it
    ///     is that of a request to a proxy, with the target in absolute-form.
    ///   - endsStream: there is no body.
    /// - Returns: why the request is refused.
    package mutating func conclude(
        isForOrigin: Bool,
        endsStream: Bool,
        into head: inout RequestHead
    ) -> RequestFault? {
        head.majorVersion = 2
        if let fault { return fault }
        if let cookie { head.fields.append(.cookie, cookie.span) }
        guard let method = self[.method], HTTPFields.isValidName(method.span) else { return .methodInvalid }
        guard method.count <= limits.methodBytes else { return .methodTooLong }
        head.method = HTTPMethod(validated: method.span)
        if let fault = parseTarget(into: &head) { return fault }
        // A length makes it another framing.
        if !endsStream { head.framing = .untilClose }
        if let fault = head.conclude() { return fault }
        if isForOrigin, head.form == .absolute { head.becomeOriginForm() }
        return nil
    }

    private func parseTarget(into head: inout RequestHead) -> RequestFault? {
        guard let authority = authority(head) else { return .hostMissing }
        for byte in authority where byte <= 0x20 || byte >= ASCII.delete { return .authorityInvalid }
        if head.method == .connect {
            guard self[.path] == nil, self[.scheme] == nil else { return .connectWithoutAuthority }
            addHost(authority, to: &head)
            return RequestTarget.parse(authority.span, into: &head)
        }
        guard let scheme = self[.scheme], let path = self[.path], !path.isEmpty else { return .missingTarget }
        guard path.count <= limits.targetBytes else { return .targetTooLong }
        for byte in path where byte <= 0x20 || byte >= ASCII.delete { return .targetInvalidByte }
        let isAsterisk = path == [ASCII.asterisk]
        if isAsterisk {
            guard head.method == .options else { return .asteriskWithoutOptions }
        } else if path[0] != ASCII.slash {
            return .targetForm
        }
        guard scheme.span.equalsIgnoringCase("http") || scheme.span.equalsIgnoringCase("https") else {
            return .schemeUnsupported
        }
        // What ends an authority in a URL would have the rest of it read as a path.
        for byte in authority
        where byte == ASCII.slash || byte == ASCII.questionMark || byte == ASCII.numberSign || byte == ASCII.backslash {
            return .authorityInvalid
        }
        var url = scheme
        url += [ASCII.colon, ASCII.slash, ASCII.slash]
        url += authority
        if !isAsterisk { url += path }
        addHost(authority, to: &head)
        return RequestTarget.parse(url.span, into: &head)
    }

    /// `:authority`, or Host where a request was made from one of HTTP/1.1 (RFC 9113, section 8.3.1).
    private func authority(_ head: borrowing RequestHead) -> [UInt8]? {
        if let authority = self[.authority] { return authority }
        guard head.method != .connect, let index = head.fields.first(.host) else { return nil }
        return Array(copying: head.fields.value(at: index))
    }

    /// So that a Host which differs is found, and that who looks for the client's name for this server finds it in one
    /// place.
    private func addHost(_ authority: [UInt8], to head: inout RequestHead) {
        if head.fields.first(.host) == nil, HTTPFields.isValidValue(authority.span) {
            head.fields.append(.host, authority.span)
        }
    }
}

extension RequestHead {
    /// A valid absolute-form becomes the origin-form of the same request, as its client sends it to an origin.
    mutating func becomeOriginForm() {
        form = target.count == 1 && target[0] == ASCII.asterisk ? .asterisk : .origin
        scheme = nil
        rawTargetRange = targetRange
    }
}
