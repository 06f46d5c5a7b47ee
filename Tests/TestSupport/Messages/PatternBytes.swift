// SPDX-License-Identifier: Apache-2.0
/// Deterministic bytes without repetition, so that a lost or doubled piece is noticed. A shorter one is the beginning of a longer
/// one with the same seed.
///
/// It makes eight bytes at a time in plain memory: tests are built without optimisation, where a closure for each byte takes a
/// hundred times as long, and some tests want tens of megabytes.
package func patternBytes(_ count: Int, seed: UInt64 = 0x9E37_79B9_7F4A_7C15) -> [UInt8] {
    // An empty array is one for all threads, and would be written to.
    guard count > 0 else { return [] }
    let words = (count + 7) / 8
    return [UInt8](unsafeUninitializedCapacity: words * 8) { room, filled in
        filled = count
        guard let start = room.baseAddress else { return }
        UnsafeMutableRawPointer(start).withMemoryRebound(to: UInt64.self, capacity: words) { memory in
            var state = seed
            var index = 0
            while index < words {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                // The low bits of such a generator repeat soon.
                memory[index] = (state ^ (state >> 29)).littleEndian
                index += 1
            }
        }
    }
}

/// A text of one letter in ASCII: `String(repeating:count:)` appends one after the other, forty megabytes in a second.
package func letters(_ letter: Unicode.Scalar, _ count: Int) -> String {
    String(decoding: [UInt8](repeating: UInt8(ascii: letter), count: count), as: UTF8.self)
}
