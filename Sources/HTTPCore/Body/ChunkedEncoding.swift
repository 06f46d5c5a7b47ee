package import IOCore

/// Writes the chunked coding (RFC 9112 7.1).
extension ByteBuffer {
    /// What stands before the data of a chunk of `size` bytes. A chunk of 0 bytes would end the body, so it is none.
    package mutating func appendChunkHead(size: Int) {
        precondition(size > 0, "an empty chunk ends the body: see appendLastChunk")
        append(hexadecimal: size)
        append("\r\n")
    }

    /// What stands behind the data of a chunk.
    package mutating func appendChunkEnd() {
        append("\r\n")
    }

    /// The end of the body, without trailers.
    package mutating func appendLastChunk() {
        append("0\r\n\r\n")
    }

    /// The end of the body with its trailers.
    package mutating func appendLastChunk(trailers: borrowing HTTPFields) {
        append("0\r\n")
        trailers.serialize(into: &self)
        append("\r\n")
    }
}
