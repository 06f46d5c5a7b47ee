// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPCaching

@Suite("The owner's rules for keys")
struct CacheKeyRulesTests {
    typealias Stage = CachingStage

    private static func rules(
        _ ignored: [String] = [],
        sorts: Bool = false,
        fields: [String] = [],
        path: String? = nil
    ) -> CacheKeyRules {
        CacheKeyRules([
            CacheRequestRule(
                path: path.flatMap { PathPattern($0) },
                CacheKeyTerms(
                    ignoredParameters: ignored.compactMap { WildcardPattern($0) },
                    sortsParameters: sorts,
                    fields: fields
                )
            )
        ])
    }

    private func key(
        _ rest: String,
        _ rules: CacheKeyRules,
        _ fields: Stage.Pairs = [],
        partition: [UInt8] = []
    ) throws -> CacheKey? {
        let url = try #require(AbsoluteURL("https://a.example\(rest)"))
        var matched: Int?
        defer { #expect((matched != nil) == (!rules.isEmpty && !PathPattern.hasDotSegments(url.target.span))) }
        return rules.key(
            of: url,
            method: .get,
            fields: try Stage.fields(fields),
            partition: partition,
            matched: &matched
        )
    }

    private func target(_ rest: String, _ rules: CacheKeyRules) throws -> String {
        let uri = String(decoding: try #require(try key(rest, rules)).uri, as: UTF8.self)
        let start = "GET https://a.example:443"
        try #require(uri.hasPrefix(start))
        return String(uri.dropFirst(start.count))
    }

    @Test("parameters that a rule names are left out, and an empty query with them")
    func ignored() throws {
        let rules = Self.rules(["utm_*", "fbclid"])
        for (rest, expected) in [
            ("/x?utm_source=a", "/x"), ("/x?a=1&utm_source=b&b=2&fbclid", "/x?a=1&b=2"), ("/x?a=1", "/x?a=1"),
            ("/x", "/x"), ("/x?", "/x?"), ("/x?&utm_a=1", "/x?"), ("/x?a&&b", "/x?a&&b"), ("/x?b=1&a=2", "/x?b=1&a=2"),
            // Names in another case, or that only contain such a name, are others.
            ("/x?UTM_a=1", "/x?UTM_a=1"), ("/x?autm_a=1", "/x?autm_a=1"), ("/x?fbclid2=1", "/x?fbclid2=1"),
            ("/utm_a=1", "/utm_a=1"), ("/x?a=1#utm_a", "/x?a=1"),
        ] { #expect(try target(rest, rules) == expected, "\(rest)") }
        #expect(try target("/x?a=1&b", Self.rules(["*"])) == "/x")
        #expect(try target("/x?a=1&b", CacheKeyRules()) == "/x?a=1&b")
    }

    @Test("a parameter stays if some origins read it as several or by another name")
    func ambiguous() throws {
        let rules = Self.rules(["utm_*", "*_ga"], sorts: true)
        for rest in [
            "/x?utm_a=1;callback=evil", "/x?utm_a=1?callback=evil", "/x?utm_a;callback=evil", "/x?%75tm_a=1",
            "/x?utm_%00a=1", "/x?callback%00_ga=1", "/x?utm_a[0]=1", "/x?utm_a+=1",
        ] { #expect(try target(rest, rules) == rest) }
    }

    @Test("sorting ignores the order of names and keeps the order of one name's values")
    func sorted() throws {
        let rules = Self.rules(sorts: true)
        for (rest, expected) in [
            ("/x?b=1&a=2", "/x?a=2&b=1"), ("/x?a=2&b=1", "/x?a=2&b=1"), ("/x?c&b&a", "/x?a&b&c"),
            ("/x?b=2&a=1&b=1", "/x?a=1&b=2&b=1"),
        ] { #expect(try target(rest, rules) == expected, "\(rest)") }
        // To some origin these are two values of one name, and their order counts.
        for (one, other) in [
            ("a=1", "a=2"), ("a=1", "%61=2"), ("a=1", "A=2"), ("a.b=1", "a_b=2"), ("a[]=1", "a[x]=2"),
            ("a=1", "a%5B0%5D=2"),
            ("a=1", "+a=2"), ("a%00x=1", "a=2"), ("a=1;b=1", "b=2"), ("a=1?b=1", "b=2"),
        ] {
            #expect(try target("/x?\(one)&\(other)", rules) != target("/x?\(other)&\(one)", rules), "\(one)&\(other)")
        }
    }

    @Test("percent-encoding, empty queries and paths are left as they are")
    func encodings() throws {
        let rules = Self.rules(["utm_*"], sorts: true)
        let all = [
            "/x", "/x?", "/%78", "/x?a", "/x?a=", "/x?%61", "/x?a=%20", "/x?a=+", "/x?A", "/x//", "/x?a&", "/x?&a",
        ]
        let keys = try all.map { try target($0, rules) }
        #expect(Set(keys).count == all.count - 1, "only the place of an empty parameter is indifferent: \(keys)")
    }

    @Test("two queries share a key only if they differ in what the rule says", arguments: [1, 2, 3])
    func chance(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let pieces = ["a", "b", "utm_a", "=", "=1", "&", "&", ";", "?", "%61", "A", "[", "]"]
        let rules = Self.rules(["utm_*"], sorts: true)
        /// What an origin reads: the values of each name in their order. An ambiguous query is read as a whole.
        func meaning(_ query: String) -> [String] {
            func isAmbiguous(_ part: String) -> Bool { part.contains(";") || part.contains("?") }
            let kept = query.split(separator: "&", omittingEmptySubsequences: false).map(String.init).filter { part in
                let name = part.prefix { $0 != "=" }
                return isAmbiguous(part) || !name.hasPrefix("utm_") || !name.allSatisfy { $0.isLetter || $0 == "_" }
            }
            guard !kept.contains(where: isAmbiguous) else { return kept }
            let groups = Dictionary(grouping: kept) { part in
                part.replacing("%61", with: "a").lowercased().prefix { $0 != "=" && $0 != "[" }.filter(\.isLetter)
            }
            return groups.sorted { $0.key < $1.key }.flatMap(\.value)
        }
        var known: [String: [String]] = [:]
        for _ in 0..<Extent.of(4_000, whole: 20_000) {
            let count = Int.random(in: 0...6, using: &random)
            let query = (0..<count).map { _ in pieces[Int.random(in: pieces.indices, using: &random)] }.joined()
            let key = try target("/x?\(query)", rules)
            let meaning = meaning(query)
            if let other = known[key] { #expect(other == meaning, "\(query) has the key \(key) of \(other)") }
            known[key] = meaning
        }
    }

    @Test("the first rule that fits the path decides; one without paths fits all")
    func paths() throws {
        var rules = Self.rules(["a"], path: "/v1/*")
        rules.rules += Self.rules(["b"]).rules
        #expect(try target("/v1/x?a&b&c", rules) == "/v1/x?b&c")
        #expect(try target("/%761/x?a&b", rules) == "/%761/x?b")
        #expect(try target("/v2?a&b", rules) == "/v2?a")
        for path in ["/v1/../x", "/v1/%2e%2e/x", "/v1/..;a/x"] {
            #expect(try target("\(path)?a&b", rules) == "\(path)?a&b")
        }
    }

    @Test("added fields make other keys, of one URI, with unambiguous values")
    func fields() throws {
        let rules = Self.rules(fields: ["X-Tenant", "x-b", "X-TENANT"])
        let values: [Stage.Pairs] = [
            [], [("X-Tenant", "")], [("X-Tenant", "a")], [("X-Tenant", "A")], [("X-B", "a")], [("X-Tenant", "a, b")],
            [("X-Tenant", "a"), ("X-Tenant", "b")], [("X-Tenant", "b"), ("X-Tenant", "a")],
            [("X-Tenant", "a"), ("X-B", "b")], [("X-Tenant", "b"), ("X-B", "a")], [("X-Tenant", "ax-b")],
        ]
        let keys = try values.map { try #require(try key("/x", rules, $0)) }
        #expect(Set(keys).count == values.count)
        #expect(Set(keys.map(\.uri)).count == 1 && Set(keys.map(\.hash)).count == 1)
        // Other fields, and the order of different names, make no difference.
        let same = try key("/x", rules, [("x-b", "b"), ("Accept", "c"), ("x-tenant", "a")])
        #expect(same == keys[8])
        for one in keys {
            let user = try #require(
                try key("/x", rules, values[keys.firstIndex(of: one) ?? 0], partition: Array("ann".utf8))
            )
            #expect(user != one)
            for key in [one, user] { #expect(CacheKey(uri: key.uri, part: key.part) == key) }
        }
        #expect(CacheKeyTerms.fieldNames(ofVariant: keys[6].variant) == [Array("x-b".utf8), Array("x-tenant".utf8)])
        // Fields that are too long make no key, and no request is cached without one.
        let long = String(repeating: "x", count: 5000)
        #expect(try key("/x", rules, [("X-Tenant", long)]) == nil)
        #expect(try key("/x", CacheKeyRules(), [("X-Tenant", long)]) != nil)
    }

    @Test("without added fields a store's part is the partition, as in earlier versions")
    func parts() {
        for partition in [[], [1, 2], Array("ann".utf8)] as [[UInt8]] {
            let key = CacheKey(uri: Array("GET http://a:80/".utf8), part: partition)
            #expect(key.partition == partition && key.variant.isEmpty && key.part == partition)
        }
        for part in [[0], [0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 255, 255, 255, 255, 1], [0, 1, 0, 0, 0, 0]] as [[UInt8]] {
            // A damaged part is some key, and no fault.
            _ = CacheKey(uri: [], part: part)
        }
        let zero = CacheKey(uri: [], part: [0, 1, 0, 0, 0, 0])
        #expect(zero.partition == [0] && zero.variant.isEmpty && zero.part == [0, 1, 0, 0, 0, 0])
    }

    @Test("other rules have another digest")
    func digests() {
        let all = [
            Self.rules(), Self.rules(sorts: true), Self.rules(["a"]), Self.rules(["a", "b"]), Self.rules(["ab"]),
            Self.rules(fields: ["a"]), Self.rules(["a"], path: "/a"), Self.rules(["a"], path: "/a*"),
            CacheKeyRules(Self.rules(["a"]).rules + Self.rules(["b"]).rules), CacheKeyRules(),
        ]
        #expect(Set(all.map(\.digest)).count == all.count)
    }

    @Test("4.4: an unsafe method invalidates the URL as it is and under the rules")
    func invalidation() throws {
        let rules = Self.rules(["utm_*"], fields: ["x-tenant"])
        let url = try #require(AbsoluteURL("https://a.example/x?utm_a=1"))
        let keys = Invalidation.keys(
            after: .post,
            of: url,
            status: 200,
            response: try HeaderFields("Location", "/y?utm_b=2&c"),
            rules
        )
        #expect(
            keys.map { String(decoding: $0.url, as: UTF8.self).replacing("https://a.example:443", with: "") } == [
                "/x", "/x?utm_a=1", "/y?c", "/y?utm_b=2&c",
            ]
        )
    }

    // MARK: Stores

    private func store(_ key: CacheKey, in store: CacheStore, at time: Int = Stage.now) throws {
        let insertion = store.insertion(
            for: key,
            try Stage.stored([("Cache-Control", "max-age=60")], receivedAt: time),
            epoch: store.epoch(of: key),
            length: 1
        )
        insertion?.append([1])
        let done = Monitor(false)
        if insertion?.finish(deliver: { $0() }, { _ in done.with { $0 = true } }) == nil {
            try done.wait(for: "the disk") { $0 }
        }
    }

    @Test(
        "a purge of a URL finds the responses for all values of added fields",
        arguments: [false, true]
    )
    func purge(onDisk: Bool) throws {
        let folder = try TemporaryFolder()
        var disk: DiskStore?
        if onDisk {
            disk = try DiskStore(.init(folder: folder.path + "/cache", capacity: 64 << 20), Stage.shared) { _ in }
        }
        let memory = MemoryStore(capacity: 1 << 20)
        let store = CacheStore(memory: memory, disk: disk, Stage.shared)
        defer { store.close() }
        let rules = Self.rules(["utm_*"], fields: ["X-Tenant"])
        for tenant in ["a", "b"] {
            try self.store(try #require(try key("/x?utm_a", rules, [("X-Tenant", tenant)])), in: store)
        }
        let request = try Stage.request()
        for tenant in ["a", "b", "c"] {
            let key = try #require(try key("/x?utm_z=9", rules, [("X-Tenant", tenant)]))
            memory.remove(onDisk ? .everything : .tag("none"))
            let found = Monitor<Int?>(nil)
            let lookup = store.find(key, for: request, under: Stage.digest, deliver: { $0() }) { result in
                found.with { $0 = result.entries.count }
            }
            if case .found(let result) = lookup { found.with { $0 = result.entries.count } }
            #expect(try found.wait(for: "the lookup") { $0 } == (tenant == "c" ? 0 : 1), "\(tenant)")
        }
        let listed = Monitor<[CacheListing]?>(nil)
        store.list(atMost: 10, deliver: { $0() }) { entries in listed.with { $0 = entries } }
        #expect(try listed.wait(for: "the list") { $0 }.map(\.varies) == [["x-tenant"], ["x-tenant"]])
        let url = try #require(AbsoluteURL("https://a.example/x?utm_other"))
        let removed = Monitor<Int?>(nil)
        store.remove(.uri(rules.keys(of: url)[0]), deliver: { $0() }) { count in removed.with { $0 = count } }
        #expect(try removed.wait(for: "the purge") { $0 } == 2)
    }

    @Test("the values of added fields, which clients choose, do not make lookups long", arguments: [false, true])
    func manyValues(onDisk: Bool) throws {
        let folder = try TemporaryFolder()
        var disk: DiskStore?
        if onDisk {
            disk = try DiskStore(.init(folder: folder.path + "/cache", capacity: 64 << 20), Stage.shared) { _ in }
        }
        let store = CacheStore(memory: MemoryStore(capacity: onDisk ? 1000 : 16 << 20), disk: disk, Stage.shared)
        defer { store.close() }
        let rules = Self.rules(fields: ["X-Tenant"])
        for number in 0..<(MemoryStore.fieldVariantsAtMost + 20) {
            let key = try #require(try key("/x", rules, [("X-Tenant", "\(number)")]))
            try self.store(key, in: store, at: Stage.now + number)
        }
        let listed = Monitor<[CacheListing]?>(nil)
        store.list(atMost: 1000, deliver: { $0() }) { entries in listed.with { $0 = entries } }
        let times = try listed.wait(for: "the list") { $0 }.map { $0.storedAt - Stage.now }.sorted()
        #expect(times == Array(20..<(MemoryStore.fieldVariantsAtMost + 20)))
    }
}
