// SPDX-License-Identifier: Apache-2.0
public import SessionCore

/// The body of a request.
public enum RequestBody: Sendable {
    /// No body at all; there is no Content-Length.
    case none
    /// Bytes in memory.
    case bytes([UInt8])
    /// Bytes that are read piece by piece while they are sent.
    case source(BodySource)

    var length: RequestBodyLength {
        switch self {
        case .none: .none
        case .bytes(let bytes): .bytes(bytes.count)
        case .source(let source): source.length.map { .bytes($0) } ?? .unknown
        }
    }

    /// Reads the complete body into memory: for tests and for small bodies.
    ///
    /// - Throws: the source's error, and `requestInvalid` when the body exceeds `limit` bytes.
    public func collect(limit: Int = 64 << 20) async throws(SessionError) -> [UInt8] {
        switch self {
        case .none: return []
        case .bytes(let bytes): return bytes
        case .source(let source):
            let reader = try source.open()
            var all: [UInt8] = []
            while true {
                let piece = try await reader.readPiece(atMost: BodySource.pieceSize)
                if piece.isEmpty { return all }
                guard all.count + piece.count <= limit else {
                    throw SessionError(.requestInvalid, "The body is longer than \(limit) bytes.")
                }
                all += piece
            }
        }
    }
}

/// A source of a body's bytes, with their number when it is known.
///
/// It can be opened more than once, so that a request can be sent again; a source that cannot be throws the second
/// time.
public struct BodySource: Sendable {
    /// The length in bytes; nil when it is not known beforehand. Then HTTP/1.1 uses chunks.
    public let length: Int?
    private let opening: @Sendable () throws(SessionError) -> any BodyReader

    /// The most bytes of one read.
    static let pieceSize = 64 << 10

    /// - Parameters:
    ///   - length: in bytes, when it is known; the reader has to return exactly that many.
    ///   - open: makes a reader that begins at the first byte.
    public init(length: Int?, open: @escaping @Sendable () throws(SessionError) -> any BodyReader) {
        self.length = length
        opening = open
    }

    /// A reader that begins at the first byte.
    ///
    /// - Throws: the source's error; the session's own sources throw `requestInvalid`.
    public func open() throws(SessionError) -> any BodyReader { try opening() }
}

/// Reads the bytes of one body in order. A piece is read only when there is room for it.
///
/// The session calls `read` on threads that may block, never on its loop, and not before the last call has returned. An
/// actor is a natural implementation. The reader is released early when the request ends early.
public protocol BodyReader: AnyObject, Sendable {
    /// - Parameter count: at least 1.
    /// - Returns: between 1 and `count` bytes; an empty array at the end.
    /// - Throws: any error; the request fails with `requestInvalid`, and stays incomplete for the server.
    func read(atMost count: Int) async throws -> [UInt8]
}

extension BodyReader {
    /// `read`, with a check of its result.
    func readPiece(atMost count: Int) async throws(SessionError) -> [UInt8] {
        let piece: [UInt8]
        do {
            piece = try await read(atMost: count)
        } catch let error as SessionError {
            throw error
        } catch {
            throw SessionError(.requestInvalid, "The request's body could not be read: \(error).")
        }
        guard piece.count <= count else {
            throw SessionError(
                .requestInvalid,
                "The body's reader gave \(piece.count) bytes where \(count) were asked."
            )
        }
        return piece
    }
}

extension BodySource {
    /// Pieces of any size from an asynchronous sequence. It can be read once: a second opening throws.
    ///
    /// - Parameters:
    ///   - pieces: the next one is requested when there is room for it; empty ones are skipped.
    ///   - length: in bytes, when it is known.
    public static func sequence<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces, length: Int? = nil) -> BodySource
    where Pieces.Element == [UInt8] {
        let once = OnceOnly()
        return BodySource(length: length) { () throws(SessionError) in
            guard once.claim() else {
                throw SessionError(.requestInvalid, "The body is a sequence that has been read already.")
            }
            return SequenceBodyReader(pieces)
        }
    }
}

private actor SequenceBodyReader<Pieces: AsyncSequence & Sendable>: BodyReader where Pieces.Element == [UInt8] {
    private var iterator: Pieces.AsyncIterator
    private var rest: ArraySlice<UInt8> = []

    init(_ pieces: Pieces) { iterator = pieces.makeAsyncIterator() }

    func read(atMost count: Int) async throws -> [UInt8] {
        while rest.isEmpty {
            var iterator = iterator
            guard let piece = try await iterator.next(isolation: self) else { return [] }
            self.iterator = iterator
            rest = piece[...]
        }
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }
}
