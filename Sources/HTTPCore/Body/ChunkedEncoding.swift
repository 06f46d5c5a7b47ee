// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// Writes the chunked coding (RFC 9112 7.1).
extension ByteBuffer {
    /// Writes the size line of a chunk. A chunk of 0 bytes would end the body, and is not allowed here.
    package mutating func appendChunkHead(size: Int) {
        precondition(size > 0, "an empty chunk ends the body: see appendLastChunk")
        append(hexadecimal: size)
        append("\r\n")
    }

    /// Writes the end of a chunk's data.
    package mutating func appendChunkEnd() {
        append("\r\n")
    }

    /// Writes the end of the body, without trailers.
    package mutating func appendLastChunk() {
        append("0\r\n\r\n")
    }

    /// Writes the end of the body with its trailers.
    package mutating func appendLastChunk(trailers: borrowing HeaderFields) {
        append("0\r\n")
        trailers.serialize(into: &self)
        append("\r\n")
    }
}
