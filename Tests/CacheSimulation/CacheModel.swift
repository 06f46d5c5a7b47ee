// SPDX-License-Identifier: Apache-2.0
/// The model's form of a request.
struct ModelRequest {
    enum Policy { case `protocol`, reload, elseLoad, dontLoad }

    var method: String
    var fields: ModelFields
    var policy = Policy.protocol
    let owner: ModelOwner
    let control: ModelDirectives
    let wantsNoCache: Bool

    init(method: String, fields: ModelFields, policy: Policy = .protocol, owner: ModelOwner = ModelOwner()) {
        self.method = method
        self.fields = fields
        self.policy = policy
        self.owner = owner
        var control = ModelDirectives(fields)
        for name in owner.ignored { control.forget(name) }
        self.control = control
        // RFC 9111 5.4: Pragma counts where there is no Cache-Control.
        let byPragma =
            !fields.has("cache-control") && !owner.ignored.contains("pragma")
            && fields.members("pragma").contains("no-cache")
        wantsNoCache = control.says("no-cache") || byPragma
    }

    var isRead: Bool { method == "GET" || method == "HEAD" }
    var isServable: Bool {
        isRead && !owner.bypasses && !fields.has("if-match") && !fields.has("if-unmodified-since")
    }
    var hasCredentials: Bool { fields.has("authorization") }
}

/// The rules of the owner that hold for a request.
struct ModelOwner {
    var bypasses = false
    /// Directives that are not obeyed.
    var ignored: Set<String> = []
    /// Seconds of grace.
    var whileRevalidating = 0
    var onErrors = 0
    var retryAfter = 0
}

/// The model's form of a stored response.
struct ModelEntry {
    var status: Int
    var fields: ModelFields
    /// The names in Vary, sorted, with the request's values.
    var selecting: [[String?]]
    var requestTime: Int
    var responseTime: Int
    var initialAge: Int
    var digest: Int
    var body: String
    var tags: Set<String>
    var isMarkedStale = false
    /// Identifies a head; copies of a head share it.
    var head = 0
    /// Identifies an object in memory.
    var object = 0
    /// The number of a body in a file; nil for a small one.
    var file: Int?
    /// The stored part of the body; nil when all of it is stored.
    var parts: ModelParts? {
        didSet { if let parts { body = parts.body } }
    }

    var control: ModelDirectives { ModelDirectives(fields) }
    var date: Int { ModelText.seconds(fields.first("date")) ?? responseTime }
    var lastModified: Int? { ModelText.seconds(fields.first("last-modified")) }
    var etag: String? { fields.first("etag") }
    var hasValidator: Bool { etag != nil || lastModified != nil }
}

/// A short model of RFC 9111, with the choices of docs/develop/cache.md, and with independent parsing and arithmetic.
struct CacheModel {
    let isShared: Bool

    enum Use: Equatable { case response(refreshes: Bool), validate, timeout }
    enum Storing { case yes, notForThisRequest, no }
    enum Failure { case status(Int), unreachable, noConnection, untrusted, other }

    // MARK: Storing (section 3)

    static let aboutRequests: Set = [401, 407, 408, 411, 412, 413, 416, 417, 421, 425, 428, 429, 431, 511]
    static let heuristic: Set = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]
    static let understood: Set = [200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 451, 501]

    func storing(_ request: ModelRequest, _ status: Int, _ fields: ModelFields) -> Storing {
        let control = ModelDirectives(fields)
        if status < 200 || status == 206 || status == 304 || Self.aboutRequests.contains(status) || control.isMalformed
        {
            return .no
        }
        if control.has("must-understand") ? !Self.understood.contains(status) : control.has("no-store") { return .no }
        if isShared, control.has("private") { return .no }
        let isForAll = control.has("public") || control["s-maxage"] != nil
        if isShared, request.hasCredentials, !isForAll, !control.has("must-revalidate") { return .notForThisRequest }
        let isCookieTakenOut = control.named["private"]?.contains("set-cookie") == true
        if isShared, fields.has("set-cookie"), !isForAll, !isCookieTakenOut { return .no }
        if fields.members("vary").contains("*") || fields.all("etag").count > 1 { return .no }
        let hasLifetime =
            control.has("public") || control["max-age"] != nil || fields.has("expires")
            || (isShared ? control["s-maxage"] != nil : control.says("private"))
        if !hasLifetime, !Self.heuristic.contains(status) { return .no }
        if request.owner.bypasses { return .notForThisRequest }
        // The client's directives for this exchange do not affect the stored response.
        return request.control.has("no-store") || request.control.isMalformed ? .notForThisRequest : .yes
    }

    /// The fields that are kept (3.1, 5.2.2.4, 5.2.2.7).
    func kept(_ fields: ModelFields) -> ModelFields {
        let control = ModelDirectives(fields)
        var dropped: Set = ["age", "content-length", "connection", "keep-alive", "trailer"]
        dropped.formUnion(fields.members("connection").map { $0.lowercased() })
        dropped.formUnion(control.named["no-cache"] ?? [])
        if isShared { dropped.formUnion(control.named["private"] ?? []) }
        var kept = fields
        kept.lines.removeAll { dropped.contains($0.name) }
        return kept
    }

    static func vary(_ fields: ModelFields) -> [String] {
        Array(Set(fields.members("vary").map { $0.lowercased() })).sorted()
    }

    static func selecting(_ names: [String], _ request: ModelFields) -> [[String?]] {
        names.map { name in
            guard request.has(name) else { return [name, nil] }
            guard name.hasPrefix("accept") else { return [name, request.all(name).joined(separator: ", ")] }
            let members = request.members(name).map { $0.lowercased().filter { $0 != " " } }
            return [name, (name == "accept-encoding" ? members.sorted() : members).joined(separator: ",")]
        }
    }

    // MARK: Freshness (4.2)

    func lifetime(_ entry: ModelEntry) -> Int {
        if entry.isMarkedStale { return 0 }
        let control = entry.control
        if isShared, let seconds = control["s-maxage"] { return seconds }
        if let seconds = control["max-age"] { return seconds }
        if entry.fields.has("expires") {
            return max(0, (ModelText.seconds(entry.fields.first("expires")) ?? entry.date) - entry.date)
        }
        guard control.has("public") || Self.heuristic.contains(entry.status), let modified = entry.lastModified else {
            return 0
        }
        return max(0, min((entry.date - modified) / 10, 86_400))
    }

    static func initialAge(_ fields: ModelFields, requestTime: Int, responseTime: Int) -> Int {
        let apparent = max(0, responseTime - (ModelText.seconds(fields.first("date")) ?? responseTime))
        let told = fields.first("age").flatMap { Int($0) } ?? 0
        return max(apparent, told + max(0, responseTime - requestTime))
    }

    func age(_ entry: ModelEntry, _ now: Int) -> Int {
        // A clock that was set back says nothing of how long ago it was; some seconds are two threads' readings.
        if now < entry.responseTime { return entry.initialAge + (entry.responseTime - now <= 5 ? 0 : 1 << 31) }
        return entry.initialAge + now - entry.responseTime
    }

    func needsValidation(_ entry: ModelEntry) -> Bool { entry.control.has("no-cache") || entry.control.isMalformed }
    func mustRevalidate(_ entry: ModelEntry) -> Bool {
        entry.control.has("must-revalidate") || (isShared && entry.control.has("proxy-revalidate"))
    }
    func impliesRevalidation(_ entry: ModelEntry) -> Bool { isShared && entry.control["s-maxage"] != nil }

    /// Whether the owner may have it used stale: it had a lifetime, is no error, and nothing forbids it.
    func mayProlong(_ entry: ModelEntry) -> Bool {
        lifetime(entry) > 0 && entry.status < 500 && !needsValidation(entry) && !mustRevalidate(entry)
            && !impliesRevalidation(entry)
    }

    // MARK: Using (4, 4.2.4, 5.2.1, RFC 5861, RFC 8246)

    /// - Parameter entry: that the request selects.
    func use(_ request: ModelRequest, _ entry: ModelEntry?, _ now: Int, isDoubted: Bool) -> Use {
        let mayAsk = !request.control.has("only-if-cached") && request.policy != .dontLoad
        let elsewhere: Use = mayAsk ? .validate : .timeout
        guard request.isServable else { return request.owner.bypasses ? elsewhere : .validate }
        guard let entry, request.policy != .reload else { return elsewhere }
        let (lifetime, age) = (lifetime(entry), age(entry, now))
        let isFresh = lifetime > age
        if needsValidation(entry) { return elsewhere }
        if !isFresh, mustRevalidate(entry) || isDoubted { return elsewhere }
        if request.policy != .protocol { return .response(refreshes: false) }
        let control = request.control
        if request.wantsNoCache || control.isMalformed { return elsewhere }
        let isYoung = control["max-age"].map { age <= $0 } ?? true
        if isFresh {
            if !isYoung, !entry.control.has("immutable") { return elsewhere }
            if let wanted = control["min-fresh"], lifetime - age < wanted { return elsewhere }
            return .response(refreshes: false)
        }
        guard !entry.isMarkedStale, isYoung, control["min-fresh"] == nil else { return elsewhere }
        let staleness = age - lifetime
        let grace = entry.control["stale-while-revalidate"] ?? (mayProlong(entry) ? request.owner.whileRevalidating : 0)
        let takesStale = control["max-age"] == nil || control["max-stale"] != nil
        if grace > 0, staleness <= grace, mayAsk, takesStale { return .response(refreshes: true) }
        if let limit = control["max-stale"], !impliesRevalidation(entry), staleness <= limit {
            return .response(refreshes: false)
        }
        return elsewhere
    }

    /// The decision after a failed request to the origin (4.3.3, 5.2.2.2, RFC 5861 4).
    ///
    /// - Returns: nil when the failure is passed on.
    func use(after failure: Failure, _ request: ModelRequest, _ entry: ModelEntry?, _ now: Int, isDoubted: Bool) -> Use?
    {
        guard let entry, request.isServable else { return nil }
        let (lifetime, age) = (lifetime(entry), age(entry, now))
        switch failure {
        case .untrusted, .other: return nil
        case .status(let status): if ![500, 502, 503, 504].contains(status) { return nil }
        case .unreachable, .noConnection:
            if needsValidation(entry) || (mustRevalidate(entry) && lifetime <= age) { return .timeout }
        }
        guard !needsValidation(entry), !mustRevalidate(entry), !request.wantsNoCache else { return nil }
        guard !entry.isMarkedStale, !isDoubted else { return nil }
        var limit = entry.control["stale-if-error"] ?? (mayProlong(entry) ? request.owner.onErrors : 0)
        if !impliesRevalidation(entry) { limit = max(limit, request.control["stale-if-error"] ?? 0) }
        return lifetime > age || (limit > 0 && age - lifetime <= limit) ? .response(refreshes: false) : nil
    }

    // MARK: Answering (4.3.2, RFC 9110 13 and 14)

    struct Response: Equatable {
        var status: Int
        var age: Int
        var fields: [String]
        var body: String
    }

    static let ofRepresentation: Set = ["content-type", "content-encoding", "content-language", "content-range"]

    func response(_ request: ModelRequest, _ entry: ModelEntry, _ now: Int, cookies: [String] = []) -> Response {
        var fields = entry.fields
        // A cookie in a 304 is for the client of the request.
        if !cookies.isEmpty { fields.lines.removeAll { $0.name == "set-cookie" } }
        fields.lines += cookies.map { (name: "set-cookie", value: $0) }
        let body = request.method == "HEAD" ? "" : entry.body
        var response = Response(status: entry.status, age: age(entry, now), fields: [], body: body)
        if entry.status == 200, Self.isUnchanged(request.fields, entry) {
            (response.status, response.body) = (304, "")
            fields.lines.removeAll { Self.ofRepresentation.contains($0.name) }
        } else if entry.status == 200, request.method == "GET", let range = Self.range(request.fields, entry) {
            let bytes = Array(entry.body.utf8)
            if range.isEmpty {
                (response.status, response.body) = (416, "")
                fields.lines.removeAll { $0.name != "date" && !cookies.contains($0.value) }
                fields.lines.append((name: "content-range", value: "bytes */\(bytes.count)"))
            } else {
                (response.status, response.body) = (206, String(decoding: bytes[range], as: UTF8.self))
                let value = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(bytes.count)"
                fields.lines.append((name: "content-range", value: value))
            }
        }
        response.fields = fields.sorted
        return response
    }

    static func weak(_ tag: String) -> String { tag.hasPrefix("W/") ? String(tag.dropFirst(2)) : tag }
    static func isStrong(_ tag: String) -> Bool { !tag.hasPrefix("W/") }

    static func isUnchanged(_ request: ModelFields, _ entry: ModelEntry) -> Bool {
        if request.has("if-none-match") {
            return request.members("if-none-match").contains { $0 == "*" || entry.etag.map(weak) == weak($0) }
        }
        guard let since = ModelText.seconds(request.first("if-modified-since")) else { return false }
        return (entry.lastModified ?? entry.date) <= since
    }

    /// - Returns: nil for the whole body, an empty range for none.
    static func range(_ request: ModelFields, _ entry: ModelEntry) -> Range<Int>? {
        guard let text = request.first("range"), text.hasPrefix("bytes="), !text.contains(",") else { return nil }
        if let condition = request.first("if-range") {
            if condition.hasSuffix("\"") {
                guard isStrong(condition), condition == entry.etag else { return nil }
            } else {
                guard let date = ModelText.seconds(condition), date == entry.lastModified, date < entry.date,
                    entry.fields.has("date")
                else { return nil }
            }
        }
        let length = entry.body.utf8.count
        let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard let first = ends[0] else { return max(0, length - (ends[1] ?? 0))..<length }
        let end = min(length, (ends[1] ?? length - 1) + 1)
        return first < length ? first..<end : 0..<0
    }
}
