public import HTTPCore

/// A rule of the cache's owner about what is stored, of which the first that fits decides: what the hook
/// `dataTaskWillCacheResponse` is to a program.
public struct CacheRule: Hashable, Sendable {
    public enum Action: Hashable, Sendable {
        /// To be stored, with a lifetime in seconds in place of the response's own. It never overrides what forbids
        /// storing (`no-store`, `private`, `Vary: *`, credentials).
        case store(lifetime: Int?)
        /// Not to be stored.
        case skip
    }

    /// `/v1/*`: a `*` stands for any run of bytes, in path and query; nil for every target.
    public var path: PathPattern?
    /// Empty for every status; a `store` rule then means those that may be stored without a lifetime (RFC 9110 15.1).
    public var statuses: [Int]
    /// `text/html`, `image/*`; nil for every type. Parameters do not count.
    public var contentType: String?
    /// nil for every method.
    public var method: HTTPMethod?
    public var action: Action
    /// Names of fields that are dropped before storing, in any case.
    public var removedFields: [String]
    /// Fields that replace all of their names before storing. They must be valid (`HTTPFields.set(name:value:)`).
    public var setFields: [(name: String, value: String)] {
        get { replacements.map { ($0.name, $0.value) } }
        set { replacements = newValue.map { Replacement(name: $0.name, value: $0.value) } }
    }
    private var replacements: [Replacement]
    /// Larger bodies are not stored, in bytes.
    public var maximumBytes: Int?

    private struct Replacement: Hashable, Sendable {
        var name: String
        var value: String
    }

    public init(
        path: String? = nil,
        statuses: [Int] = [],
        contentType: String? = nil,
        method: HTTPMethod? = nil,
        action: Action,
        removedFields: [String] = [],
        setFields: [(name: String, value: String)] = [],
        maximumBytes: Int? = nil
    ) {
        self.path = path.map { PathPattern($0) }
        self.statuses = statuses
        self.contentType = contentType
        self.method = method
        self.action = action
        self.removedFields = removedFields
        replacements = setFields.map { Replacement(name: $0.name, value: $0.value) }
        self.maximumBytes = maximumBytes
    }

    /// - Parameter target: path and query of the request.
    package func fits(
        method: HTTPMethod,
        target: borrowing Span<UInt8>,
        status: Int,
        response: HTTPFields
    ) -> Bool {
        if let wanted = self.method, wanted != method { return false }
        if statuses.isEmpty {
            if case .store = action, !Freshness.isHeuristicallyCacheable(status) { return false }
        } else if !statuses.contains(status) {
            return false
        }
        if let path, !path.matches(target) { return false }
        if let contentType {
            guard let index = response.first(.contentType) else { return false }
            let value = response.value(at: index)
            let end = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
            let type = value.extracting(value.trimmingBlanks(0..<end))
            guard PathPattern(contentType.lowercased()).matches(Self.lowercased(type).span) else { return false }
        }
        return true
    }

    private static func lowercased(_ text: borrowing Span<UInt8>) -> [UInt8] {
        var bytes = [UInt8](copying: text)
        for index in bytes.indices { bytes[index] = ASCII.lowercased(bytes[index]) }
        return bytes
    }

    /// The fields as they are to be judged and stored.
    public func changed(_ response: HTTPFields) -> HTTPFields {
        var fields = response
        for name in removedFields { fields.remove(name: name) }
        for field in replacements { try? fields.set(name: field.name, value: field.value) }
        return fields
    }
}

/// Text in which `*` stands for any run of bytes.
public struct PathPattern: Hashable, Sendable {
    private let pieces: [[UInt8]]

    public init(_ text: String) {
        pieces = text.utf8.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false).map(Array.init)
    }

    /// Whether all of `text` is what the pattern says.
    package func matches(_ text: borrowing Span<UInt8>) -> Bool {
        let first = pieces[0]
        guard pieces.count > 1 else { return text.equals(first.span) }
        let last = pieces[pieces.count - 1]
        guard text.count >= first.count + last.count, text.extracting(0..<first.count).equals(first.span),
            text.extracting(text.count - last.count..<text.count).equals(last.span)
        else { return false }
        // The pieces between are found one behind the other, each as early as can be.
        var place = first.count
        let end = text.count - last.count
        for piece in pieces[1..<(pieces.count - 1)] {
            while place + piece.count <= end, !text.extracting(place..<place + piece.count).equals(piece.span) {
                place += 1
            }
            guard place + piece.count <= end else { return false }
            place += piece.count
        }
        return true
    }
}

/// What the rules and RFC 9111 together say of a response.
public enum StoreVerdict: Sendable {
    /// Store these fields.
    case store(fields: HTTPFields, ruleLifetime: Int?, maximumBytes: Int?)
    case skip(Storability.Reason)

    /// - Parameters:
    ///   - target: path and query of the request, such as `/v1/x?y`.
    ///   - rules: of which the first that fits decides; where none does, RFC 9111 alone.
    public init(
        _ request: CacheRequest,
        target: borrowing Span<UInt8>,
        status: Int,
        response: HTTPFields,
        rules: [CacheRule],
        _ options: CacheOptions
    ) {
        var fields = response
        var lifetime: Int?
        var maximumBytes: Int?
        let rule = rules.first {
            $0.fits(method: request.method, target: target, status: status, response: response)
        }
        if let rule {
            guard case .store(let ruleLifetime) = rule.action else {
                self = .skip(.rule)
                return
            }
            fields = rule.changed(response)
            lifetime = ruleLifetime
            maximumBytes = rule.maximumBytes
        }
        let verdict = Storability.judge(
            request,
            status: status,
            response: fields,
            options,
            hasRuleLifetime: lifetime != nil
        )
        switch verdict {
        case .notStorable(let reason): self = .skip(reason)
        case .storable:
            if let maximumBytes, let index = response.first(.contentLength),
                let length = DecimalNumber.parse(response.value(at: index)), length > maximumBytes
            {
                self = .skip(.tooLarge)
            } else {
                self = .store(fields: fields, ruleLifetime: lifetime, maximumBytes: maximumBytes)
            }
        }
    }
}
