// SPDX-License-Identifier: Apache-2.0
import Glibc

/// Compares bodies by memcmp(3): in a build without optimisation the standard library's `==` takes three calls for each byte, a
/// third of a second for ten megabytes.
package func == (one: [UInt8], other: [UInt8]) -> Bool {
    guard one.count == other.count else { return false }
    return one.withUnsafeBytes { one in
        other.withUnsafeBytes { one.isEmpty || memcmp(one.baseAddress!, $0.baseAddress!, one.count) == 0 }
    }
}

/// Describes the first difference between two bodies; nil for equal ones.
///
/// Use it instead of `==` for large bodies: the testing library computes an edit script for a failed comparison, which
/// takes minutes for megabytes.
package func firstDifference(_ one: [UInt8]?, _ other: [UInt8]) -> String? {
    guard let one else { return "there is none" }
    if one == other { return nil }
    if let index = zip(one, other).enumerated().first(where: { $0.element.0 != $0.element.1 })?.offset {
        return "\(one.count) and \(other.count) bytes differ from byte \(index) on: \(one[index]) and \(other[index])"
    }
    return "\(one.count) bytes are the same, then one ends before the other, of \(other.count)"
}
