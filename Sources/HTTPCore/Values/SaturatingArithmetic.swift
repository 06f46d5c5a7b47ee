// SPDX-License-Identifier: Apache-2.0
/// Arithmetic on numbers from outside: lengths, times, ages, counts. Where the result is no value of the type, it is the
/// nearest one, and no trap: a peer chooses these numbers, and must not be able to end the process with one.
extension FixedWidthInteger {
    /// The sum, or the nearest value of the type.
    @inlinable
    package func addingSaturated(_ other: Self) -> Self {
        let (sum, overflows) = addingReportingOverflow(other)
        // Only an operand below zero can lead below the least value.
        return overflows ? (other < 0 ? .min : .max) : sum
    }

    /// The difference, or the nearest value of the type.
    @inlinable
    package func subtractingSaturated(_ other: Self) -> Self {
        let (difference, overflows) = subtractingReportingOverflow(other)
        return overflows ? (other < 0 ? .max : .min) : difference
    }

    /// The product, or the nearest value of the type.
    @inlinable
    package func multipliedSaturated(by other: Self) -> Self {
        let (product, overflows) = multipliedReportingOverflow(by: other)
        return overflows ? ((self < 0) == (other < 0) ? .max : .min) : product
    }
}
