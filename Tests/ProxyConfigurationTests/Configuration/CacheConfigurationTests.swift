// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("the cache as configured")
struct CacheConfigurationTests {
    @Test("the cache exists only if configured, also by an empty object")
    func presence() throws {
        #expect(readConfiguration(#"{ "version": 1 }"#).configuration.cache == nil)
        let (configuration, issues, _) = readConfiguration(#"{ "version": 1, "cache": {} }"#)
        #expect(issues.isEmpty)
        #expect(configuration.cache == CacheConfiguration())
        #expect(configuration.cache?.isShared == true && configuration.cache?.disk == nil)
        #expect(configuration.defaults.cache.isTrivial)
    }

    @Test("every key is read, and the folder is relative to the file")
    func values() throws {
        let (configuration, issues, _) = readConfiguration(
            #"""
            { "version": 1, "cache": { "comment": "c", "shared": false, "memory": "1MB", "patience": "250ms",
              "disk": { "comment": "c", "path": "stored", "size": "10MB" } } }
            """#
        )
        #expect(issues.isEmpty, "\(issues)")
        let cache = try #require(configuration.cache)
        #expect(!cache.isShared && cache.memory == 1 << 20 && cache.patience == Milliseconds(250))
        #expect(cache.disk?.path == "/etc/pinproxy/stored" && cache.disk?.size == 10 << 20)
    }

    @Test("every key of a rule is read")
    func rules() throws {
        let (configuration, issues, _) = readConfiguration(
            #"""
            { "version": 1, "cache": {}, "defaults": { "cache": { "requestPolicy": "returnCacheDataElseLoad" } },
              "hosts": { "a.test": { "cache": { "comment": "c", "rules": [
                { "comment": "c", "path": "/v1/*", "method": "GET", "status": [200, "4xx"], "contentType": "text/*",
                  "then": "store", "ttl": "5m", "removeHeaders": ["Set-Cookie"], "setHeaders": { "X-A": "b" },
                  "maxBytes": "2MB" },
                { "path": "/live/*", "method": "HEAD", "requestPolicy": "reloadIgnoringLocalCacheData" },
                { "comment": "c", "path": "/v1/*", "key": { "comment": "c", "ignoreParameters": ["utm_*", "a"],
                  "sortParameters": true, "headers": ["X-Tenant"] } },
                { "path": "/a", "bypass": { "comment": "c", "headers": ["X-P"], "cookies": ["s_*"] } },
                { "method": "GET", "ignoreDirectives": ["no-cache", "pragma"] },
                { "path": "/g", "grace": { "comment": "c", "staleWhileRevalidate": "30s", "staleIfError": "1h",
                  "retryAfter": "5s" } },
                { "contentType": ["text/event-stream", "video/*"], "then": "skip" },
                { "then": "store" } ] } },
                "b.test": {} } }
            """#
        )
        #expect(issues.isEmpty, "\(issues)")
        let cache = configuration.hosts[0].cache
        // The whole of what defaults say is replaced.
        #expect(cache.requestPolicy == .useProtocolCachePolicy)
        #expect(configuration.hosts[1].cache.requestPolicy == .returnCacheDataElseLoad)
        #expect(
            cache.requestRules == [
                CacheRequestRule(path: PathPattern("/live/*"), method: .head, .reloadIgnoringLocalCacheData, at: 1)
            ]
        )
        let terms = CacheKeyTerms(
            ignoredParameters: ["utm_*", "a"].compactMap { WildcardPattern($0) },
            sortsParameters: true,
            fields: ["x-tenant"]
        )
        #expect(cache.keys == CacheKeyRules([CacheRequestRule(path: PathPattern("/v1/*"), terms, at: 2)]))
        let bypass = CacheBypass(fields: ["x-p"], cookies: ["s_*"].compactMap { WildcardPattern($0) })
        #expect(cache.bypasses == [CacheRequestRule(path: PathPattern("/a"), bypass, at: 3)])
        #expect(cache.ignored == [CacheRequestRule(method: .get, [.noCache, .pragma], at: 4)])
        let grace = CacheGrace(whileRevalidating: 30, onErrors: 3600, retryAfter: 5)
        #expect(cache.graces == [CacheRequestRule(path: PathPattern("/g"), grace, at: 5)])
        #expect(cache.rules.count == 3)
        let first = cache.rules[0]
        #expect(first.path?.text == "/v1/*" && first.method == .get && first.statuses?.description == "200, 400-499")
        #expect(first.contentTypes?.map(\.description) == ["text/*"] && first.action == .store(lifetime: 300))
        #expect(first.removedFields == ["Set-Cookie"] && first.maximumBytes == 2 << 20)
        #expect(first.setFields.map { "\($0.name): \($0.value)" } == ["X-A: b"])
        #expect(cache.rules[1].action == .skip)
        #expect(cache.rules[1].contentTypes?.map(\.description) == ["text/event-stream", "video/*"])
        var last = CacheRule(action: .store(lifetime: nil))
        last.place = 7
        #expect(cache.rules[2] == last && cache.rules.map(\.place) == [0, 6, 7])
        #expect(
            cache.texts.map { $0.split(separator: " ")[0] } == [
                "store", "reloadIgnoringLocalCacheData", "key", "bypass", "ignore", "grace", "skip", "store",
            ]
        )
    }

    @Test("the first matching rule decides, else the policy beside it")
    func requestPolicies() throws {
        var rules = CacheRules()
        rules.requestPolicy = .returnCacheDataElseLoad
        rules.requestRules = [
            CacheRequestRule(path: PathPattern("/live/*"), method: .get, .reloadIgnoringLocalCacheData),
            CacheRequestRule(path: PathPattern("/live/*"), .returnCacheDataDontLoad),
        ]
        func policy(_ method: HTTPMethod, _ target: String) -> RequestPolicy {
            var request = CacheRequest(method: method, fields: HeaderFields())
            rules.apply(to: &request, target: Array(target.utf8).span)
            return request.policy
        }
        #expect(policy(.get, "/live/a?b") == .reloadIgnoringLocalCacheData)
        #expect(policy(.get, "/l%69ve/a") == .reloadIgnoringLocalCacheData)
        #expect(policy(.head, "/live/a") == .returnCacheDataDontLoad)
        #expect(policy(.get, "/?/live/a") == .returnCacheDataElseLoad)
    }

    @Test("the first rule decides, every bypass counts, and dot segments relax nothing")
    func requestRules() throws {
        var rules = CacheRules()
        let preview = CacheBypass(fields: ["X-Preview"])
        rules.bypasses = [
            CacheRequestRule(path: PathPattern("/a/*"), CacheBypass(fields: ["X-Other"])),
            CacheRequestRule(path: PathPattern("/a/b"), method: .get, preview),
        ]
        rules.ignored = [
            CacheRequestRule(path: PathPattern("/a/*"), .maxAge), CacheRequestRule([.noCache, .maxAge]),
        ]
        rules.graces = [
            CacheRequestRule(path: PathPattern("/a/*"), CacheGrace(onErrors: 1)),
            CacheRequestRule(CacheGrace(whileRevalidating: 2)),
        ]
        func applied(_ target: String, method: HTTPMethod = .get) throws -> CacheRequest {
            var fields = HeaderFields()
            try fields.append(name: "X-Preview", value: "1")
            try fields.append(name: "Cache-Control", value: "no-cache, max-age=0")
            var request = CacheRequest(method: method, fields: fields)
            rules.apply(to: &request, target: Array(target.utf8).span)
            return request
        }
        let one = try applied("/a/b?c")
        #expect(one.bypasses && one.control.maxAge == nil && one.control.noCache != nil && one.grace.onErrors == 1)
        let other = try applied("/x")
        #expect(!other.bypasses && other.control.noCache == nil && other.grace == CacheGrace(whileRevalidating: 2))
        #expect(try !applied("/a/b", method: .head).bypasses && !applied("/a/c").bypasses)
        let ambiguous = try applied("/x/..%2fa/b")
        #expect(ambiguous.bypasses && ambiguous.control.noCache != nil && ambiguous.grace == CacheGrace())
    }

    private static func rule(_ members: String, at pointer: String, says: String) -> LoadError {
        LoadError(
            #""cache": {}, "hosts": { "a.test": { "cache": { "rules": [{ \#(members) }] } } }"#,
            at: "/hosts/a.test/cache/rules/0\(pointer)",
            says: says
        )
    }

    @Test(
        "an impossible value is an error at its place",
        arguments: [
            LoadError(#""cache": true"#, at: "/cache", says: "an object"),
            LoadError(#""cache": { "memory": 64 }"#, at: "/cache/memory", says: "must be a string"),
            LoadError(#""cache": { "memory": "1023KB" }"#, at: "/cache/memory", says: "from 1MB"),
            LoadError(#""cache": { "patience": 5 }"#, at: "/cache/patience", says: "must be a string"),
            LoadError(#""cache": { "patience": "0s" }"#, at: "/cache/patience", says: "from \"1ms\""),
            LoadError(#""cache": { "disk": "/var/cache" }"#, at: "/cache/disk", says: "an object"),
            LoadError(#""cache": { "disk": {} }"#, at: "/cache/disk", says: "\"path\" is missing"),
            LoadError(#""cache": { "disk": { "path": "" } }"#, at: "/cache/disk/path", says: "not a path"),
            LoadError(#""cache": { "disk": { "path": "/dev/null" } }"#, at: "/cache/disk/path", says: "not a folder"),
            LoadError(
                #""cache": { "disk": { "path": "c", "size": "9MB" } }"#,
                at: "/cache/disk/size",
                says: "from 10MB"
            ),
            LoadError(#""cache": { "rules": [] }"#, at: "/cache/rules", says: "unknown key"),
            LoadError(#""defaults": { "cache": {} }"#, at: "/defaults/cache", says: "add \"cache\": {} at the top"),
            LoadError(host: #""cache": {}"#, at: "/cache", says: "there is no cache"),
            LoadError(
                #""cache": {}, "defaults": { "cache": { "requestPolicy": "returnCacheData" } }"#,
                at: "/defaults/cache/requestPolicy",
                says: "returnCacheDataElseLoad"
            ),
            rule(#""path": "/""#, at: "", says: "\"then\" is missing"),
            rule(#""then": "cache""#, at: "/then", says: "\"store\""),
            rule(#""then": "skip", "path": "v1""#, at: "/path", says: "pattern for a path"),
            rule(#""then": "skip", "path": "/v1?a""#, at: "/path", says: "without query"),
            rule(#""then": "skip", "method": "POST""#, at: "/method", says: "\"GET\", \"HEAD\""),
            rule(#""then": "store", "method": "HEAD""#, at: "/method", says: "ever stored"),
            rule(#""then": "skip", "status": 100"#, at: "/status", says: "200 to 599"),
            rule(#""then": "skip", "contentType": "text/h*""#, at: "/contentType", says: "media type"),
            rule(#""then": "skip", "ttl": "5m""#, at: "/ttl", says: "belongs to \"then\": \"store\""),
            rule(#""then": "skip", "removeHeaders": ["A"]"#, at: "/removeHeaders", says: "belongs to"),
            rule(#""then": "skip", "setHeaders": { "A": "b" }"#, at: "/setHeaders", says: "belongs to"),
            rule(#""then": "skip", "maxBytes": "1KB""#, at: "/maxBytes", says: "belongs to"),
            rule(#""then": "store", "ttl": "5""#, at: "/ttl", says: "not a duration"),
            rule(#""then": "store", "ttl": "1500ms""#, at: "/ttl", says: "whole seconds"),
            rule(#""then": "store", "maxBytes": 1"#, at: "/maxBytes", says: "must be a string"),
            rule(#""then": "store", "removeHeaders": "A""#, at: "/removeHeaders", says: "an array"),
            rule(#""then": "store", "removeHeaders": ["A B"]"#, at: "/removeHeaders/0", says: "not a field name"),
            rule(#""then": "store", "removeHeaders": ["Via"]"#, at: "/removeHeaders/0", says: "pinproxy alone"),
            rule(#""then": "store", "setHeaders": { "A:": "b" }"#, at: "/setHeaders/A:", says: "not a field name"),
            rule(#""then": "store", "setHeaders": { "A": "b\n" }"#, at: "/setHeaders/A", says: "line break"),
            rule(#""then": "store", "setHeaders": { "A": { "env": "B" } }"#, at: "/setHeaders/A", says: "a string"),
            rule(#""then": "store", "setHeaders": { "A": "b", "a": "c" }"#, at: "/setHeaders/a", says: "twice"),
            rule(
                #""then": "skip", "requestPolicy": "useProtocolCachePolicy""#,
                at: "/requestPolicy",
                says: "make two rules"
            ),
            rule(#""then": "skip", "key": { "sortParameters": true }"#, at: "/key", says: "make two rules"),
            rule(#""key": {}"#, at: "/key", says: "changes no key"),
            rule(
                #""key": { "sortParameters": true, "ignoreParameter": [] }"#,
                at: "/key/ignoreParameter",
                says: "ignoreParameters"
            ),
            rule(#""key": { "ignoreParameters": "utm_*" }"#, at: "/key/ignoreParameters", says: "an array"),
            rule(
                #""key": { "ignoreParameters": ["a=b"] }"#,
                at: "/key/ignoreParameters/0",
                says: "a pattern for the name"
            ),
            rule(
                #""key": { "ignoreParameters": [""] }"#,
                at: "/key/ignoreParameters/0",
                says: "a pattern for the name"
            ),
            rule(#""key": { "sortParameters": "yes" }"#, at: "/key/sortParameters", says: "true or false"),
            rule(#""key": { "headers": ["a b"] }"#, at: "/key/headers/0", says: "not a field name"),
            rule(#""key": { "headers": ["Cookie"] }"#, at: "/key/headers/0", says: "a secret"),
            rule(#""key": { "headers": ["authorization"] }"#, at: "/key/headers/0", says: "a secret"),
            rule(#""key": { "headers": ["Range"] }"#, at: "/key/headers/0", says: "only a part"),
            rule(#""key": { "headers": ["Host"] }"#, at: "/key/headers/0", says: "made by pinproxy"),
            rule(#""key": { "sortParameters": true }, "method": "GET""#, at: "/method", says: "makes no difference"),
            rule(#""key": { "sortParameters": true }, "ttl": "1s""#, at: "/ttl", says: "is about responses"),
            rule(#""key": { "sortParameters": true }, "grace": {}"#, at: "/grace", says: "make two rules"),
            rule(#""bypass": {}"#, at: "/bypass", says: "keeps no request"),
            rule(#""bypass": { "cookies": [] }"#, at: "/bypass", says: "keeps no request"),
            rule(#""bypass": { "cookies": ["a=b"] }"#, at: "/bypass/cookies/0", says: "the name of a cookie"),
            rule(#""bypass": { "headers": ["a:"] }"#, at: "/bypass/headers/0", says: "not a field name"),
            rule(#""bypass": true"#, at: "/bypass", says: "an object"),
            rule(#""ignoreDirectives": []"#, at: "/ignoreDirectives", says: "names no directive"),
            rule(#""ignoreDirectives": ["only-if-cached"]"#, at: "/ignoreDirectives/0", says: "unknown value"),
            rule(#""ignoreDirectives": "no-cache""#, at: "/ignoreDirectives", says: "an array"),
            rule(#""grace": {}"#, at: "/grace", says: "gives no grace"),
            rule(#""grace": { "staleIfError": "1500ms" }"#, at: "/grace/staleIfError", says: "whole seconds"),
            rule(#""grace": { "staleWhileRevalidate": 5 }"#, at: "/grace/staleWhileRevalidate", says: "a string"),
            rule(#""grace": { "staleIfError": "1s" }, "status": 200"#, at: "/status", says: "is about responses"),
            rule(#""requestPolicy": "none""#, at: "/requestPolicy", says: "unknown value"),
            rule(
                #""requestPolicy": "returnCacheDataElseLoad", "status": 200"#,
                at: "/status",
                says: "is about responses"
            ),
            rule(
                #""requestPolicy": "returnCacheDataElseLoad", "contentType": "a/b""#,
                at: "/contentType",
                says: "is about responses"
            ),
            rule(#""requestPolicy": "returnCacheDataElseLoad", "ttl": "1s""#, at: "/ttl", says: "is about responses"),
            rule(#""then": "skip", "tll": "1s""#, at: "/tll", says: "did you mean \"ttl\""),
        ]
    )
    func errors(error: LoadError) {
        let (_, issues, _) = readConfiguration(error.text)
        #expect(issues.map(\.pointer) == [error.pointer], "\(issues)")
        for issue in issues { #expect((issue.message + "; " + issue.remedy).contains(error.says), "\(issue)") }
    }

    @Test("a present or future folder is no error")
    func folders() throws {
        let folder = try ConfigurationFolder(["file": "x"])
        try folder.makeFolder("cache")
        func pointers(_ path: String) throws -> [String] {
            try folder.write("config.json", #"{ "version": 1, "cache": { "disk": { "path": "\#(path)" } } }"#)
            let reader = DocumentReader(file: folder.path("config.json"))
            var configuration = ConfigurationReader(reader)
            configuration.read()
            return reader.issues.map(\.pointer)
        }
        #expect(try pointers("cache") == [] && pointers("new/cache") == [])
        #expect(try pointers("file") == ["/cache/disk/path"])
    }
}
