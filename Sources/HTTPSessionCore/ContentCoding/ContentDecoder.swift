// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// A content coding beside gzip and deflate (RFC 9110, section 8.4.1), for `URLSessionManager.Configuration.contentDecoders`. The product
/// `HTTPSessionCodings` has `.brotli` and `.zstd`.
public struct ContentDecoder: Sendable, Hashable, CustomStringConvertible {
    /// The name of the coding in `Accept-Encoding` and `Content-Encoding`, in lower case.
    public let name: String
    package let make: @Sendable () -> (any BodyDecoding)?

    /// - Parameter make: a decoder for one body; nil when memory is short.
    package init(name: String, make: @escaping @Sendable () -> (any BodyDecoding)?) {
        self.name = name
        self.make = make
    }

    public var description: String { name }

    /// Whether both are the same coding.
    public static func == (left: ContentDecoder, right: ContentDecoder) -> Bool { left.name == right.name }

    /// Hashes the name.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

/// Decodes one body in pieces, in bounded memory. For one thread.
package protocol BodyDecoding: AnyObject {
    /// Whether the body may end here: the coded data is complete, or there was none.
    var mayEnd: Bool { get }

    /// Consumes `input` from `position`, which it moves, and appends at most `DecodingStep.pieceSize` bytes to `output`.
    func next(_ input: borrowing Span<UInt8>, _ position: inout Int, into output: inout ByteBuffer) -> DecodingStep
}

/// What a step of a decoder has come to.
package enum DecodingStep: Equatable {
    /// All of the input has been consumed.
    case needsInput
    /// One step's limit of output is reached; there may be more.
    case hasMore
    case failed(String)

    /// The most output of one step, in bytes.
    package static let pieceSize = 64 << 10

    /// The body is not in its coding.
    ///
    /// - Parameter cause: in the words of a library; nil for none.
    package static func broken(_ name: String, _ cause: String? = nil) -> DecodingStep {
        let cause = cause.map { " (\($0))" } ?? ""
        return .failed("The body is not what its Content-Encoding says: its \(name) coding is broken\(cause).")
    }
}
