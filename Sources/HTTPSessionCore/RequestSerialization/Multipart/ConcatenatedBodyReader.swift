// SPDX-License-Identifier: Apache-2.0
import SessionCore

/// Reads one body after the other. Each is opened when its turn comes, so that a form of a thousand files has one open
/// at a time.
actor ConcatenatedBodyReader: BodyReader {
    private var pieces: ArraySlice<RequestBody>
    /// The bytes of the first piece that have been read, if it is an array.
    private var position = 0
    /// The reader of the first piece, if that is a source.
    private var reader: (any BodyReader)?
    private var readerLeft: Int?

    init(_ pieces: [RequestBody]) { self.pieces = pieces[...] }

    func read(atMost count: Int) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count, let piece = pieces.first {
            switch piece {
            case .none:
                next()
            case .bytes(let content):
                let end = min(content.count, position + count - bytes.count)
                bytes += content[position..<end]
                position = end
                if end == content.count { next() }
            case .source(let source):
                let part = try await read(source, atMost: count - bytes.count)
                bytes += part
                // The bytes so far are returned without waiting for a slow source.
                if !part.isEmpty { return bytes }
                next()
            }
        }
        return bytes
    }

    private func read(_ source: BodySource, atMost count: Int) async throws -> [UInt8] {
        let reader: any BodyReader
        if let open = self.reader {
            reader = open
        } else {
            reader = try source.open()
            self.reader = reader
            readerLeft = source.length
        }
        let part = try await reader.readPiece(atMost: count)
        guard let left = readerLeft else { return part }
        guard part.isEmpty ? left == 0 : part.count <= left else {
            throw SessionError(.requestInvalid, "A part's source gave more or fewer bytes than its length says.")
        }
        readerLeft = left - part.count
        return part
    }

    private func next() {
        pieces = pieces.dropFirst()
        position = 0
        reader = nil
        readerLeft = nil
    }
}
