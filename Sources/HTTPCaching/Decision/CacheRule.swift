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

    /// Pattern of the target's path without its query; nil for all. A path with dot segments fits no `store` rule, and
    /// every `skip` rule.
    public var path: PathPattern?
    /// nil for every status; a `store` rule then means those that may be stored without a lifetime (RFC 9110 15.1).
    public var statuses: StatusCodes?
    /// nil for every type, and for none. A response with two types fits a `skip` rule for either, and a `store` rule for
    /// no type.
    public var contentTypes: [MediaTypePattern]?
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
        path: PathPattern? = nil,
        statuses: StatusCodes? = nil,
        contentTypes: [MediaTypePattern]? = nil,
        method: HTTPMethod? = nil,
        action: Action,
        removedFields: [String] = [],
        setFields: [(name: String, value: String)] = [],
        maximumBytes: Int? = nil
    ) {
        self.path = path
        self.statuses = statuses
        self.contentTypes = contentTypes
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
        let stores = if case .store = action { true } else { false }
        if let statuses {
            guard statuses.contains(status) else { return false }
        } else if stores, !Freshness.isHeuristicallyCacheable(status) {
            return false
        }
        if path != nil || stores, PathPattern.hasDotSegments(target) {
            // The origin may take the path for another one (cache deception): no rule has it stored, and none that would
            // skip the other path is got round.
            if stores { return false }
        } else if let path, !path.matches(target) {
            return false
        }
        guard let contentTypes else { return true }
        return stores ? contentTypes.matchOnly(response) : contentTypes.matchAny(response)
    }

    /// The fields as they are to be judged and stored.
    public func changed(_ response: HTTPFields) -> HTTPFields {
        var fields = response
        for name in removedFields { fields.remove(name: name) }
        for field in replacements { try? fields.set(name: field.name, value: field.value) }
        return fields
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
