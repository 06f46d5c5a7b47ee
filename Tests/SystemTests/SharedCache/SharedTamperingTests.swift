// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Somebody who can read and write Redis, and does not have the owner's key.
@Suite("The shared cache: an adversary in Redis", .onOwnThreads, .enabled(if: RedisProcess.isThere))
struct SharedTamperingTests {
    private typealias Fields = [[UInt8]: [UInt8]]

    private let redis: RedisProcess
    private let client: RedisClient

    init() throws {
        redis = try RedisProcess()
        client = try redis.client()
    }

    /// A change of what Redis has for a path; `other` is that of another path of the same size.
    private struct Change: Sendable {
        let name: String
        let apply: @Sendable (_ client: RedisClient, _ key: [UInt8], _ other: [UInt8]) throws -> Void

        /// A change of each field's value.
        static func ofValues(_ name: String, _ change: @escaping @Sendable ([UInt8]) -> [UInt8]) -> Self {
            Self(name: name) { client, key, _ in try client.set(client.hash(key).mapValues(change), of: key) }
        }

        static func flipping(_ place: Double, _ mask: UInt8 = 1) -> Self {
            ofValues("a bit at \(place)") { value in
                guard !value.isEmpty else { return value }
                var value = value
                value[min(value.count - 1, Int(Double(value.count) * place))] ^= mask
                return value
            }
        }
    }

    private static let changes: [Change] =
        (0..<20).map { .flipping(Double($0) / 20, 1 << UInt8($0 % 8)) }
        + [
            .flipping(1),
            .ofValues("empty") { _ in [] },
            .ofValues("cut") { Array($0.dropLast()) },
            .ofValues("cut in front") { Array($0.dropFirst()) },
            .ofValues("half") { Array($0.prefix($0.count / 2)) },
            .ofValues("longer") { $0 + [0] },
            .ofValues("doubled") { $0 + $0 },
            .ofValues("zeros") { [UInt8](repeating: 0, count: $0.count) },
            .ofValues("a megabyte") { _ in patternBytes(1 << 20) },
            Change(name: "fields swapped") { client, key, _ in
                let fields = try client.hash(key).sorted { $0.key.lexicographicallyPrecedes($1.key) }
                let values = fields.map(\.value)
                try client.set(
                    Dictionary(uniqueKeysWithValues: zip(fields.map(\.key), values.dropFirst() + values.prefix(1))),
                    of: key
                )
                // With one field alone there is nothing to swap.
                if fields.count < 2 { try client.delete(key) }
            },
            Change(name: "of another path") { client, key, other in
                try client.delete(key)
                try client.set(client.hash(other), of: key)
            },
            Change(name: "values of another path") { client, key, other in
                let values = try client.hash(other).sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
                let names = try client.hash(key).keys.sorted { $0.lexicographicallyPrecedes($1) }
                try client.set(Dictionary(uniqueKeysWithValues: zip(names, values)), of: key)
            },
            Change(name: "another generation") { client, key, _ in
                try client.set([Array("g".utf8): patternBytes(16)], of: key)
            },
            Change(name: "an empty generation") { client, key, _ in try client.set([Array("g".utf8): [1]], of: key) },
            Change(name: "a long generation") { client, key, _ in
                try client.set([Array("g".utf8): patternBytes(100_000)], of: key)
            },
            Change(name: "a string") { client, key, _ in
                try client.delete(key)
                try client.command([Array("SET".utf8), key, Array("text".utf8)])
            },
            Change(name: "a list") { client, key, _ in
                try client.delete(key)
                try client.command([Array("RPUSH".utf8), key, Array("g".utf8)])
            },
            Change(name: "one field fewer") { client, key, _ in
                guard let field = try client.hash(key).max(by: { $0.key.count < $1.key.count })?.key else { return }
                try client.command([Array("HDEL".utf8), key, field])
            },
        ]

    /// Stores a path by the first machine, and finds its key.
    private func store(_ path: String, _ stage: SharedStage) throws -> [UInt8] {
        let before = try client.hashes()
        try stage.store([path])
        return try #require(try client.hashes().subtracting(before).first)
    }

    @Test("no change of a record brings a wrong byte", arguments: [100, 300_000])
    func records(size: Int) throws {
        let stage = try SharedStage(SharedStage.redis([redis]))
        // Each change has its own pair of paths; the other machine has none of them.
        let keys = try Self.changes.indices.map { number in
            (own: try store("/\(size)/own/\(number)", stage), other: try store("/\(size)/other/\(number)", stage))
        }
        for (change, key) in zip(Self.changes, keys) { try change.apply(client, key.own, key.other) }
        for (number, change) in Self.changes.enumerated() {
            let path = "/\(size)/own/\(number)"
            let seen = try stage[1].get(path)
            #expect(!seen.isShared && seen.version == 1, "\(change.name)")
            #expect(stage.origin.count(path) == 2, "\(change.name)")
            #expect(try stage[1].get("/\(size)/other/\(number)").isShared, "\(change.name)")
        }
        #expect(try stage[1].metric("pinproxy_shared_cache_tampered_total") ?? 0 >= 20)
        // A wrong record is replaced: a third machine has it again, where a record can be.
        let third = try SharedStage(SharedStage.redis([redis]), machines: 1, origin: stage.origin)
        for (number, change) in Self.changes.enumerated() {
            #expect(try third[0].get("/\(size)/own/\(number)").version == 1, "\(change.name)")
        }
    }

    @Test("chunks of another body or in another order are no body")
    func chunks() throws {
        let stage = try SharedStage(SharedStage.redis([redis]))
        let paths = (0..<6).map { "/1000000/\($0)" }
        let keys = try paths.map { try store($0, stage) }
        func chunks(_ key: [UInt8]) throws -> Fields {
            let fields = try client.hash(key)
            let shortest = fields.keys.filter { $0.count > 1 }.map(\.count).min() ?? 0
            return fields.filter { $0.key.count > shortest }
        }
        let all = try keys.map { try chunks($0) }
        try #require(all.allSatisfy { $0.count == 4 }, "\(all.map(\.count))")
        let sorted = all.map { $0.sorted { $0.key.lexicographicallyPrecedes($1.key) } }
        // The second and third of one; one of another path; the last one missing; all of another path; the same one four times.
        try client.set([sorted[0][1].key: sorted[0][2].value, sorted[0][2].key: sorted[0][1].value], of: keys[0])
        try client.set([sorted[1][1].key: sorted[0][1].value], of: keys[1])
        try client.command([Array("HDEL".utf8), keys[2], sorted[2][3].key])
        try client.set(Dictionary(uniqueKeysWithValues: zip(sorted[3].map(\.key), sorted[0].map(\.value))), of: keys[3])
        try client.set(Dictionary(uniqueKeysWithValues: sorted[4].map { ($0.key, sorted[4][0].value) }), of: keys[4])
        for path in paths.prefix(5) { #expect(try !stage[1].get(path).isShared) }
        #expect(try stage[1].get(paths[5]).isShared)
    }

    @Test("chunks of an older version under the newer record are no body")
    func olderChunks() throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 3)
        let path = "/1000000/x"
        let key = try store(path, stage)
        let older = try client.hash(key)
        stage.origin.change(path)
        #expect(try stage[0].purge("all"))
        try stage.store([path])
        let newer = try client.hash(key)
        for (number, fields) in [older, newer].enumerated() {
            // The record of one version, the chunks of the other.
            let shortest = fields.keys.filter { $0.count > 1 }.map(\.count).min() ?? 0
            var mixed = number == 0 ? newer : older
            for (name, value) in fields where name.count == shortest { mixed[name] = value }
            try client.delete(key)
            try client.set(mixed, of: key)
            #expect(try stage[1 + number].get(path).version == 2)
        }
    }

    @Test("an older record, written again after a purge or a POST, is not used")
    func replayed() throws {
        let stage = try SharedStage(SharedStage.redis([redis]), machines: 4)
        let (purged, posted) = ("/100/purged", "/70000/posted")
        let keys = try [purged, posted].map { try store($0, stage) }
        // Without the generation: who writes that back, too, withholds the POST.
        let older = try keys.map { try client.hash($0).filter { $0.key != Array("g".utf8) } }
        stage.origin.change(purged)
        #expect(try stage[0].purge("url", "http://\(Stage.host)\(purged)"))
        #expect(try stage[0].ask("POST", posted, body: "x").text == "done")
        // Before anything newer is there, and after.
        for machine in 1...3 {
            for (key, fields) in zip(keys, older) { try client.set(fields, of: key) }
            #expect(try stage[machine].get(purged).version == 2, "\(machine)")
            #expect(try stage[machine].get(posted).version == 2, "\(machine)")
        }
    }

    /// What is done to the count of purges and their records, when one purge has been confirmed.
    private struct Loss: Sendable {
        let name: String
        let apply: @Sendable (RedisClient) throws -> Void

        private static let count = "\(SharedStage.prefix){purges}:n"
        private static let purge = "\(SharedStage.prefix){purges}:"

        private static func count(_ value: String) -> Self {
            Self(name: "count \(value)") { try $0.command("SET", count, value) }
        }

        static let all: [Self] = [
            count("0"), count("-1"), count(""), count("abc"), count("1x"), count(" 1"), count("1.0"), count("2"),
            count("1000"),
            count("100000"), count("9223372036854775807"), count("99999999999999999999"),
            Self(name: "no count") { try $0.command("DEL", count) },
            Self(name: "a list for a count") {
                try $0.command("DEL", count)
                try $0.command("RPUSH", count, "1")
            },
            Self(name: "no record") { try $0.command("DEL", purge + "1") },
            Self(name: "an empty record") { try $0.command("SET", purge + "1", "") },
            Self(name: "a record of nobody") { try $0.command("SET", purge + "1", "record") },
            Self(name: "a record as a later one") { client in
                let record = try client.command("GET", purge + "1").bytes ?? []
                try client.command([Array("SET".utf8), Array((purge + "2").utf8), record])
                try client.command("SET", count, "2")
            },
        ]
    }

    @Test("a purge holds for those who knew it, whatever becomes of the count", arguments: 0..<18)
    func purgeCount(number: Int) throws {
        let loss = Loss.all[number]
        let stage = try SharedStage(SharedStage.redis([redis]))
        let paths = (0..<6).map { "/100/\($0)" }
        let keys = try paths.map { try store($0, stage) }
        let older = try keys.map { try client.hash($0) }
        #expect(try stage[1].get(paths[0]).isShared)
        stage.origin.change(paths)
        #expect(try stage[0].purge("all"))
        // The second machine has learned of it when its own is gone.
        try Patience.poll(for: "the purge to be learned", seconds: 20, every: 0.05) {
            try stage[1].get(paths[0]).version == 2 ? true : nil
        }
        for (path, (key, fields)) in zip(paths, zip(keys, older)).dropFirst() {
            try loss.apply(client)
            try client.delete(key)
            try client.set(fields, of: key)
            for machine in stage.machines { #expect(try machine.get(path).version == 2, "\(loss.name): \(path)") }
        }
        // New purges take effect all the same: for the one who makes it at once.
        stage.origin.change(paths)
        _ = try stage[0].purge("all")
        for path in paths { #expect(try stage[0].get(path).version == 3, "\(loss.name): \(path)") }
        for proxy in stage.proxies { #expect(try proxy.terminate().exitCode == 0) }
    }

    @Test("a lease that nobody gives back holds up each request once, for a while")
    func forgedLeases() throws {
        let stage = try SharedStage(SharedStage.redis([redis]))
        let path = "/100/x"
        let key = try store(path, stage)
        let fields = try client.hash(key)
        guard let field = fields.keys.first(where: { $0.count == 16 }) else {
            return #expect(Bool(false), "no field of 16 bytes: \(fields.keys.map(\.count))")
        }
        let name = Data(field).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
            "=",
            with: ""
        )
        try client.delete(key)
        for value in ["token", "-", "", String(repeating: "x", count: 100_000)] {
            try client.command([Array("SET".utf8), key + Array(":l:\(name)".utf8), Array(value.utf8)])
            let begin = Date()
            let later = try SharedStage(SharedStage.redis([redis]), machines: 1, origin: stage.origin)
            #expect(try later[0].get(path).version == 1)
            #expect(Date().timeIntervalSince(begin) < 15, "\(value.prefix(10))")
            try client.delete(key)
        }
    }
}
