// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore

/// The head of a stored response, with the conditions for its reuse. The store has the body.
public struct StoredResponse: Sendable {
    /// The status of the response.
    public let status: Int
    /// The fields as received, without those of one connection and without Age and Content-Length, which each use makes
    /// anew.
    public internal(set) var fields: HeaderFields
    /// The fields of the request that select this response.
    public internal(set) var selecting: SelectingFields
    /// The time when the request was sent, in seconds since 1970.
    public internal(set) var requestTime: Int
    /// The time when the response, or the last validation, was received.
    public internal(set) var responseTime: Int
    /// The age at `responseTime`: the corrected initial age of RFC 9111 4.2.3.
    public internal(set) var initialAge: Int
    /// The lifetime from a rule of the configuration, in seconds.
    public internal(set) var ruleLifetime: Int?
    /// Whether a shared cache stored it. A shared cache does not use responses that a private cache stored.
    public let isShared: Bool
    /// The security policy that the response came under; it is used under no other.
    public let digest: PolicyDigest
    var terms: ReuseTerms
    /// The Date field, otherwise the time of receipt: of several variants the latest is used.
    var date: Int

    /// Makes the stored form of a storable response.
    ///
    /// - Parameters:
    ///   - status: the status of the response.
    ///   - response: its fields as they were received.
    ///   - request: the request.
    ///   - requestTime: the time when the request was sent, in seconds since 1970, as is `responseTime`, the time of
    ///     the response head.
    ///   - responseTime: the time when the response came, in seconds since 1970.
    ///   - digest: the security policy that the response came under.
    ///   - ruleLifetime: the lifetime from a rule, in seconds; nil without one.
    ///   - siblings: the responses that are stored under the key already: if this response has no Vary and one of them
    ///     has, that Vary applies (RFC 9111 4.1).
    ///   - options: the settings of the cache.
    public init(
        status: Int,
        response: HeaderFields,
        to request: CacheRequest,
        requestTime: Int,
        responseTime: Int,
        digest: PolicyDigest,
        ruleLifetime: Int? = nil,
        siblings: [StoredResponse] = [],
        _ options: CacheOptions
    ) {
        let governing = GoverningControl(response, options)
        self.status = status
        fields = StorableFields.kept(of: response, governing.control, options)
        var names = SelectingFields.names(response)
        if names.isEmpty { names = StoredResponse.variedNames(siblings) }
        selecting = SelectingFields(names: names, request: request.fields)
        self.requestTime = requestTime
        self.responseTime = responseTime
        initialAge = Freshness.initialAge(response, requestTime: requestTime, responseTime: responseTime)
        self.ruleLifetime = ruleLifetime
        isShared = options.isShared
        self.digest = digest
        terms = ReuseTerms(
            status: status,
            fields: response,
            responseTime: responseTime,
            ruleLifetime: ruleLifetime,
            options
        )
        date = CacheDate.value(.date, in: response, now: responseTime) ?? responseTime
    }

    /// A response from a store.
    init(
        status: Int,
        fields: HeaderFields,
        selecting: SelectingFields,
        requestTime: Int,
        responseTime: Int,
        initialAge: Int,
        ruleLifetime: Int?,
        expiredAge: Int?,
        isShared: Bool,
        isStale: Bool,
        digest: PolicyDigest,
        _ options: CacheOptions
    ) {
        self.status = status
        self.fields = fields
        self.selecting = selecting
        self.requestTime = requestTime
        self.responseTime = responseTime
        self.initialAge = initialAge
        self.ruleLifetime = ruleLifetime
        self.expiredAge = expiredAge
        self.isShared = isShared
        self.digest = digest
        isMarkedStale = isStale
        terms = ReuseTerms(
            status: status,
            fields: fields,
            responseTime: responseTime,
            ruleLifetime: ruleLifetime,
            options
        )
        date = CacheDate.value(.date, in: fields, now: responseTime) ?? responseTime
        if let expiredAge { terms.limitLifetime(to: expiredAge) }
        if isStale { terms.makeStale() }
    }

    /// Whether it is known to differ from the origin's current response (by a HEAD).
    public private(set) var isMarkedStale = false

    mutating func markStale() {
        isMarkedStale = true
        terms.makeStale()
    }

    /// The age at which an operator ended its lifetime, in seconds, until the next validation.
    private(set) var expiredAge: Int?

    /// Ends its lifetime at `now`, in seconds since 1970. It may be used stale as if its lifetime had always ended there.
    mutating func expire(now: Int) {
        let limit = min(freshness(now: now).age, expiredAge ?? .max)
        // After the clock was set back its age is unknown.
        expiredAge = now < responseTime ? 0 : limit
        terms.limitLifetime(to: expiredAge ?? limit)
    }

    /// Parses the terms again after a change of the fields.
    mutating func reset(_ options: CacheOptions) {
        isMarkedStale = false
        expiredAge = nil
        terms = ReuseTerms(
            status: status,
            fields: fields,
            responseTime: responseTime,
            ruleLifetime: ruleLifetime,
            options
        )
        date = CacheDate.value(.date, in: fields, now: responseTime) ?? responseTime
    }

    /// Its freshness at `now`, in seconds since 1970.
    public func freshness(now: Int) -> Freshness {
        Freshness(
            lifetime: terms.lifetime,
            source: terms.source,
            age: initialAge.addingSaturated(Freshness.residentTime(since: responseTime, now: now))
        )
    }

    /// Whether the response may be used for this request, apart from freshness: the selecting fields match, it was
    /// received under the same policy, and a cache of this kind stored it.
    public func matches(_ request: CacheRequest, under digest: PolicyDigest, _ options: CacheOptions) -> Bool {
        guard self.digest == digest, isShared || !options.isShared else { return false }
        return selecting.isEmpty || selecting.matches(request.fields)
    }

    /// Finds the response to use among those of one key: the latest one that matches (RFC 9111 4 and 4.1).
    ///
    /// - Returns: its index in `variants`.
    public static func select(
        among variants: [StoredResponse],
        for request: CacheRequest,
        under digest: PolicyDigest,
        _ options: CacheOptions
    ) -> Int? {
        var found: Int?
        for index in variants.indices where variants[index].matches(request, under: digest, options) {
            if let known = found, variants[index].isOlder(than: variants[known]) { continue }
            found = index
        }
        return found
    }

    /// Whether the other one is later, by Date, otherwise by the time of receipt.
    func isOlder(than other: StoredResponse) -> Bool {
        (date, responseTime) < (other.date, other.responseTime)
    }

    /// The memory of the arrays in the head, in bytes.
    var footprint: Int {
        var size = fields.footprint
        for field in selecting.fields { size += field.name.footprint + (field.value?.footprint ?? 0) + 16 }
        return size
    }

    /// The Vary that was received last among the responses of one key.
    static func variedNames(_ variants: [StoredResponse]) -> [[UInt8]] {
        let varied = variants.filter { !$0.selecting.isEmpty }
        return varied.max { $0.date < $1.date }?.selecting.names ?? []
    }

    // MARK: - Validators

    /// The value of ETag, `W/` included.
    var etag: EntityTag? {
        guard let index = fields.first(.etag) else { return nil }
        return EntityTag(fields.value(at: index))
    }

    /// *The time in seconds since 1970.
    var lastModified: Int? { CacheDate.value(.lastModified, in: fields, now: responseTime) }

    /// Whether it has a validator for conditional requests.
    public var hasValidator: Bool { etag != nil || lastModified != nil }
}

/// An entity tag (RFC 9110 8.8.3).
struct EntityTag: Hashable, Sendable {
    let isWeak: Bool
    /// The tag with its quotes.
    let opaque: [UInt8]

    /// - Returns: nil when the text is not an entity tag.
    init?(_ text: borrowing Span<UInt8>) {
        var start = 0
        if text.count > 2, text[0] == UInt8(ascii: "W"), text[1] == UInt8(ascii: "/") { start = 2 }
        guard text.count >= start + 2, text[start] == UInt8(ascii: "\""), text[text.count - 1] == UInt8(ascii: "\"")
        else { return nil }
        for index in (start + 1)..<(text.count - 1) {
            guard text[index] > 0x20, text[index] != 0x7F, text[index] != UInt8(ascii: "\"") else { return nil }
        }
        isWeak = start > 0
        opaque = [UInt8](copying: text.extracting(start..<text.count))
    }

    var bytes: [UInt8] { isWeak ? Array("W/".utf8) + opaque : opaque }

    /// The comparisons of RFC 9110 8.8.3.2.
    func matchesStrongly(_ other: EntityTag) -> Bool { !isWeak && !other.isWeak && opaque == other.opaque }

    func matchesWeakly(_ other: EntityTag) -> Bool { opaque == other.opaque }
}
