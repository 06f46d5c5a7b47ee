// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The head of a request of HTTP/2, field by field (RFC 9113, section 8.3.1).
///
/// A value: fields are appended, and the result is a `RequestHead`, under the same rules for host, target and length as
/// in HTTP/1.1's parser. nghttp2 refuses most malformed sections; this type does not rely on it.
package struct RequestSection: Sendable {
    private enum Pseudo: Int { case method, scheme, authority, path }

    private let limits: HeadLimits
    /// The values of the pseudo-header fields, by `Pseudo`; nil when absent.
    private var pseudo: [[UInt8]?] = [nil, nil, nil, nil]
    private var seesFields = false
    private var cookie: [UInt8]?
    private var size = 0
    private var fault: RequestFault?

    package init(limits: HeadLimits) { self.limits = limits }

    /// Records a field that was too large to be delivered.
    package mutating func omitField() { fault = fault ?? .headTooLarge }

    /// - Returns: false when the request is malformed (RFC 9113, section 8.1.1): its stream is reset without a
    ///   response.
    package mutating func append(
        name: borrowing Span<UInt8>,
        value: borrowing Span<UInt8>,
        into head: inout RequestHead
    ) -> Bool {
        size += SectionField.size(name: name, value: value)
        head.byteCount = size
        // Fields beyond the limit are dropped; the response is 431 after the complete section.
        guard size <= limits.headBytes else {
            fault = fault ?? .headTooLarge
            return true
        }
        guard fault == nil else { return true }
        if name.count > 0, name[0] == ASCII.colon { return appendPseudo(name, value) }
        seesFields = true
        let id = FieldName(name)
        guard SectionField.isWellFormed(id, name: name, value: value) else { return false }
        if id == .underscoredContentLength || id == .underscoredTransferEncoding {
            fault = .underscoredFraming
            return true
        }
        if id == .cookie {
            // HTTP/2 splits Cookie for compression; elsewhere it is one field (RFC 9113, section 8.2.3).
            if cookie == nil { cookie = [] } else { cookie?.append(contentsOf: [ASCII.semicolon, ASCII.space]) }
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

    /// Concludes the section.
    ///
    /// - Parameters:
    ///   - isForOrigin: whether the client considers this server the origin: the target is in origin-form then,
    ///     otherwise in absolute-form, as in a request to a proxy.
    ///   - endsStream: whether there is no body.
    /// - Returns: the reason why the request is refused; nil for a valid one.
    package mutating func conclude(
        isForOrigin: Bool,
        endsStream: Bool,
        into head: inout RequestHead
    ) -> RequestFault? {
        head.majorVersion = 2
        if let fault { return fault }
        if let cookie { head.fields.append(.cookie, cookie.span) }
        guard let method = self[.method], HeaderFields.isValidName(method.span) else { return .methodInvalid }
        guard method.count <= limits.methodBytes else { return .methodTooLong }
        head.method = HTTPMethod(validated: method.span)
        if let fault = parseTarget(into: &head) { return fault }
        // A Content-Length replaces this framing below.
        if !endsStream { head.framing = .untilClose }
        // RFC 9113, section 8.3.1, has a request malformed whose Host and :authority differ.
        if let fault = head.conclude(strictHost: true) { return fault }
        if isForOrigin, head.form == .absolute { head.becomeOriginForm() }
        return nil
    }

    private func parseTarget(into head: inout RequestHead) -> RequestFault? {
        guard let authority = authority(head) else { return .hostMissing }
        for byte in authority where byte <= 0x20 || byte >= ASCII.delete { return .authorityInvalid }
        if head.method == .connect {
            guard self[.path] == nil, self[.scheme] == nil else { return .connectWithoutAuthority }
            addHost(authority, to: &head)
            return RequestTarget.parse(authority.span, isVisible: true, into: &head)
        }
        guard let scheme = self[.scheme], let path = self[.path], !path.isEmpty else { return .missingTarget }
        guard path.count <= limits.targetBytes else { return .targetTooLong }
        var isVisible = true
        for byte in path {
            if byte <= 0x20 || byte == ASCII.delete { return .targetInvalidByte }
            // RFC 9113, section 8.3.1: `:path` is path and query.
            if byte == ASCII.numberSign { return .targetFragment }
            if byte > ASCII.delete { isVisible = false }
        }
        let isAsterisk = path == [ASCII.asterisk]
        if isAsterisk {
            guard head.method == .options else { return .asteriskWithoutOptions }
        } else if path[0] != ASCII.slash {
            return .targetForm
        }
        guard scheme.span.equalsIgnoringCase("http") || scheme.span.equalsIgnoringCase("https") else {
            return .schemeUnsupported
        }
        // A delimiter that ends an authority in a URL would turn its rest into a path.
        for byte in authority
        where byte == ASCII.slash || byte == ASCII.questionMark || byte == ASCII.numberSign || byte == ASCII.backslash {
            return .authorityInvalid
        }
        // It has no user information (RFC 9113, section 8.3.1).
        if authority.span.firstIndex(of: ASCII.at) != nil { return .userinfo }
        var url = scheme
        url += [ASCII.colon, ASCII.slash, ASCII.slash]
        url += authority
        if !isAsterisk { url += path }
        addHost(authority, to: &head)
        return RequestTarget.parse(url.span, isVisible: isVisible, into: &head)
    }

    /// `:authority`, or Host in a request that was converted from HTTP/1.1 (RFC 9113, section 8.3.1).
    private func authority(_ head: borrowing RequestHead) -> [UInt8]? {
        if let authority = self[.authority] { return authority }
        guard head.method != .connect, let index = head.fields.first(.host) else { return nil }
        return Array(copying: head.fields.value(at: index))
    }

    /// Adds a missing Host from `:authority`, so that the client's name for this server is in one place; a different
    /// Host is found by the common checks.
    private func addHost(_ authority: [UInt8], to head: inout RequestHead) {
        if head.fields.first(.host) == nil, HeaderFields.isValidValue(authority.span) {
            head.fields.append(.host, authority.span)
        }
    }
}

extension RequestHead {
    /// Converts a valid absolute-form to the origin-form of the same request.
    mutating func becomeOriginForm() {
        form = target.count == 1 && target[0] == ASCII.asterisk ? .asterisk : .origin
        scheme = nil
        rawTargetRange = targetRange
    }
}
