// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import TestSupport
import Testing

@testable import SharedCaching

@Suite("Sealing for a shared cache")
struct SharedSecretTests {
    private typealias Stage = SealingStage

    private static let place = [Array("p:{BW30P2q_-MoeKy1YMD1-7VYUZsv}".utf8), [UInt8](0..<16)]

    @Test("a secret has at least 32 bytes", arguments: [0, 1, 31, 32, 33, 4096])
    func lengths(count: Int) {
        #expect((SharedSecret([UInt8](repeating: 1, count: count), prefix: []) != nil) == (count >= 32))
    }

    @Test("keys are derived as RFC 5869 does it")
    func derivation() {
        // Test case 3 of its appendix A: the first 32 bytes.
        let key = SharedSecret.derivedKey([UInt8](repeating: 0x0B, count: 22), "")
        #expect(key == Stage.bytes("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"))
        let names = SharedSecret.derivedKey(Array(0..<32), "pinproxy shared cache: names")
        #expect(names == Stage.bytes("c279e58bd3b39131e44a85c30842359a3f3c027a20e9d9535bff8de9b3d00740"))
        let sealing = SharedSecret.derivedKey(Array(0..<32), "pinproxy shared cache: sealing")
        #expect(sealing == Stage.bytes("f656ab71ba7c4ce3b8a3fc95a90eae8a22c771b4f93729ba4abeb350b18b58d9"))
    }

    @Test("AES-256-GCM gives the bytes of its designers' test case 16")
    func cipher() {
        let half = Stage.bytes("feffe9928665731c6d6a8f9467308308")
        let plain = Stage.bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
                + "b16aedf5aa0de657ba637b39"
        )
        let sealed = Stage.bytes(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
                + "c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"
        )
        let nonce = Stage.bytes("cafebabefacedbaddecaf888")
        let data = Stage.bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2")
        let cipher = AES256GCM(.encrypting, key: half + half, nonce: nonce.span, authenticating: data)
        let result = [UInt8](unsafeUninitializedCapacity: sealed.count) { room, filled in
            guard let output = room.baseAddress else { return }
            // In pieces that are no blocks.
            cipher.update(plain.span.extracting(0..<7), to: output)
            cipher.update(plain.span.extracting(7..<7), to: output + 7)
            cipher.update(plain.span.extracting(7...), to: output + 7)
            cipher.writeTag(to: output + plain.count)
            filled = sealed.count
        }
        #expect(result == sealed)
    }

    @Test("records that another implementation has sealed open")
    func vectors() throws {
        let secret = try Stage.secret()
        let names = secret.names(of: Stage.key(), under: Stage.policy)
        let record = Stage.bytes(
            "016465666768696a6b6c6d6e6f70717273c8c9cacbcccdcecfd0d1d2d3"
                + "15cbc6cc2a33ee8b31d801bda803a6cbfd86f8bf1015e1c8776ab7566d03f9"
        )
        #expect(secret.open(record, .record, at: [names.key, names.field]) == Array("a sealed record".utf8))
        let empty = Stage.bytes(
            "016465666768696a6b6c6d6e6f70717273c8c9cacbcccdcecfd0d1d2d3c02b46648c1d619448b45f3ae0bc09f6"
        )
        #expect(secret.open(empty, .chunk, at: []) == [])
    }

    @Test("sealed bytes of all lengths open as they were, and are different each time")
    func roundTrips() throws {
        let secret = try Stage.secret()
        var generator = SeededGenerator(seed: 3)
        for count in Array(0..<70) + [255, 256, 4095, 65_536, SharedRecord.chunkSize] {
            let bytes = patternBytes(count, seed: generator.next())
            let sealed = secret.seal(bytes, .record, at: Self.place)
            #expect(sealed.count == count + SharedSecret.overhead)
            #expect(firstDifference(secret.open(sealed, .record, at: Self.place), bytes) == nil)
            let again = secret.seal(bytes, .record, at: Self.place)
            #expect(again[1..<29] != sealed[1..<29] && again.suffix(16) != sealed.suffix(16))
        }
    }

    @Test("a range of a body opens as its bytes")
    func ranges() throws {
        let secret = try Stage.secret()
        let body = patternBytes(1000)
        for range in [0..<0, 0..<1000, 10..<11, 999..<1000, 1000..<1000, 256..<512] {
            let sealed = secret.seal(StoredBytes(body), range, .chunk, at: Self.place)
            #expect(secret.open(sealed, .chunk, at: Self.place) == Array(body[range]))
        }
    }

    @Test("a sealed record with any bit flipped does not open")
    func flippedBits() throws {
        let secret = try Stage.secret()
        let sealed = secret.seal(Array("a record of a response".utf8), .record, at: Self.place)
        for bit in 0..<(sealed.count * 8) {
            var changed = sealed
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(secret.open(changed, .record, at: Self.place) == nil, "bit \(bit)")
        }
    }

    @Test("a sealed record that is cut or extended does not open")
    func lengthsOfSealed() throws {
        let secret = try Stage.secret()
        let sealed = secret.seal(Array("a record of a response".utf8), .record, at: Self.place)
        for count in sealed.indices {
            #expect(secret.open(Array(sealed[..<count]), .record, at: Self.place) == nil)
            #expect(secret.open(Array(sealed[count...]), .record, at: Self.place) == nil || count == 0)
        }
        for more: [UInt8] in [[0], [1], sealed] {
            #expect(secret.open(sealed + more, .record, at: Self.place) == nil)
            #expect(secret.open(more + sealed, .record, at: Self.place) == nil)
        }
    }

    @Test("a record of another role or place does not open")
    func places() throws {
        let secret = try Stage.secret()
        let bytes: [UInt8] = [1, 2, 3]
        let sealed = secret.seal(bytes, .record, at: [[1, 2], [3]])
        #expect(secret.open(sealed, .record, at: [[1, 2], [3]]) == bytes)
        for role in [SharedRole.chunk, .purge] { #expect(secret.open(sealed, role, at: [[1, 2], [3]]) == nil) }
        let others: [[[UInt8]]] = [
            [], [[1, 2]], [[1, 2, 3]], [[1], [2, 3]], [[1, 2], [3], []], [[], [1, 2], [3]], [[3], [1, 2]],
            [[1, 2], [4]],
            [[1, 0], [3]],
        ]
        for other in others { #expect(secret.open(sealed, .record, at: other) == nil, "\(other)") }
    }

    @Test("a record of another secret or prefix does not open")
    func secrets() throws {
        let secret = try Stage.secret()
        let names = secret.names(of: Stage.key(), under: Stage.policy)
        let sealed = secret.seal([1], .record, at: [names.key, names.field])
        let other = try #require(SharedSecret(Array(1...32), prefix: secret.prefix))
        #expect(other.open(sealed, .record, at: [names.key, names.field]) == nil)
        let longer = try #require(SharedSecret(Array(0..<33), prefix: secret.prefix))
        #expect(longer.open(sealed, .record, at: [names.key, names.field]) == nil)
        let elsewhere = try Stage.secret(prefix: "q:")
        let moved = elsewhere.names(of: Stage.key(), under: Stage.policy)
        #expect(elsewhere.open(sealed, .record, at: [moved.key, moved.field]) == nil)
    }
}
