// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import TestSupport
import Testing

@testable import SharedCaching

@Suite("Purges of a shared cache")
struct SharedPurgeTests {
    private typealias Stage = SealingStage

    private static func name(_ purge: Purge) -> String {
        switch purge {
        case .everything: "everything"
        case .uri(let key): "uri " + String(decoding: key.uri, as: UTF8.self)
        case .prefix(let key): "prefix " + String(decoding: key.uri, as: UTF8.self)
        case .host(let host): "host " + host
        case .tag(let tag): "tag " + tag
        }
    }

    private static let purges: [Purge] = [
        .everything, .uri(SealingStage.key()), .prefix(SealingStage.key("GET https://a.example:443/", part: "")),
        .host("[::1]"), .tag("é"), .tag(""),
    ]

    @Test("a purge comes back as it was", arguments: [false, true])
    func roundTrips(expires: Bool) throws {
        for purge in Self.purges {
            let read = try #require(SharedPurge(SharedPurge(purge, expires: expires, time: Stage.now).encoded()))
            #expect(Self.name(read.purge) == Self.name(purge) && read.expires == expires && read.time == Stage.now)
        }
    }

    @Test("a purge that is cut, extended or of another version is none")
    func truncations() {
        for purge in Self.purges {
            let bytes = SharedPurge(purge, expires: true, time: Stage.now).encoded()
            for count in bytes.indices { #expect(SharedPurge(Array(bytes[..<count])) == nil, "\(count)") }
            #expect(SharedPurge(bytes + [0]) == nil)
            #expect(SharedPurge([2] + bytes.dropFirst()) == nil)
            for kind: UInt8 in [0, 6, 255] { #expect(SharedPurge([1, kind] + bytes.dropFirst(2)) == nil) }
            #expect(SharedPurge(Array(bytes[..<2]) + [2] + bytes.dropFirst(3)) == nil)
        }
    }

    @Test("a purge of everything names nothing, and hosts and tags are UTF-8")
    func texts() {
        func purge(_ kind: UInt8, _ text: [UInt8], time: Int = 1) -> SharedPurge? {
            var writer = HeadCoding.Writer()
            writer.bytes = [1, kind, 0]
            writer.number(time)
            writer.run(text.span)
            return SharedPurge(writer.bytes)
        }
        #expect(purge(1, []) != nil && purge(1, [1]) == nil)
        for kind: UInt8 in 2...5 {
            #expect((purge(kind, [0xFF]) != nil) == (kind < 4))
            #expect(purge(kind, [UInt8](repeating: 1, count: SharedRecord.uriAtMost)) != nil)
            #expect(purge(kind, [UInt8](repeating: 1, count: SharedRecord.uriAtMost + 1)) == nil)
        }
        for (time, isRight) in [(0, true), (1 << 40, true), (-1, false), (1 << 40 + 1, false), (.min, false)] {
            #expect((purge(1, [], time: time) != nil) == isRight, "\(time)")
        }
    }

    @Test("a purge of a longer text than records have purges everything")
    func long() throws {
        let read = try #require(
            SharedPurge(SharedPurge(.tag(letters("x", 80_000)), expires: true, time: -5).encoded())
        )
        #expect(Self.name(read.purge) == "everything" && read.expires && read.time == 0)
    }

    @Test("damaged purges do no harm")
    func damage() {
        var generator = SeededGenerator(seed: 6)
        let all = Self.purges.map { SharedPurge($0, expires: false, time: Stage.now).encoded() }
        for round in 0..<3000 {
            var bytes = all[round % all.count]
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let index = Int.random(in: bytes.indices, using: &generator)
                bytes[index] = UInt8.random(in: 0...255, using: &generator)
            }
            guard let read = SharedPurge(bytes) else { continue }
            #expect(read.encoded() == bytes, "round \(round)")
        }
    }
}
