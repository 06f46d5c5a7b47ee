// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCaching
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration

/// docs/schema/config.schema.json and the loader must say the same.
@Suite("the schema of the configuration")
struct ConfigurationSchemaTests {
    private static let repository = Repository.folder

    private func schema() throws -> [String: Any] {
        let data = try Data(contentsOf: Self.repository.appendingPathComponent("docs/schema/config.schema.json"))
        return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    }

    private func properties(_ definition: String?) throws -> [String: Any] {
        let schema = try schema()
        guard let definition else { return try #require(schema["properties"] as? [String: Any]) }
        let definitions = try #require(schema["$defs"] as? [String: Any])
        let object = try #require(definitions[definition] as? [String: Any])
        #expect(object["additionalProperties"] as? Bool == false, "\(definition) is closed, as the loader is")
        return try #require(object["properties"] as? [String: Any])
    }

    /// A document that holds one unknown key in the object that a definition describes, and that object's pointer.
    private static let objects: [(definition: String?, document: String, pointer: String)] = [
        (nil, #"{ "version": 1, "\#(unknown)": 0 }"#, ""),
        ("listener", document(#""listeners": [{ "address": "127.0.0.1:1", "\#(unknown)": 0 }]"#), "/listeners/0"),
        ("admin", document(#""admin": { "address": "127.0.0.1:1", "\#(unknown)": 0 }"#), "/admin"),
        (
            "listenerTLS", document(#""listeners": [{ "address": "127.0.0.1:1", "tls": { "\#(unknown)": 0 } }]"#),
            "/listeners/0/tls"
        ),
        ("authentication", document(#""authentication": { "\#(unknown)": 0 }"#), "/authentication"),
        ("secretFile", document(#""authentication": { "basic": { "\#(unknown)": 0 } }"#), "/authentication/basic"),
        ("interception", document(#""interception": { "\#(unknown)": 0 }"#), "/interception"),
        ("trustAnchors", document(#""trustAnchors": { "\#(unknown)": 0 }"#), "/trustAnchors"),
        ("log", document(#""log": { "\#(unknown)": 0 }"#), "/log"),
        ("crls", document(#""crls": { "every": "1h", "\#(unknown)": 0 }"#), "/crls"),
        ("tracing", document(#""tracing": { "\#(unknown)": 0 }"#), "/tracing"),
        ("requestID", document(#""requestID": { "field": "X-Id", "\#(unknown)": 0 }"#), "/requestID"),
        ("reports", document(#""reports": { "file": "r", "\#(unknown)": 0 }"#), "/reports"),
        (
            "upstreamProxy", document(#""upstreamProxy": { "url": "http://a.test:1", "\#(unknown)": 0 }"#),
            "/upstreamProxy"
        ),
        ("access", document(#""access": { "\#(unknown)": 0 }"#), "/access"),
        ("limits", document(#""limits": { "\#(unknown)": 0 }"#), "/limits"),
        ("cache", document(#""cache": { "\#(unknown)": 0 }"#), "/cache"),
        ("cacheDisk", document(#""cache": { "disk": { "\#(unknown)": 0 } }"#), "/cache/disk"),
        ("cacheRedis", document(#""cache": { "redis": { "\#(unknown)": 0 } }"#), "/cache/redis"),
        (
            "cacheRules", document(#""cache": {}, "defaults": { "cache": { "\#(unknown)": 0 } }"#),
            "/defaults/cache"
        ),
        (
            "cacheRule",
            document(
                #""cache": {}, "defaults": { "cache": { "rules": [{ "then": "skip", "\#(unknown)": 0 }] } }"#
            ),
            "/defaults/cache/rules/0"
        ),
        (
            "cacheKey",
            document(#""cache": {}, "defaults": { "cache": { "rules": [{ "key": { "\#(unknown)": 0 } }] } }"#),
            "/defaults/cache/rules/0/key"
        ),
        (
            "cacheBypass",
            document(#""cache": {}, "defaults": { "cache": { "rules": [{ "bypass": { "\#(unknown)": 0 } }] } }"#),
            "/defaults/cache/rules/0/bypass"
        ),
        (
            "cacheGrace",
            document(#""cache": {}, "defaults": { "cache": { "rules": [{ "grace": { "\#(unknown)": 0 } }] } }"#),
            "/defaults/cache/rules/0/grace"
        ),
        ("redact", document(#""log": { "redact": { "\#(unknown)": 0 } }"#), "/log/redact"),
        ("defaults", document(#""defaults": { "\#(unknown)": 0 }"#), "/defaults"),
        ("timeouts", document(#""defaults": { "timeouts": { "\#(unknown)": 0 } }"#), "/defaults/timeouts"),
        (
            "redirects", document(#""defaults": { "redirects": { "policy": "return", "\#(unknown)": 0 } }"#),
            "/defaults/redirects"
        ),
        ("requests", document(#""requests": { "\#(unknown)": 0 }"#), "/requests"),
        (
            "requestRule",
            document(#""requests": { "rules": [{ "id": "a", "then": "deny", "\#(unknown)": 0 }] }"#),
            "/requests/rules/0"
        ),
        (
            "credential", document(#""credentials": { "a": { "env": "A", "\#(unknown)": 0 } }"#),
            "/credentials/a"
        ),
        ("oauth2", document(#""credentials": { "a": { "oauth2": { "\#(unknown)": 0 } } }"#), "/credentials/a/oauth2"),
        (
            "awsSigV4", document(#""credentials": { "a": { "awsSigV4": { "\#(unknown)": 0 } } }"#),
            "/credentials/a/awsSigV4"
        ),
        (
            "redirectRule",
            document(
                #""defaults": { "redirects": { "policy": "return", "rules": [{ "then": "deny", "\#(unknown)": 0 }] } }"#
            ),
            "/defaults/redirects/rules/0"
        ),
        ("responses", document(#""defaults": { "responses": { "\#(unknown)": 0 } }"#), "/defaults/responses"),
        (
            "responseRule",
            document(#""defaults": { "responses": { "rules": [{ "then": "allow", "\#(unknown)": 0 }] } }"#),
            "/defaults/responses/rules/0"
        ),
        ("headers", document(#""defaults": { "headers": { "\#(unknown)": 0 } }"#), "/defaults/headers"),
        (
            "fieldChanges", document(#""defaults": { "headers": { "request": { "\#(unknown)": 0 } } }"#),
            "/defaults/headers/request"
        ),
        (
            "fieldSource",
            document(
                #""hosts": { "a.test": { "headers": { "request": { "set": { "X-A": { "env": "PATH", "\#(unknown)": 0 } } } } } }"#
            ),
            "/hosts/a.test/headers/request/set/X-A"
        ),
        ("host", document(#""hosts": { "a.test": { "\#(unknown)": 0 } }"#), "/hosts/a.test"),
        (
            "hostTimeouts", document(#""hosts": { "a.test": { "timeouts": { "\#(unknown)": 0 } } }"#),
            "/hosts/a.test/timeouts"
        ),
    ]

    private static let unknown = "qqqqqqqqqqqqqqqqqqqqqqqq"

    private static func document(_ members: String) -> String { "{ \"version\": 1, \(members) }" }

    @Test("the keys of each object are those that the loader knows", arguments: objects.indices)
    func keys(index: Int) throws {
        let (definition, document, pointer) = Self.objects[index]
        let (_, issues, _) = readConfiguration(document)
        let issue = try #require(issues.first { $0.pointer == "\(pointer)/\(Self.unknown)" })
        // "take it out; known here: "a", "b"": every second piece between quotation marks is a key.
        let pieces = issue.remedy.split(separator: "\"", omittingEmptySubsequences: false)
        let known = Set(pieces.enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) })
        #expect(!known.isEmpty)
        #expect(known == Set(try properties(definition).keys), "\(definition ?? "the document")")
    }

    @Test("every object of the schema is compared")
    func allObjectsCompared() throws {
        let definitions = try #require(try schema()["$defs"] as? [String: Any])
        let objects = definitions.filter { ($0.value as? [String: Any])?["properties"] != nil }
        #expect(Set(objects.keys) == Set(Self.objects.compactMap(\.definition)))
    }

    @Test(
        "the words of the schema are those of the loader",
        arguments: [
            ("log", "level", LogConfiguration.Level.allCases.map(\.rawValue)),
            ("listener", "mode", ListenerConfiguration.Mode.allCases.map(\.rawValue)),
            ("host", "httpVersion", OriginHTTPVersion.allCases.map(\.rawValue)),
            ("host", "via", ViaPolicy.allCases.map(\.rawValue)),
            ("defaults", "via", ViaPolicy.allCases.map(\.rawValue)),
            ("host", "tlsProfile", TLSProfile.allCases.map(\.rawValue)),
            ("defaults", "tlsProfile", TLSProfile.allCases.map(\.rawValue)),
            ("redirects", "policy", RedirectRules.Policy.allCases.map(\.rawValue)),
            ("requests", "policy", RequestsConfiguration.Policy.allCases.map(\.rawValue)),
            ("requestRule", "then", RequestRule.Action.allCases.map(\.rawValue)),
            ("oauth2", "secretIn", OAuthClient.SecretPlace.allCases.map(\.rawValue)),
            ("redirectRule", "then", ConfigurationReader.RedirectWord.allCases.map(\.rawValue)),
            ("responseRule", "then", ConfigurationReader.ResponseWord.allCases.map(\.rawValue)),
            ("cacheRule", "then", ConfigurationReader.CacheWord.allCases.map(\.rawValue)),
            ("cacheRule", "method", ConfigurationReader.CacheMethod.allCases.map(\.rawValue)),
        ]
    )
    func words(definition: String, key: String, words: [String]) throws {
        let property = try #require(try properties(definition)[key] as? [String: Any])
        #expect(property["enum"] as? [String] == words)
    }

    @Test("the directives of the schema are those of the loader")
    func directives() throws {
        let property = try #require(try properties("cacheRule")["ignoreDirectives"] as? [String: Any])
        let words = (property["items"] as? [String: Any])?["enum"] as? [String]
        #expect(words == ConfigurationReader.IgnorableDirective.allCases.map(\.rawValue))
    }

    @Test("the groups and policies of the schema are those of the loader")
    func groups() throws {
        let property = try #require(try properties("access")["denyAddresses"] as? [String: Any])
        let items = try #require((property["items"] as? [String: Any])?["anyOf"] as? [[String: Any]])
        #expect(items.first?["enum"] as? [String] == AddressGroup.allCases.map(\.rawValue))
        #expect(property["default"] as? [String] == AddressGroup.deniedByDefault.map(\.rawValue))
        let definitions = try #require(try schema()["$defs"] as? [String: [String: Any]])
        #expect(definitions["requestPolicy"]?["enum"] as? [String] == RequestPolicy.allCases.map(\.rawValue))
        let unpinned = try #require(try properties(nil)["unpinnedHosts"] as? [String: Any])
        #expect(unpinned["enum"] as? [String] == UnpinnedHosts.allCases.map(\.rawValue))
    }

    @Test("the defaults of the schema are those of the loader")
    func defaults() throws {
        func text(_ definition: String, _ key: String) throws -> String? {
            let property = try properties(definition)[key] as? [String: Any]
            return (property?["default"] as? String) ?? (property?["default"] as? Int).map(String.init)
        }
        let configuration = Configuration()
        let limits = configuration.limits
        #expect(try text("limits", "headBytes") == ByteCount.describe(limits.headBytes))
        #expect(try text("limits", "headFields") == "\(limits.headFields)")
        #expect(try text("limits", "targetBytes") == ByteCount.describe(limits.targetBytes))
        #expect(!limits.strictHost)
        #expect(try text("limits", "responseHeadBytes") == ByteCount.describe(limits.responseHeadBytes))
        #expect(try text("limits", "responseHeadFields") == "\(limits.responseHeadFields)")
        #expect(try text("limits", "connections") == "\(limits.connections)")
        #expect(try text("limits", "connectionsPerHost") == "\(limits.connectionsPerHost)")
        #expect(try text("limits", "redirectBodyBytes") == ByteCount.describe(limits.redirectBodyBytes))
        #expect(try text("redirects", "max") == "\(RedirectRules().max)")
        #expect(try text("redirects", "policy") == RedirectRules().policy.rawValue)
        #expect(try text("cache", "memory") == ByteCount.describe(CacheConfiguration().memory))
        #expect(try text("cacheDisk", "size") == ByteCount.describe(DiskCacheConfiguration(path: "c").size))
        let redis = RedisCacheConfiguration(isSecure: true, addresses: [])
        #expect(try text("cacheRedis", "prefix") == String(decoding: redis.prefix, as: UTF8.self))
        #expect(try text("cacheRedis", "timeout") == redis.timeout.description)
        #expect(try text("cacheRedis", "maximumBody") == ByteCount.describe(redis.maximumBody))
        #expect(try text("cacheRules", "requestPolicy") == CacheRules().requestPolicy.rawValue)
        let timeouts = configuration.defaults.timeouts
        let pairs = [
            ("connect", timeouts.connect), ("head", timeouts.head), ("firstByte", timeouts.firstByte),
            ("stall", timeouts.stall), ("idle", timeouts.idle), ("drain", timeouts.drain), ("queue", timeouts.queue),
            ("body", timeouts.body),
        ]
        for (key, value) in pairs {
            let text = try #require(try text("timeouts", key))
            #expect(Milliseconds(parsing: text) == value, "\(key)")
        }
        #expect(try text("timeouts", "total") == nil)
        #expect(timeouts.total == nil)
    }
}
