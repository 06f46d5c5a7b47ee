// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@Suite("Arithmetic that saturates")
struct SaturatingArithmeticTests {
    @Test("a sum of small numbers is the nearest value of the type")
    func everyPair() {
        for left in Int8.min...Int8.max {
            for right in Int8.min...Int8.max {
                let (a, b) = (Int(left), Int(right))
                #expect(left.addingSaturated(right) == Int8(clamping: a + b), "\(a) + \(b)")
                #expect(left.subtractingSaturated(right) == Int8(clamping: a - b), "\(a) - \(b)")
                #expect(left.multipliedSaturated(by: right) == Int8(clamping: a * b), "\(a) * \(b)")
            }
        }
        for left in UInt8.min...UInt8.max {
            for right in UInt8.min...UInt8.max {
                let (a, b) = (Int(left), Int(right))
                #expect(left.addingSaturated(right) == UInt8(clamping: a + b), "\(a) + \(b)")
                #expect(left.subtractingSaturated(right) == UInt8(clamping: a - b), "\(a) - \(b)")
                #expect(left.multipliedSaturated(by: right) == UInt8(clamping: a * b), "\(a) * \(b)")
            }
        }
    }

    @Test("a result beyond Int64 is its limit")
    func ends() {
        #expect(Int64.max.addingSaturated(1) == .max && Int64.min.addingSaturated(-1) == .min)
        #expect(Int64.min.subtractingSaturated(1_800_000_000) == .min && Int64(0).subtractingSaturated(.min) == .max)
        #expect(Int64.min.multipliedSaturated(by: -1) == .max && Int64.max.multipliedSaturated(by: -2) == .min)
        #expect(UInt64(3).subtractingSaturated(4) == 0)
    }
}
