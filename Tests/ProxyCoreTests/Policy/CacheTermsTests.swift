// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("What stored responses depend on")
struct CacheTermsTests {
    private static let now: Int64 = 1_790_000_000

    /// The digest for `api.example.com` under a host's entry.
    private func digest(_ entry: String = "", scheme: RequestHead.Scheme = .https) throws
        -> PolicyDigest
    {
        try #require(try terms(entry, scheme: scheme).digest(at: Self.now))
    }

    private func terms(_ entry: String = "", scheme: RequestHead.Scheme = .https) throws -> CacheTerms {
        let folder = try ConfigurationFolder(
            ["config.json": "{ \"version\": 1, \"cache\": {}, \"hosts\": { \"api.example.com\": { \(entry) } } }"]
        )
        try folder.write("secret", "abc")
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        try #require(outcome.issues.isEmpty, "\(outcome.issues)")
        let host = try Host("api.example.com")
        let route = Router(snapshot: try #require(outcome.makeSnapshot()))
            .route(isHTTPS: scheme == .https, host: host, port: scheme == .https ? 443 : 80, allowHosts: .any)
        return try #require(route.cache)
    }

    /// Whether a request finds a fresh response for its URL in memory.
    private func finds(
        _ lines: String = "",
        method: String = "GET",
        under entry: String = "",
        options: CacheOptions = CacheOptions()
    ) throws -> Bool {
        let terms = try terms(entry)
        let cache = ResponseCache(CacheStore(memory: MemoryStore(capacity: 1 << 20), options))
        var fields = HeaderFields()
        try fields.append(name: "Cache-Control", value: "max-age=60")
        let response = StoredResponse(
            status: 200,
            response: fields,
            to: CacheRequest(method: .get, fields: HeaderFields()),
            requestTime: Int(Self.now),
            responseTime: Int(Self.now),
            digest: try #require(terms.digest(at: Self.now)),
            options
        )
        let key = try #require(CacheKey(url: "https://api.example.com/a?b"))
        cache.store.memory.insert(CachedEntry(key: key, response: response, body: .memory([1, 2, 3])))
        var parser = RequestParser()
        var head = RequestHead()
        let text = "\(method) https://api.example.com/a?b HTTP/1.1\r\nHost: api.example.com\r\n\(lines)\r\n"
        try #require(parser.parse(Array(text.utf8).span, into: &head).outcome == .complete)
        var memory: [UInt8] = Array("of another key".utf8)
        let hit = terms.hit(in: cache, for: head, at: Self.now, atMost: 100, &memory)
        #expect(hit == nil || cache.tallies.ofHosts.first?.counts.hits == 1)
        return hit != nil
    }

    @Test("a plain GET gets a fresh response at once")
    func plain() throws {
        #expect(try finds())
        #expect(try finds("Accept: a/b\r\nCookie: c=d\r\nConnection: keep-alive\r\n"))
        #expect(try finds(method: "HEAD") == false)
        #expect(try finds("Content-Length: 0\r\n") == false)
        #expect(try finds("Connection: Accept\r\n") == false)
        for field in [
            "Authorization: a", "Cache-Control: max-stale", "Pragma: x", "If-Match: *", "If-None-Match: \"a\"",
            "If-Modified-Since: a", "If-Unmodified-Since: a", "If-Range: a", "Range: bytes=0-1",
        ] {
            #expect(try finds("\(field)\r\n") == false, "\(field)")
        }
        #expect(try finds(options: CacheOptions(isShared: false)) == false)
    }

    @Test(
        "where rules are about requests, no response is given at once",
        arguments: [
            ("\"requestPolicy\": \"returnCacheDataElseLoad\"", false),
            ("\"rules\": [{ \"requestPolicy\": \"returnCacheDataElseLoad\" }]", false),
            ("\"rules\": [{ \"key\": { \"sortParameters\": true } }]", false),
            ("\"rules\": [{ \"bypass\": { \"cookies\": [\"session_*\"] } }]", false),
            ("\"rules\": [{ \"ignoreDirectives\": [\"no-cache\"] }]", false),
            ("\"rules\": [{ \"grace\": { \"staleIfError\": \"1h\" } }]", false),
            // Neither about requests nor another policy than the usual one.
            ("\"requestPolicy\": \"useProtocolCachePolicy\"", true),
            ("\"rules\": [{ \"then\": \"store\", \"ttl\": \"5m\" }]", true),
        ]
    )
    func ruled(cache: String, isFound: Bool) throws {
        #expect(try finds(under: "\"cache\": { \(cache) }") == isFound)
    }

    /// Each makes another digest than the ones before it.
    private static let different = [
        "",
        "\"resolve\": \"127.0.0.1:8443\"",
        "\"upstreamProxy\": \"http://127.0.0.1:3128\"",
        "\"upstreamProxy\": \"http://a:b@127.0.0.1:3128\"",
        "\"upstreamProxy\": \"http://a:c@127.0.0.1:3128\"",
        "\"upstreamProxy\": \"https://127.0.0.1:3128\"",
        "\"headers\": { \"request\": { \"set\": { \"Authorization\": \"Bearer a\" } } }",
        "\"headers\": { \"request\": { \"set\": { \"Authorization\": \"Bearer b\" } } }",
        "\"headers\": { \"request\": { \"set\": { \"X-Tenant\": \"a\" } } }",
        "\"headers\": { \"request\": { \"set\": { \"X-Tenant\": \"b\" } } }",
        "\"headers\": { \"request\": { \"add\": { \"X-Tenant\": \"a\" } } }",
        "\"headers\": { \"request\": { \"remove\": [\"X-Tenant\"] } }",
        "\"headers\": { \"request\": { \"remove\": [\"Cookie\"] } }",
        "\"headers\": { \"request\": { \"set\": { \"A\": \"bc\" } } }",
        "\"headers\": { \"request\": { \"set\": { \"Ab\": \"c\" } } }",
    ]

    @Test("changes of requests, or of their targets, change the digest", arguments: [true, false])
    func different(isHTTPS: Bool) throws {
        let digests = try Self.different.map { try digest($0, scheme: isHTTPS ? .https : .http) }
        for index in digests.indices {
            #expect(digests[..<index].contains(digests[index]) == false, "\(Self.different[index])")
        }
        #expect(try digest(Self.different[5]) == digest(Self.different[5]))
    }

    /// Each setting of a host, and whether it is in the digest. A new setting has to be put into one of the two lists:
    /// does it decide which server may respond, or what that server is sent?
    @Test("each host setting changes the digest, or is applied to stored responses")
    func everySetting() throws {
        let counts = [
            "tlsProfile": "\"tlsProfile\": \"legacy\"", "tlsServerName": "\"tlsServerName\": \"b.example\"",
            "resolve": "\"resolve\": \"127.0.0.1:8443\"", "via": "\"via\": \"off\"",
            "upstreamProxy": "\"upstreamProxy\": \"socks5h://127.0.0.1:1080\"",
            // Only `request` counts: changes to responses are applied after the cache.
            "headers": "\"headers\": { \"request\": { \"set\": { \"X\": \"a\" } } }",
        ]
        let says = [
            // Which entry a host has is no part of what the entry says.
            "host": "", "includeSubdomains": "\"includeSubdomains\": true",
            // The key of what is stored has the scheme that the origin is asked by.
            "upgrade": "\"upgrade\": true",
            // About answers: done to stored ones like to those that have just come.
            "rewriteUpgraded": "\"rewriteUpgraded\": false",
            "redirects": "\"redirects\": { \"policy\": \"follow\" }",
            "responses": "\"responses\": { \"rules\": [{ \"contentType\": \"text/html\", \"then\": \"cancel\" }] }",
            // How the bytes come.
            "httpVersion": "\"httpVersion\": \"2\"", "timeouts": "\"timeouts\": { \"connect\": \"1s\" }",
            "connectionsPerHost": "\"connectionsPerHost\": 7",
            // The client's side.
            "connect": "\"connect\": \"tunnel\"", "browsers": "\"browsers\": true",
            // The cache's way of storing and looking up.
            "cache": "\"cache\": { \"requestPolicy\": \"returnCacheDataElseLoad\" }",
        ]
        let names = Mirror(reflecting: HostConfiguration()).children.compactMap(\.label)
        #expect(Set(names) == Set(counts.keys).union(says.keys))
        let unchanged = try digest()
        for (name, entry) in counts { #expect(try digest(entry) != unchanged, "\(name)") }
        for (name, entry) in says { #expect(try digest(entry) == unchanged, "\(name)") }
        #expect(try digest("\"headers\": { \"response\": { \"set\": { \"X\": \"a\" } } }") == unchanged)

        #expect(Mirror(reflecting: HeaderRules()).children.compactMap(\.label) == ["request", "response"])
        var changes = FieldChanges()
        changes.remove("X")
        #expect(Mirror(reflecting: changes).children.compactMap(\.label) == ["storage"])
        let content = try #require(Mirror(reflecting: changes).descendant("storage", "some", "content"))
        let fields = Mirror(reflecting: content).children.compactMap(\.label)
        // Names and values as they are put in and taken out; the first three are how they are written.
        #expect(Set(fields) == ["set", "added", "removed", "removedNames", "settings", "additions"])
        let proxy = UpstreamProxyConfiguration(kind: .http, host: try Host("a.example"), port: 1)
        #expect(Mirror(reflecting: proxy).children.compactMap(\.label) == ["kind", "host", "port", "credentials"])
    }

    /// Digests are made once for all of them, so that the first one that is asked for decides: it must not be of consequence.
    @Test("hosts of one entry have one digest a scheme, in whichever order they come")
    func entryHosts() throws {
        let folder = try ConfigurationFolder(
            [
                "config.json":
                    "{ \"version\": 1, \"cache\": {}, \"hosts\": { \"example.com\": { \"includeSubdomains\": true, \"upstreamProxy\": \"https://p.example.com:443\", \"tlsServerName\": \"s.example\" } } }"
            ]
        )
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        try #require(outcome.issues.isEmpty, "\(outcome.issues)")
        // The last one is the proxy itself: the way to it does not lead through it.
        let names = ["a.example.com", "b.example.com", "p.example.com"]
        var digests: [[PolicyDigest]] = []
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            // A snapshot of its own.
            let router = Router(snapshot: try #require(outcome.makeSnapshot()))
            var own: [Int: [PolicyDigest]] = [:]
            for place in order {
                own[place] = try [true, false].map { isHTTPS in
                    let route = router.route(
                        isHTTPS: isHTTPS,
                        host: try Host(names[place]),
                        port: isHTTPS ? 443 : 80,
                        allowHosts: .any
                    )
                    let terms = try #require(route.cache)
                    return try #require(terms.digest(at: Self.now))
                }
            }
            #expect(own[0] == own[1])
            #expect(own[0]?[0] != own[0]?[1])
            #expect(own[0]?[0] != own[2]?[0])
            digests.append(try [#require(own[0]), #require(own[2])].flatMap { $0 })
        }
        #expect(Set(digests).count == 1)
    }

    @Test("a pinned host's digest differs from its entry's others, whichever is asked first")
    func pinnedHost() throws {
        let configuration = """
            { "version": 1, "cache": {}, "pins": "pins", "trustAnchors": { "system": false, "files": [] },
              "hosts": { "example.com": { "includeSubdomains": true, "resolve": "127.0.0.1:8443" } } }
            """
        let folder = try ConfigurationFolder(["config.json": configuration])
        try folder.write("pins/test.json", pinFile("a.example.com"))
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        try #require(outcome.issues.isEmpty, "\(outcome.issues)")
        // The first one is pinned.
        let names = ["a.example.com", "b.example.com", "c.example.com"]
        var digests: [[PolicyDigest]] = []
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            let router = Router(snapshot: try #require(outcome.makeSnapshot()))
            var own: [Int: PolicyDigest] = [:]
            for place in order {
                let host = try Host(names[place])
                let terms = try #require(router.route(isHTTPS: true, host: host, port: 443, allowHosts: .any).cache)
                own[place] = terms.digest(at: Self.now)
            }
            #expect(own[0] != own[1])
            #expect(own[1] == own[2])
            digests.append(names.indices.compactMap { own[$0] })
        }
        #expect(Set(digests).count == 1 && digests[0].count == 3)
    }

    @Test("rules for keys change the digest")
    func keyRules() throws {
        func rules(_ key: String) -> String { "\"cache\": { \"rules\": [{ \"key\": { \(key) } }] }" }
        let all = ["\"sortParameters\": true", "\"ignoreParameters\": [\"a\"]", "\"headers\": [\"a\"]"].map(rules)
        let digests = try ([""] + all).map { try digest($0) }
        #expect(Set(digests).count == digests.count)
    }

    @Test("a value from a file counts like a written one")
    func outsideValues() throws {
        let outside = try digest("\"headers\": { \"request\": { \"set\": { \"X-Key\": { \"file\": \"secret\" } } } }")
        #expect(try outside == digest("\"headers\": { \"request\": { \"set\": { \"X-Key\": \"abc\" } } }"))
        #expect(try outside != digest("\"headers\": { \"request\": { \"set\": { \"X-Key\": \"abd\" } } }"))
    }

    @Test("a redirect's rewriting changes the digest if it does anything")
    func rewritten() throws {
        let host = try Host("api.example.com")
        let folder = try ConfigurationFolder(["config.json": "{ \"version\": 1, \"cache\": {} }"])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        let route = Router(snapshot: try #require(outcome.makeSnapshot()))
            .route(isHTTPS: true, host: host, port: 443, allowHosts: .any)
        let terms = try #require(route.cache)
        var changes: [FieldChanges?] = [nil]
        for value in ["a", "b"] {
            var change = FieldChanges()
            change.set("X-Tenant", Array(value.utf8), from: .literal)
            changes.append(change)
        }
        let digests = try changes.map { try #require(terms.digest(at: Self.now, with: $0)) }
        #expect(Set(digests).count == 3)
        #expect(terms.digest(at: Self.now, with: FieldChanges()) == digests[0])
        #expect(terms.digest(at: Self.now) == digests[0])
    }
}
