// SPDX-License-Identifier: Apache-2.0
/// The 64-bit xxHash (XXH64) of bytes in one or several pieces, at several GB a second. It detects damage by disks and
/// crashes, but does not protect against an attacker with write access to the file.
///
/// The algorithm is that of the xxHash specification, version 0.1.1, section "XXH64".
package struct XXH64: Sendable {
    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

    private let seed: UInt64
    private var lanes: (UInt64, UInt64, UInt64, UInt64)
    /// An incomplete stripe of 32 bytes.
    private var rest: [UInt8] = []
    private var length = 0

    package init(seed: UInt64 = 0) {
        self.seed = seed
        lanes = (seed &+ Self.prime1 &+ Self.prime2, seed &+ Self.prime2, seed, seed &- Self.prime1)
    }

    package static func hash(_ bytes: borrowing Span<UInt8>, seed: UInt64 = 0) -> UInt64 {
        var state = XXH64(seed: seed)
        let stripes = bytes.count / 32 * 32
        state.length = bytes.count
        state.consumeStripes(bytes, 0, stripes)
        return state.finished(bytes, from: stripes)
    }

    package mutating func update(_ bytes: borrowing Span<UInt8>) {
        length += bytes.count
        var start = 0
        if !rest.isEmpty {
            start = min(32 - rest.count, bytes.count)
            for index in 0..<start { rest.append(bytes[index]) }
            guard rest.count == 32 else { return }
            let stripe = rest
            consumeStripes(stripe.span, 0, 32)
            rest.removeAll(keepingCapacity: true)
        }
        let end = start + (bytes.count - start) / 32 * 32
        consumeStripes(bytes, start, end)
        for index in end..<bytes.count { rest.append(bytes[index]) }
    }

    /// The hash of all bytes so far.
    package var value: UInt64 { finished(rest.span, from: 0) }

    @inline(__always)
    private static func rotated(_ value: UInt64, _ count: UInt64) -> UInt64 {
        value &<< count | value &>> (64 &- count)
    }

    @inline(__always)
    private static func round(_ lane: UInt64, _ input: UInt64) -> UInt64 {
        rotated(lane &+ input &* prime2, 31) &* prime1
    }

    @inline(__always)
    private static func word(_ bytes: borrowing RawSpan, _ place: Int) -> UInt64 {
        // The bounds are checked; only the type is assumed.
        UInt64(littleEndian: unsafe bytes.unsafeLoadUnaligned(fromByteOffset: place, as: UInt64.self))
    }

    private mutating func consumeStripes(_ bytes: borrowing Span<UInt8>, _ start: Int, _ end: Int) {
        var (one, two, three, four) = lanes
        let raw = bytes.bytes
        var position = start
        while position < end {
            one = Self.round(one, Self.word(raw, position))
            two = Self.round(two, Self.word(raw, position &+ 8))
            three = Self.round(three, Self.word(raw, position &+ 16))
            four = Self.round(four, Self.word(raw, position &+ 24))
            position &+= 32
        }
        lanes = (one, two, three, four)
    }

    private func finished(_ bytes: borrowing Span<UInt8>, from start: Int) -> UInt64 {
        var hash: UInt64
        if length >= 32 {
            hash =
                Self.rotated(lanes.0, 1) &+ Self.rotated(lanes.1, 7) &+ Self.rotated(lanes.2, 12)
                &+ Self.rotated(lanes.3, 18)
            for lane in [lanes.0, lanes.1, lanes.2, lanes.3] {
                hash = (hash ^ Self.round(0, lane)) &* Self.prime1 &+ Self.prime4
            }
        } else {
            hash = seed &+ Self.prime5
        }
        hash &+= UInt64(length)
        let raw = bytes.bytes
        var position = start
        while position &+ 8 <= bytes.count {
            hash = Self.rotated(hash ^ Self.round(0, Self.word(raw, position)), 27) &* Self.prime1 &+ Self.prime4
            position &+= 8
        }
        if position &+ 4 <= bytes.count {
            let half = UInt32(littleEndian: unsafe raw.unsafeLoadUnaligned(fromByteOffset: position, as: UInt32.self))
            hash = Self.rotated(hash ^ UInt64(half) &* Self.prime1, 23) &* Self.prime2 &+ Self.prime3
            position &+= 4
        }
        while position < bytes.count {
            hash = Self.rotated(hash ^ UInt64(bytes[position]) &* Self.prime5, 11) &* Self.prime1
            position &+= 1
        }
        hash = (hash ^ hash &>> 33) &* Self.prime2
        hash = (hash ^ hash &>> 29) &* Self.prime3
        return hash ^ hash &>> 32
    }
}
