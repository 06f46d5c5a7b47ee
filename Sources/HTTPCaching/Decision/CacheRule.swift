// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// A rule of the configuration about the storage of responses; the first matching rule decides. It corresponds to a
/// program's hook `dataTaskWillCacheResponse`.
public struct CacheRule: Hashable, Sendable {
    /// The effect of a rule.
    public enum Action: Hashable, Sendable {
        /// Store the response, with a lifetime in seconds instead of its own. It never overrides a prohibition
        /// (`no-store`, `private`, `Vary: *`, credentials).
        case store(lifetime: Int?)
        /// Do not store the response.
        case skip
    }

    /// A pattern for the target's path without its query; nil for all. A path with dot segments matches no `store`
    /// rule, and every `skip` rule.
    public var path: PathPattern?
    /// The statuses; nil for all. A `store` rule with nil matches those that may be stored without a lifetime (RFC 9110
    /// 15.1).
    public var statuses: StatusCodes?
    /// The media types; nil for all, and for responses without one. A response with two types matches a `skip` rule for
    /// either type, and no `store` rule for a type.
    public var contentTypes: [MediaTypePattern]?
    /// The methods; nil for all.
    public var method: HTTPMethod?
    /// The effect on a response that matches.
    public var action: Action
    /// Names of fields that are removed before storage; case-insensitive.
    public var removedFields: [String]
    /// Fields that replace all fields of the same name before storage. They must be valid
    /// (`HeaderFields.set(name:value:)`).
    public var setFields: [(name: String, value: String)] {
        get { replacements.map { ($0.name, $0.value) } }
        set { replacements = newValue.map { Replacement(name: $0.name, value: $0.value) } }
    }
    private var replacements: [Replacement]
    /// The largest stored body, in bytes.
    public var maximumBytes: Int?
    /// Its place in the list of the configuration, for counts.
    package var place = 0

    private struct Replacement: Hashable, Sendable {
        var name: String
        var value: String
    }

    /// A rule; nil matches everything.
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
        response: HeaderFields
    ) -> Bool {
        if let wanted = self.method, wanted != method { return false }
        let stores = if case .store = action { true } else { false }
        if let statuses {
            guard statuses.contains(status) else { return false }
        } else if stores, !Freshness.isHeuristicallyCacheable(status) {
            return false
        }
        if path != nil || stores, PathPattern.hasDotSegments(target) {
            // The origin may interpret the path differently (cache deception): no rule stores it, and every rule that
            // skips the other path still applies.
            if stores { return false }
        } else if let path, !path.matches(target) {
            return false
        }
        guard let contentTypes else { return true }
        return stores ? contentTypes.matchOnly(response) : contentTypes.matchAny(response)
    }

    /// The fields that are evaluated and stored.
    public func changed(_ response: HeaderFields) -> HeaderFields {
        var fields = response
        for name in removedFields { fields.remove(name: name) }
        for field in replacements { try? fields.set(name: field.name, value: field.value) }
        return fields
    }
}

/// The decision of the rules and RFC 9111 about the storage of a response.
public enum StoreVerdict: Sendable {
    /// Store these fields.
    case store(fields: HeaderFields, ruleLifetime: Int?, maximumBytes: Int?)
    /// Do not store the response, for this reason.
    case skip(Storability.Reason)

    /// - Parameters:
    ///   - request: the request.
    ///   - target: path and query of the request, such as `/v1/x?y`.
    ///   - status: the status of the response.
    ///   - response: the response.
    ///   - rules: the first matching rule decides; without one, only RFC 9111 applies.
    ///   - options: the settings of the cache.
    public init(
        _ request: CacheRequest,
        target: borrowing Span<UInt8>,
        status: Int,
        response: HeaderFields,
        rules: [CacheRule],
        _ options: CacheOptions
    ) {
        let rule = rules.first {
            $0.fits(method: request.method, target: target, status: status, response: response)
        }
        self.init(request, status: status, response: response, rule: rule, options)
    }

    /// - Parameter rule: the one that decides; nil when none matches.
    init(
        _ request: CacheRequest,
        status: Int,
        response: HeaderFields,
        rule: CacheRule?,
        _ options: CacheOptions
    ) {
        var fields = response
        var lifetime: Int?
        var maximumBytes: Int?
        if let rule {
            guard case .store(let ruleLifetime) = rule.action else {
                self = .skip(.rule)
                return
            }
            fields = rule.changed(response)
            lifetime = ruleLifetime
            maximumBytes = rule.maximumBytes
        }
        let verdict = Storability.evaluate(
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
