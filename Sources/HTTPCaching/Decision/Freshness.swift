// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The freshness lifetime and the age of a stored response (RFC 9111 4.2).
public struct Freshness: Hashable, Sendable {
    /// The source of the lifetime, in order of precedence (RFC 9111 4.2.1).
    public enum Source: UInt8, Hashable, Sendable {
        /// A rule of the configuration.
        case rule
        /// `s-maxage`, for shared caches.
        case sharedMaxAge
        /// `max-age`.
        case maxAge
        /// The difference of Expires and Date.
        case expires
        /// A tenth of the time since the last modification (RFC 9111 4.2.2).
        case heuristic
        /// No source gives a lifetime: stale from the beginning.
        case none
    }

    /// The freshness lifetime, in seconds from the generation of the response at the origin.
    public let lifetime: Int
    /// The source of the lifetime.
    public let source: Source
    /// The current age, in seconds (RFC 9111 4.2.3).
    public let age: Int

    /// Whether it may be used without a validation.
    public var isFresh: Bool { lifetime > age }

    /// The time since it became stale, in seconds; 0 while it is fresh.
    public var staleness: Int { max(0, age - lifetime) }

    /// - Parameters:
    ///   - status: of the response.
    ///   - fields: of the response as it was received.
    ///   - requestTime: the time when the request was sent, in seconds since 1970, as are `responseTime` and `now`.
    ///   - responseTime: the time when the response was received.
    ///   - now: the time of its use.
    ///   - isShared: whether the cache serves several users, so that s-maxage counts.
    ///   - heuristicLimit: *the upper limit of heuristic lifetimes, in seconds.
    public init(
        status: Int,
        fields: HeaderFields,
        requestTime: Int,
        responseTime: Int,
        now: Int,
        isShared: Bool,
        heuristicLimit: Int = 86_400
    ) {
        let options = CacheOptions(isShared: isShared, targets: [], heuristicLimit: heuristicLimit)
        let (lifetime, source) = Self.lifetime(
            status: status,
            fields: fields,
            GoverningControl(fields, options),
            responseTime: responseTime,
            options
        )
        let initialAge = Self.initialAge(fields, requestTime: requestTime, responseTime: responseTime)
        self.init(
            lifetime: lifetime,
            source: source,
            age: initialAge.addingSaturated(Self.residentTime(since: responseTime, now: now))
        )
    }

    init(lifetime: Int, source: Source, age: Int) {
        self.lifetime = lifetime
        self.source = source
        self.age = age
    }

    /// How long a response has been stored, in seconds (`resident_time` of RFC 9111 4.2.3).
    ///
    /// A response time in the future means that the clock was set back since: the real age is unknown, and the response
    /// counts as very old. Clocks that two threads read at different moments may differ by some seconds.
    static func residentTime(since responseTime: Int, now: Int) -> Int {
        guard now < responseTime else { return now.subtractingSaturated(responseTime) }
        return responseTime.subtractingSaturated(now) <= 5 ? 0 : 2_147_483_648
    }

    /// The statuses whose responses may be stored without an explicit lifetime (RFC 9110 15.1).
    public static func isHeuristicallyCacheable(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501: true
        default: false
        }
    }

    /// RFC 9111 4.2.1 and 4.2.2.
    static func lifetime(
        status: Int,
        fields: HeaderFields,
        _ governing: GoverningControl,
        responseTime: Int,
        _ options: CacheOptions
    ) -> (Int, Source) {
        let control = governing.control
        let dateValue = CacheDate.value(.date, in: fields, now: responseTime) ?? responseTime
        if options.isShared, let seconds = control.sharedMaxAge { return (seconds, .sharedMaxAge) }
        if let seconds = control.maxAge { return (seconds, .maxAge) }
        if !governing.isTargeted, fields.contains(.expires) {
            // An invalid date, such as `0`, means the past (RFC 9111 5.3).
            let expires = CacheDate.value(.expires, in: fields, now: responseTime)
            return (max(0, (expires ?? dateValue).subtractingSaturated(dateValue)), .expires)
        }
        guard control.isPublic || isHeuristicallyCacheable(status),
            let modified = CacheDate.value(.lastModified, in: fields, now: responseTime), modified < dateValue
        else { return (0, .none) }
        return (min(dateValue.subtractingSaturated(modified) / 10, options.heuristicLimit), .heuristic)
    }

    /// The corrected initial age, with the names of RFC 9111 4.2.3.
    static func initialAge(_ fields: HeaderFields, requestTime: Int, responseTime: Int) -> Int {
        let dateValue = CacheDate.value(.date, in: fields, now: responseTime) ?? responseTime
        let apparentAge = max(0, responseTime.subtractingSaturated(dateValue))
        let responseDelay = max(0, responseTime.subtractingSaturated(requestTime))
        let correctedAgeValue = ageValue(fields).addingSaturated(responseDelay)
        return max(apparentAge, correctedAgeValue)
    }

    /// The first member of the first Age field; it is ignored if it is not a number (RFC 9111 5.1).
    private static func ageValue(_ fields: HeaderFields) -> Int {
        guard let index = fields.first(.age) else { return 0 }
        let value = fields.value(at: index)
        var members = ListMembers()
        guard let first = members.next(in: value) else { return 0 }
        let text = value.extracting(first)
        if let age = DecimalNumber.parse(text) { return min(age, 2_147_483_648) }
        // A number that does not fit an Int means a very old response.
        for index in 0..<text.count where !ASCII.isDigit(text[index]) { return 0 }
        return text.isEmpty ? 0 : 2_147_483_648
    }
}
