// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCaching
import HTTPCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

@Suite("the shared cache as configured")
struct SharedCacheConfigurationTests {
    private static let key = Base64.encode([UInt8](repeating: 7, count: 32))

    private func redis(_ members: String) throws -> RedisCacheConfiguration {
        let text = "{ \"version\": 1, \"cache\": { \"redis\": { \"keyFile\": \"k\", \(members) } } }"
        let (configuration, issues, _) = readConfiguration(text)
        #expect(issues.isEmpty, "\(issues)")
        return try #require(configuration.cache?.redis)
    }

    @Test("url and key file are enough")
    func defaults() throws {
        #expect(readConfiguration(#"{ "version": 1, "cache": {} }"#).configuration.cache?.redis == nil)
        let redis = try redis(#""url": "rediss://Cache.Test.""#)
        #expect(redis.isSecure && redis.addresses == [.init(host: "cache.test", port: 6379)])
        #expect(redis.sentinel == nil && !redis.isCluster && redis.user == nil && redis.password == nil)
        #expect(redis.sentinelPassword == nil && redis.secret.isEmpty)
        #expect(redis.prefix == Array("pinproxy:".utf8) && redis.timeout == Milliseconds(5))
        #expect(redis.maximumBody == 1 << 20)
    }

    @Test("every key is read")
    func values() throws {
        let one = try redis(
            #"""
            "comment": "c", "url": "redis://[::1]:7000", "username": "pinproxy", "passwordFile": "p",
            "prefix": "a.b-c_1:", "timeout": "1s", "maximumBody": "16MB"
            """#
        )
        #expect(!one.isSecure && one.addresses == [.init(host: "[::1]", port: 7000)])
        #expect(one.user == Array("pinproxy".utf8) && one.prefix == Array("a.b-c_1:".utf8))
        #expect(one.timeout == Milliseconds(1000) && one.maximumBody == 16 << 20)
        let watched = try redis(
            #""url": "rediss://a.test,10.0.0.1:1", "sentinel": "my-master.1", "sentinelPasswordFile": "s""#
        )
        #expect(watched.addresses == [.init(host: "a.test", port: 26379), .init(host: "10.0.0.1", port: 1)])
        #expect(watched.sentinel == "my-master.1" && !watched.isCluster)
        let cluster = try redis(#""url": "REDISS://a.test,b.test:7001", "cluster": true"#)
        #expect(cluster.isCluster && cluster.addresses.map(\.port) == [6379, 7001])
    }

    private static func error(_ members: String, at pointer: String, says: String) -> LoadError {
        LoadError(
            #""cache": { "redis": { "keyFile": "k", \#(members) } }"#,
            at: "/cache/redis\(pointer)",
            says: says
        )
    }

    private static func url(_ url: String, says: String) -> LoadError {
        error("\"url\": \"\(url)\"", at: "/url", says: says)
    }

    private static func with(_ members: String, at pointer: String, says: String) -> LoadError {
        error("\"url\": \"rediss://a.test\", \(members)", at: pointer, says: says)
    }

    @Test(
        "an impossible value is an error at its place",
        arguments: [
            LoadError(#""cache": { "redis": "rediss://a.test" }"#, at: "/cache/redis", says: "an object"),
            LoadError(
                #""cache": { "redis": { "url": "rediss://a.test" } }"#,
                at: "/cache/redis",
                says: "\"keyFile\" is missing"
            ),
            LoadError(
                #""cache": { "shared": false, "redis": { "url": "rediss://a.test", "keyFile": "k" } }"#,
                at: "/cache/redis",
                says: "other machines"
            ),
            LoadError(
                #""access": { "denyHosts": ["*.test"] }, "cache": { "redis": { "url": "rediss://a.test", "keyFile": "k" } }"#,
                at: "/cache/redis/url",
                says: "the access rules deny a.test"
            ),
            LoadError(
                #""listeners": [{ "address": "127.0.0.1:6379" }], "cache": { "redis": { "url": "redis://127.0.0.1", "keyFile": "k" } }"#,
                at: "/cache/redis/url",
                says: "own listeners"
            ),
            error(#""prefix": "a""#, at: "", says: "\"url\" is missing"),
            error(#""url": 1"#, at: "/url", says: "a string"),
            url("cache.test:6379", says: "not the URL of Redis"), url("https://a.test", says: "rediss://"),
            url("rediss://user:word@a.test", says: "\"passwordFile\""),
            url("rediss://:word@a.test", says: "in the URL"),
            url("rediss://a.test/0", says: "more than scheme"), url("rediss://a.test?db=1", says: "more than scheme"),
            url("rediss://a.test#x", says: "more than scheme"), url("rediss://", says: "not a host"),
            url("rediss://a.test:0", says: "not a port"), url("rediss://a.test:65536", says: "1 to 65535"),
            url("rediss://a.test:", says: "not a port"), url("rediss://a_test,", says: "not a host"),
            url("rediss://a.test, b.test", says: "not a host"), url("rediss://127.1", says: "not a host"),
            url("rediss://::1", says: "not a host"), url("rediss://b\u{fc}cher.test", says: "not a host"),
            url("rediss://a.test,b.test", says: "neither Sentinels nor a cluster"),
            error(#""url": "rediss://a.test,A.test:6379", "cluster": true"#, at: "/url", says: "twice"),
            error(
                "\"url\": \"rediss://\((1...17).map { "a\($0).test" }.joined(separator: ","))\", \"cluster\": true",
                at: "/url",
                says: "at most 16"
            ),
            with(#""sentinel": "m", "cluster": true"#, at: "/cluster", says: "leave \"sentinel\" or \"cluster\""),
            with(#""sentinel": "my master""#, at: "/sentinel", says: "mymaster"),
            with(#""sentinelPasswordFile": "s""#, at: "/sentinelPasswordFile", says: "add \"sentinel\""),
            with(#""cluster": "yes""#, at: "/cluster", says: "true or false"),
            with(#""username": "a""#, at: "/username", says: "without a password"),
            with(#""username": "a b", "passwordFile": "p""#, at: "/username", says: "visible ASCII"),
            with(#""username": "", "passwordFile": "p""#, at: "/username", says: "visible ASCII"),
            with(#""passwordFile": """#, at: "/passwordFile", says: "not a path"),
            with(#""password": "x""#, at: "/password", says: "do not belong into this file"),
            with(#""prefix": "a{b}""#, at: "/prefix", says: "1 to 64 letters"),
            with(#""prefix": """#, at: "/prefix", says: "1 to 64 letters"),
            with(#""timeout": 5"#, at: "/timeout", says: "a string"),
            with(#""timeout": "1001ms""#, at: "/timeout", says: "1ms to 1s"),
            with(#""maximumBody": "17MB""#, at: "/maximumBody", says: "to 16MB"),
            with(#""maximumBody": "0KB""#, at: "/maximumBody", says: "not a size"),
            with(#""prefx": "a""#, at: "/prefx", says: "did you mean \"prefix\""),
        ]
    )
    func errors(error: LoadError) {
        let (_, issues, _) = readConfiguration(error.text)
        #expect(issues.map(\.pointer) == [error.pointer], "\(issues)")
        for issue in issues {
            #expect((issue.message + "; " + issue.remedy).contains(error.says), "\(issue)")
            #expect(!issue.message.contains("word@"))
        }
    }

    private static func document(_ url: String, _ members: String = "") -> String {
        #"""
        { "version": 1, "trustAnchors": { "system": false }, \#(members)
          "cache": { "redis": { "url": "\#(url)", "sentinel": "m", "username": "u", "keyFile": "key",
          "passwordFile": "password", "sentinelPasswordFile": "sentinel" } } }
        """#
    }

    @Test("the secret files are read, and recorded for reloads")
    func secrets() throws {
        let folder = try ConfigurationFolder([
            "config.json": Self.document("rediss://a.test"), "key": Self.key + "\n", "password": "word of mine\r\n",
            "sentinel": "other",
        ])
        for name in ["key", "password", "sentinel"] { chmod(folder.path(name), 0o640) }
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(outcome.issues.isEmpty, "\(outcome.issues)")
        #expect(!outcome.warnings.contains { $0.pointer.hasPrefix("/cache") }, "\(outcome.warnings)")
        let redis = try #require(outcome.parts?.configuration.cache?.redis)
        #expect(redis.secret == [UInt8](repeating: 7, count: 32))
        #expect(redis.password == Array("word of mine".utf8) && redis.sentinelPassword == Array("other".utf8))
        #expect(Set(outcome.record.files).isSuperset(of: ["key", "password", "sentinel"].map(folder.path)))
        #expect(outcome.record.isCurrent)
        try folder.write("password", "another")
        #expect(!outcome.record.isCurrent)
        // What is shown of it has no secret.
        #expect("\(redis)" == "rediss://a.test:26379, Sentinels of m, with a password")
        var dumped = ""
        dump(redis, to: &dumped)
        #expect(!dumped.contains("secret") && dumped.split(separator: "\n").count == 2, "\(dumped)")
    }

    @Test("a secret file that every user can read is a warning")
    func permissions() throws {
        let folder = try ConfigurationFolder([
            "config.json": Self.document("rediss://a.test"), "key": Self.key, "password": "a", "sentinel": "b",
        ])
        for name in ["key", "password", "sentinel"] { chmod(folder.path(name), 0o644) }
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        let warnings = outcome.warnings.filter { $0.pointer.hasPrefix("/cache") }
        #expect(
            Set(warnings.map(\.pointer)) == [
                "/cache/redis/keyFile", "/cache/redis/passwordFile", "/cache/redis/sentinelPasswordFile",
            ]
        )
        #expect(warnings.allSatisfy { $0.message.contains("every user") && $0.remedy.hasPrefix("chmod 640 ") })
        #expect(outcome.parts != nil)
    }

    @Test(
        "a file without key or password is an error that does not show it",
        arguments: [
            ("key", ""), ("key", "visible"), ("key", "\(key)\n\n"), ("key", " \(key)"), ("key", "\(key)A"),
            ("key", Base64.encode([UInt8](repeating: 7, count: 31))), ("key", String(repeating: "07", count: 32)),
            ("password", ""), ("password", "\n"), ("password", "visible\nvisible"), ("password", "a\u{0}visible"),
            ("password", String(repeating: "v", count: 513)), ("sentinel", ""),
        ]
    )
    func badSecrets(file: String, contents: String) throws {
        var files = [
            "config.json": Self.document("rediss://a.test"), "key": Self.key, "password": "a", "sentinel": "b",
        ]
        files[file] = contents
        let folder = try ConfigurationFolder(files)
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        let pointer = ["key": "keyFile", "password": "passwordFile", "sentinel": "sentinelPasswordFile"][file] ?? ""
        #expect(outcome.parts == nil && outcome.issues.map(\.pointer) == ["/cache/redis/\(pointer)"])
        for issue in outcome.issues {
            #expect(!issue.message.contains("visible") && !issue.remedy.contains("visible"))
            #expect(file != "key" || issue.remedy.contains("openssl rand -base64 32"))
        }
    }

    @Test("a file that is missing is an error at its place")
    func missing() throws {
        let folder = try ConfigurationFolder(["config.json": Self.document("rediss://a.test")])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        #expect(
            outcome.issues.map(\.pointer).sorted() == [
                "/cache/redis/keyFile", "/cache/redis/passwordFile", "/cache/redis/sentinelPasswordFile",
            ]
        )
    }

    @Test("pins of the server are judged together with its URL")
    func pins() throws {
        let folder = try ConfigurationFolder([
            "key": Self.key, "password": "a", "sentinel": "b", "pins/a.json": pinFile("a.test"),
        ])
        func issues(_ url: String, _ members: String) throws -> [String] {
            try folder.write("config.json", Self.document(url, "\"pins\": \"pins\", \(members)"))
            return ConfigurationLoader.load(path: folder.path("config.json")).issues.map {
                "\($0.pointer): \($0.message)"
            }
        }
        let deny = #""unpinnedHosts": "deny","#
        #expect(try issues("rediss://a.test", "") == [] && issues("rediss://a.test", deny) == [])
        #expect(try issues("redis://b.test", "") == [])
        let clear = try issues("redis://a.test", "")
        #expect(clear.count == 1 && clear[0].hasPrefix("/cache/redis/url: a pin file names a.test"))
        for url in ["rediss://b.test", "redis://b.test"] {
            let unpinned = try issues(url, deny)
            #expect(unpinned.count == 1 && unpinned[0].contains("no pin file names b.test:26379"), "\(unpinned)")
        }
    }
}
