public import SessionCore

/// What a request carries.
public enum RequestBody: Sendable {
    /// No body at all; there is no Content-Length.
    case none
    /// Bytes that are there as a whole.
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

    /// All of the body, in memory: for tests and for small bodies.
    ///
    /// - Throws: what the source throws, and `requestInvalid` when it has more than `limit` bytes.
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

/// Where the bytes of a body come from, and how many there are when that is known.
///
/// It can be opened more than once, so that a request can be sent again; a source that cannot throws the second time.
public struct BodySource: Sendable {
    /// In bytes; nil when only the end tells. Then the body is chunked in HTTP/1.1.
    public let length: Int?
    private let opening: @Sendable () throws(SessionError) -> any BodyReader

    /// At most so many bytes are asked of a reader at a time.
    static let pieceSize = 64 << 10

    /// - Parameters:
    ///   - length: in bytes, when it is known: the reader has to give exactly that many.
    ///   - open: makes a reader that begins at the first byte.
    public init(length: Int?, open: @escaping @Sendable () throws(SessionError) -> any BodyReader) {
        self.length = length
        opening = open
    }

    /// A reader that begins at the first byte.
    ///
    /// - Throws: why it cannot be opened, or not a second time; the session's own sources throw `requestInvalid`.
    public func open() throws(SessionError) -> any BodyReader { try opening() }
}

/// Bytes of one body, in order, pulled: nothing is read before there is room for it.
///
/// The session calls `read` on threads that may block, never on its loop, and not again before the last call has
/// returned. An actor is a natural reader. When the request ends early, the reader is released.
public protocol BodyReader: AnyObject, Sendable {
    /// - Parameter count: at least 1.
    /// - Returns: between 1 and `count` bytes; none at the end.
    /// - Throws: whatever went wrong. The request fails with `requestInvalid`, and what was sent is no whole request.
    func read(atMost count: Int) async throws -> [UInt8]
}

extension BodyReader {
    /// `read`, held to its word.
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
    /// Pieces as they come from an asynchronous sequence, of any size. Read once: a second opening throws.
    ///
    /// - Parameters:
    ///   - pieces: asked for the next when there is room for it; empty ones are passed over.
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
