extension [UInt8] {
    /// Appends a copy of `span` in one move of memory: the standard library has no such call for spans yet.
    @inline(__always)
    package mutating func append(_ span: borrowing Span<UInt8>) {
        span.withUnsafeBufferPointer { append(contentsOf: $0) }
    }
}

extension StaticString {
    /// The bytes of a literal; they live as long as the program.
    @inline(__always)
    package var bytes: Span<UInt8> {
        @_lifetime(immortal) get {
            let span = Span<UInt8>(_unsafeStart: utf8Start, count: utf8CodeUnitCount)
            return unsafe _overrideLifetime(span, copying: ())
        }
    }
}
