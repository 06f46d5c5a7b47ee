public import HTTPCore

/// How long a stored response may be used without asking the origin, and how old it is (RFC 9111 4.2).
public struct Freshness: Hashable, Sendable {
    /// Where the lifetime comes from, in order of precedence (RFC 9111 4.2.1).
    public enum Source: Hashable, Sendable {
        case sharedMaxAge, maxAge, expires
        /// A tenth of the time since the last modification (RFC 9111 4.2.2).
        case heuristic
        /// Nothing says how long: stale from the beginning.
        case none
    }

    /// The freshness lifetime, in seconds from when the origin made the response.
    public let lifetime: Int
    public let source: Source
    /// The current age, in seconds (RFC 9111 4.2.3).
    public let age: Int

    public var isFresh: Bool { lifetime > age }

    /// How long it has been stale, in seconds; 0 while it is fresh.
    public var staleness: Int { max(0, age - lifetime) }

    /// - Parameters:
    ///   - status: of the response.
    ///   - fields: of the response as it was received.
    ///   - requestTime: when the request was sent, in seconds since 1970; also `responseTime` and `now`.
    ///   - responseTime: when the response was received.
    ///   - now: when it is to be used.
    ///   - isShared: whether the cache serves several users: then s-maxage counts.
    ///   - heuristicLimit: the longest lifetime that may be guessed, in seconds.
    public init(
        status: Int,
        fields: HTTPFields,
        requestTime: Int,
        responseTime: Int,
        now: Int,
        isShared: Bool,
        heuristicLimit: Int = 86_400
    ) {
        let dateValue = Self.date(.date, in: fields, now: responseTime) ?? responseTime
        age = Self.currentAge(fields, dateValue, requestTime: requestTime, responseTime: responseTime, now: now)

        let control = CacheControl(fields)
        if isShared, let seconds = control.sharedMaxAge {
            (lifetime, source) = (seconds, .sharedMaxAge)
        } else if let seconds = control.maxAge {
            (lifetime, source) = (seconds, .maxAge)
        } else if fields.contains(.expires) {
            // What is no date, `0` above all, lies in the past (RFC 9111 5.3).
            let expires = Self.date(.expires, in: fields, now: responseTime)
            (lifetime, source) = (max(0, (expires ?? dateValue) - dateValue), .expires)
        } else if control.isPublic || Self.isHeuristicallyCacheable(status),
            let modified = Self.date(.lastModified, in: fields, now: responseTime), modified < dateValue
        {
            (lifetime, source) = (min((dateValue - modified) / 10, heuristicLimit), .heuristic)
        } else {
            (lifetime, source) = (0, .none)
        }
    }

    /// The statuses whose responses may be stored without an explicit lifetime (RFC 9110 15.1).
    public static func isHeuristicallyCacheable(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501: true
        default: false
        }
    }

    /// RFC 9111 4.2.3, with its names.
    private static func currentAge(
        _ fields: HTTPFields,
        _ dateValue: Int,
        requestTime: Int,
        responseTime: Int,
        now: Int
    ) -> Int {
        let apparentAge = max(0, responseTime - dateValue)
        let responseDelay = max(0, responseTime - requestTime)
        let correctedAgeValue = ageValue(fields) + responseDelay
        let correctedInitialAge = max(apparentAge, correctedAgeValue)
        let residentTime = max(0, now - responseTime)
        return correctedInitialAge + residentTime
    }

    /// The first member of the first Age; one that is no number is ignored (RFC 9111 5.1).
    private static func ageValue(_ fields: HTTPFields) -> Int {
        guard let index = fields.first(.age) else { return 0 }
        let value = fields.value(at: index)
        var members = ListMembers()
        guard let first = members.next(in: value) else { return 0 }
        let text = value.extracting(first)
        if let age = DecimalNumber.parse(text) { return min(age, 2_147_483_648) }
        // A number that no Int holds is older than anything.
        for index in 0..<text.count where !ASCII.isDigit(text[index]) { return 0 }
        return text.isEmpty ? 0 : 2_147_483_648
    }

    /// The date of a field; nil when it is absent, malformed, or there twice with different values.
    private static func date(_ name: FieldName, in fields: HTTPFields, now: Int) -> Int? {
        guard let index = fields.first(name), let date = HTTPDate.parse(fields.value(at: index), now: now) else {
            return nil
        }
        if let second = fields.next(name, after: index), !fields.value(at: second).equals(fields.value(at: index)) {
            return nil
        }
        return date
    }
}
