// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The head of a request of HTTP/2, field by field (RFC 9113, section 8.3.1).
///
/// A value: fields are appended, and the result is a `RequestHead`, under the same rules for host, target and length as
/// in HTTP/1.1's parser. nghttp2 refuses most malformed sections; this type does not rely on it.
package struct RequestSection: Sendable {
    private enum Pseudo: Int { case method, scheme, authority, path }

    private var limits: HeadLimits
    /// The values of the pseudo-header fields.
    private var values = ReusableBytes()
    /// Their ranges in `values`, by `Pseudo`; nil when absent.
    private var pseudo = InlineArray<4, Range<Int>?>(repeating: nil)
    /// The target in absolute-form.
    private var url = ReusableBytes()
    /// The last authority whose every byte was found well-formed: a client asks for the same again and again.
    private var known = ReusableBytes()
    private var seesFields = false
    private var cookie: [UInt8]?
    private var size = 0
    private var fault: RequestFault?

    package init(limits: HeadLimits) { self.limits = limits }

    /// Resets it for the next request, and keeps the memory unless it is much.
    package mutating func removeAll(limits: HeadLimits) {
        self.limits = limits
        values.removeAll(keepingCapacity: values.count <= Self.keptBytes)
        url.removeAll(keepingCapacity: url.count <= Self.keptBytes)
        pseudo = InlineArray(repeating: nil)
        seesFields = false
        cookie = nil
        size = 0
        fault = nil
    }

    /// The request has its head, or is over: what it brought does not stay until the next one.
    package mutating func rest() {
        removeAll(limits: limits)
        if values.footprint > 2 * Self.keptBytes { values = ReusableBytes() }
        if url.footprint > 2 * Self.keptBytes { url = ReusableBytes() }
    }

    private static let keptBytes = 4 << 10
    private static let delimiter: StaticString = "://"

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
            // Empty pieces stand for nothing.
            if cookie == nil { cookie = [] }
            guard value.count > 0 else { return true }
            if cookie?.isEmpty == false { cookie?.append(contentsOf: [ASCII.semicolon, ASCII.space]) }
            cookie?.append(value)
            return true
        }
        guard head.fields.count < limits.fieldCount else {
            fault = .tooManyFields
            return true
        }
        head.fields.append(wellFormed: id, name: name, value: value)
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
        let start = values.count
        values.append(value)
        pseudo[kind.rawValue] = start..<values.count
        return true
    }

    private subscript(_ kind: Pseudo) -> Range<Int>? { pseudo[kind.rawValue] }

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
        guard let method = self[.method], HeaderFields.isValidName(values.bytes(method)) else { return .methodInvalid }
        guard method.count <= limits.methodBytes else { return .methodTooLong }
        head.method = HTTPMethod(validated: values.bytes(method))
        if let fault = parseTarget(into: &head) { return fault }
        // A Content-Length replaces this framing below.
        if !endsStream { head.framing = .untilClose }
        // RFC 9113, section 8.3.1, has a request malformed whose Host and :authority differ.
        if let fault = head.conclude(strictHost: true) { return fault }
        if isForOrigin, head.form == .absolute { head.becomeOriginForm() }
        return nil
    }

    private mutating func parseTarget(into head: inout RequestHead) -> RequestFault? {
        guard let authority = findAuthority(head) else { return .hostMissing }
        let isKnown = known.count > 0 && values.bytes(authority).equals(known.bytes(0..<known.count))
        // No DEL, no space, nothing above ASCII.
        guard isKnown || values.bytes(authority).firstIndexOutsideVisible(in: 0..<authority.count) == nil else {
            return .authorityInvalid
        }
        if head.method == .connect {
            guard self[.path] == nil, self[.scheme] == nil else { return .connectWithoutAuthority }
            addHost(authority, to: &head)
            return RequestTarget.parse(values.bytes(authority), isVisible: true, into: &head)
        }
        guard let scheme = self[.scheme], let path = self[.path], !path.isEmpty else { return .missingTarget }
        guard path.count <= limits.targetBytes else { return .targetTooLong }
        var isVisible = true
        let isAsterisk = values.bytes(path).equals("*")
        if let fault = Self.check(values.bytes(path), isVisible: &isVisible) { return fault }
        if isAsterisk {
            guard head.method == .options else { return .asteriskWithoutOptions }
        } else if values.bytes(path)[0] != ASCII.slash {
            return .targetForm
        }
        guard
            values.bytes(scheme).equalsIgnoringCase("http") || values.bytes(scheme).equalsIgnoringCase("https")
        else { return .schemeUnsupported }
        if !isKnown {
            if let fault = Self.check(authority: values.bytes(authority)) { return fault }
            known.removeAll(keepingCapacity: true)
            if authority.count <= KnownAuthority.longest { Self.append(authority, of: values, to: &known) }
        }
        url.removeAll(keepingCapacity: true)
        Self.append(scheme, of: values, to: &url)
        url.append(Self.delimiter.bytes)
        Self.append(authority, of: values, to: &url)
        if !isAsterisk { Self.append(path, of: values, to: &url) }
        addHost(authority, to: &head)
        return RequestTarget.parse(url.bytes(0..<url.count), isVisible: isVisible, into: &head)
    }

    private static func append(
        _ range: Range<Int>,
        of values: borrowing ReusableBytes,
        to url: inout ReusableBytes
    ) {
        url.append(values.bytes(range))
    }

    private static func check(_ path: borrowing Span<UInt8>, isVisible: inout Bool) -> RequestFault? {
        var index = 0
        while index < path.count {
            let byte = path[index]
            if byte <= 0x20 || byte == ASCII.delete { return .targetInvalidByte }
            // RFC 9113, section 8.3.1: `:path` is path and query.
            if byte == ASCII.numberSign { return .targetFragment }
            if byte > ASCII.delete { isVisible = false }
            index &+= 1
        }
        return nil
    }

    private static func check(authority: borrowing Span<UInt8>) -> RequestFault? {
        var index = 0
        while index < authority.count {
            // A delimiter that ends an authority in a URL would turn its rest into a path.
            switch authority[index] {
            case ASCII.slash, ASCII.questionMark, ASCII.numberSign, ASCII.backslash: return .authorityInvalid
            default: index &+= 1
            }
        }
        // It has no user information (RFC 9113, section 8.3.1).
        return authority.firstIndex(of: ASCII.at) == nil ? nil : .userinfo
    }

    /// The range of `:authority`, or of a copy of Host in a request that was converted from HTTP/1.1 (RFC 9113, section 8.3.1).
    private mutating func findAuthority(_ head: borrowing RequestHead) -> Range<Int>? {
        if let authority = self[.authority] { return authority }
        guard head.method != .connect, let index = head.fields.first(.host) else { return nil }
        let start = values.count
        values.append(head.fields.value(at: index))
        return start..<values.count
    }

    /// Adds a missing Host from `:authority`, so that the client's name for this server is in one place; a different
    /// Host is found by the common checks. Visible characters of ASCII, which the authority consists of, are a valid value.
    private func addHost(_ authority: Range<Int>, to head: inout RequestHead) {
        guard head.fields.first(.host) == nil else { return }
        head.fields.append(wellFormed: .host, name: FieldName.host.text.bytes, value: values.bytes(authority))
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
