// SPDX-License-Identifier: Apache-2.0
extension [UInt8] {
    /// Appends a copy of `span` with one memcpy: the standard library has no such function for spans yet.
    @inlinable
    @inline(__always)
    package mutating func append(_ span: borrowing Span<UInt8>) {
        span.withUnsafeBufferPointer { append(contentsOf: $0) }
    }
}

extension StaticString {
    /// The bytes of a literal, which are valid forever.
    @inlinable
    @inline(__always)
    package var bytes: Span<UInt8> {
        @_lifetime(immortal) get {
            let span = Span<UInt8>(_unsafeStart: utf8Start, count: utf8CodeUnitCount)
            return unsafe _overrideLifetime(span, copying: ())
        }
    }
}
