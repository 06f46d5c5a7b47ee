// SPDX-License-Identifier: Apache-2.0
/// Deterministic bytes without repetition, so that a lost or doubled piece is noticed.
package func patternBytes(_ count: Int) -> [UInt8] {
    var state: UInt64 = 0x9E37_79B9_7F4A_7C15
    return (0..<count).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt8(truncatingIfNeeded: state >> 56)
    }
}
