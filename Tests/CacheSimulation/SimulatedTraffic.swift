// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// Random requests of clients and responses of origins.
struct SimulatedTraffic {
    var random: SeededGenerator
    /// The current version of each URI at an origin.
    private var versions: [Int: Int] = [:]

    static let paths = [
        "http://a.example/0", "http://a.example/1", "http://a.example/2?q", "http://b.example/3", "http://b.example/4",
    ]
    /// The URI that is mostly read in parts.
    static let inParts = 4

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    mutating func below(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
    mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
    mutating func pick<Element>(_ all: [Element]) -> Element { all[below(all.count)] }

    // MARK: Requests

    mutating func request(_ uri: Int, now: Int) -> ModelRequest {
        var fields: [(String, String)] = []
        let isInParts = uri == Self.inParts
        if chance(isInParts ? 5 : 60) {
            fields.append(("Accept-Language", pick(["en", "de", "EN", "de,en", "de , en"])))
        }
        if chance(isInParts ? 5 : 40) {
            fields.append(("Accept-Encoding", pick(["gzip", "br", "gzip, br", "br,gzip"])))
        }
        if chance(isInParts ? 1 : 10) { fields.append(("Cookie", pick(["a", "b"]))) }
        if chance(isInParts ? 1 : 10) { fields.append(("Authorization", pick(["Basic a", "Basic b"]))) }
        if chance(isInParts ? 8 : 25) { fields.append(("Cache-Control", requestControl())) }
        if chance(3) { fields.append(("Pragma", "no-cache")) }
        if chance(8) {
            fields.append(("If-None-Match", pick(["*", tag(uri), "\"no\"", "W/" + tag(uri) + ", \"no\""])))
        }
        if chance(5) { fields.append(("If-Modified-Since", ModelText.date(now - pick([0, 50, 5000])))) }
        if chance(isInParts ? 92 : 15) {
            let ranges = [
                "bytes=0-3", "bytes=2-", "bytes=-4", "bytes=4-9", "bytes=0-15", "bytes=10-40", "bytes=-20",
                "bytes=5-\(5 + below(60))", "bytes=\(below(90))-90",
            ]
            let others = ["bytes=900-", "bytes=0-1,3-4", "lines=1-"]
            fields.append(("Range", pick(chance(isInParts ? 97 : 70) ? ranges : others)))
            if chance(30) {
                fields.append(("If-Range", pick([tag(uri), "W/" + tag(uri), ModelText.date(now - 5000)])))
            }
        }
        if chance(1) { fields.append((pick(["If-Match", "If-Unmodified-Since"]), "\"x\"")) }
        let policy: ModelRequest.Policy = chance(90) ? .protocol : pick([.reload, .elseLoad, .dontLoad])
        let method = chance(90) ? "GET" : "HEAD"
        return ModelRequest(method: method, fields: ModelFields(fields), policy: policy, owner: owner())
    }

    /// The rules of the owner for a request.
    private mutating func owner() -> ModelOwner {
        var owner = ModelOwner()
        owner.bypasses = chance(3)
        for name in ["no-cache", "no-store", "max-age", "min-fresh", "pragma"] where chance(8) {
            owner.ignored.insert(name)
        }
        if chance(30) { owner.whileRevalidating = pick([1, 30, 300]) }
        if chance(30) { owner.onErrors = pick([1, 30, 300]) }
        if chance(50) { owner.retryAfter = pick([1, 20, 200]) }
        return owner
    }

    private mutating func requestControl() -> String {
        let all = [
            "no-cache", "max-age=0", "max-age=\(below(60))", "max-stale", "max-stale=\(below(60))",
            "min-fresh=\(below(30))",
            "only-if-cached", "no-store", "stale-if-error=\(below(90))", "MAX-AGE=30", "max-age=x", "no-transform",
            "=1",
        ]
        return chance(60) ? pick(all) : "\(pick(all)), \(pick(all))"
    }

    mutating func unsafeRequest() -> ModelRequest {
        ModelRequest(method: pick(["POST", "PUT", "DELETE", "FROB"]), fields: ModelFields())
    }

    // MARK: Answers

    struct Reply {
        var status: Int
        var fields: ModelFields
        var body: String
        /// Whether the length of the body is known beforehand.
        var hasLength = true
    }

    /// The second URI's tag is sent as a weak one, and the fourth URI seldom has one.
    private func tag(_ uri: Int) -> String { "\"\(uri)-\(versions[uri] ?? 0)\"" }

    mutating func change(_ uri: Int) { versions[uri, default: 0] += 1 }

    /// - Parameter asked: the request to the origin.
    mutating func reply(_ uri: Int, to asked: ModelRequest, date: Int, now: Int) -> Reply {
        let isInParts = uri == Self.inParts
        if chance(isInParts ? 4 : 15) { change(uri) }
        let version = versions[uri] ?? 0
        var fields: [(String, String)] = []
        if chance(90) { fields.append(("Date", ModelText.date(date))) }
        if chance(10) { fields.append(("Age", pick(["0", "5", "40", "x"]))) }
        if uri < 3 || isInParts || chance(20) { fields.append(("ETag", (uri == 1 ? "W/" : "") + tag(uri))) }
        let modified = 1_700_000_000 + version * 97 + uri
        if uri != 2 || chance(20) {
            fields.append(("Last-Modified", ModelText.date(chance(5) ? now - 1000 : modified)))
        }
        if isInParts, chance(70) {
            fields.append(("Cache-Control", "max-age=\(100 + below(900))"))
        } else if chance(85) {
            fields.append(("Cache-Control", responseControl()))
        }
        if chance(isInParts ? 1 : 10) { fields.append(("Cache-Control", responseControl())) }
        if chance(15) { fields.append(("Expires", chance(20) ? "0" : ModelText.date(now + pick([-10, 0, 20, 90])))) }
        if chance(isInParts ? 10 : 35) {
            fields.append(
                (
                    "Vary",
                    pick(["Accept-Language", "accept-encoding", "Accept-Language, Accept-Encoding", "Cookie", "*"])
                )
            )
        }
        if chance(10) { fields.append(("Set-Cookie", "c=\(below(9))")) }
        if chance(20) { fields.append(("X-A", "\(below(9))")) }
        if chance(5) { fields.append(("Connection", "X-A")) }
        if chance(20) { fields.append(("Surrogate-Key", pick(["red", "blue", "red blue"]))) }
        let conditions = asked.fields.members("if-none-match")
        let isTagged = conditions.contains { CacheModel.weak($0) == tag(uri) || $0 == "*" }
        let since = conditions.isEmpty ? ModelText.seconds(asked.fields.first("if-modified-since")) : nil
        let holds = (uri < 3 || isInParts) && isTagged || since.map { modified <= $0 } == true
        if asked.isRead, holds != chance(4) {
            if chance(15) { fields.removeAll { $0.0 == "ETag" } }
            if chance(15) { fields.removeAll { $0.0 == "Last-Modified" } }
            return Reply(status: 304, fields: ModelFields(fields), body: "")
        }
        fields.append(("Content-Type", "text/plain"))
        let status = chance(88) ? 200 : pick([203, 204, 206, 301, 302, 404, 410, 429, 500, 503, 504, 599])
        var body = status == 204 ? "" : Self.representation(uri, version)
        // An origin that has two representations with one entity tag.
        if !body.isEmpty, chance(2) { body = chance(50) ? body + "!" : String(body.reversed()) }
        if status == 200, asked.method == "GET", chance(90), let part = part(of: body, uri, asked, fields) {
            return part
        }
        if asked.method == "HEAD", chance(30) { fields.append(("Content-Length", "\(body.utf8.count)")) }
        return Reply(status: status, fields: ModelFields(fields), body: body)
    }

    /// Another one for each version.
    private static func representation(_ uri: Int, _ version: Int) -> String {
        let number = (version &* 7919 &+ uri &* 104_729) & 0xFFFF
        let length = number % 10 < 7 ? number % 40 : 60 + number % 200
        let letters = (0..<length).map { UInt8(97 + ($0 * 7 + $0 / 26 + number) % 26) }
        return "\(uri).\(version) " + String(decoding: letters, as: UTF8.self)
    }

    /// A 206 or 416, if the request asks for one range, mostly under its own If-Range.
    private mutating func part(of body: String, _ uri: Int, _ asked: ModelRequest, _ fields: [(String, String)])
        -> Reply?
    {
        guard let text = asked.fields.first("range"), text.hasPrefix("bytes="), !text.contains(",") else { return nil }
        let condition = asked.fields.first("if-range")
        let holds = condition == nil || (uri != 1 && condition == tag(uri))
        guard holds != chance(4) else { return nil }
        let all = Array(body.utf8)
        let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        var first = ends[0] ?? max(0, all.count - (ends[1] ?? 0))
        let last = min(all.count - 1, ends[0] == nil ? all.count - 1 : ends[1] ?? all.count - 1)
        guard first <= last else {
            return Reply(
                status: 416,
                fields: ModelFields(fields + [("Content-Range", "bytes */\(all.count)")]),
                body: ""
            )
        }
        // A part of what was asked for.
        if chance(4) { first = last }
        let total = chance(4) ? pick(["*", "\(all.count + 1)"]) : "\(all.count)"
        var fields = ModelFields(fields)
        // After If-Range few fields are sent (RFC 9110 15.3.7).
        if condition != nil, chance(70) {
            let left: Set = ["content-type", "last-modified", "x-a", "surrogate-key", "set-cookie"]
            fields.lines.removeAll { left.contains($0.name) }
        }
        fields.lines.append((name: "content-range", value: "bytes \(first)-\(last)/\(total)"))
        let part = String(decoding: all[first...last], as: UTF8.self)
        return Reply(status: 206, fields: fields, body: part, hasLength: chance(85))
    }

    mutating func unsafeReply() -> Reply {
        var fields: [(String, String)] = []
        if chance(20) {
            fields.append((pick(["Location", "Content-Location"]), pick(Self.paths + ["/1", "2?q", "//b.example/3"])))
        }
        return Reply(status: pick([200, 201, 204, 303, 400, 404, 500]), fields: ModelFields(fields), body: "")
    }

    private mutating func responseControl() -> String {
        let usual = ["max-age=\(below(200))", "max-age=\(below(90))", "s-maxage=\(below(90))", "max-age=0"]
        let milder = [
            "public", "immutable", "stale-while-revalidate=\(below(200))", "stale-while-revalidate=\(below(30))",
            "stale-if-error=\(below(300))", "stale-if-error=\(below(300))", "private=\"x-a\"", "no-cache=\"X-A\"",
            "private=\"set-cookie\"", "Max-Age=20", "foo=bar",
        ]
        let stricter = [
            "no-store", "no-cache", "private", "must-revalidate", "proxy-revalidate", "must-understand", "max-age=ten",
            "=1",
            "max-age=\"30\"",
        ]
        var parts = [pick(usual)]
        while chance(45) { parts.append(chance(75) ? pick(milder) : pick(stricter)) }
        return parts.joined(separator: pick([",", ", ", " ,"]))
    }
}
