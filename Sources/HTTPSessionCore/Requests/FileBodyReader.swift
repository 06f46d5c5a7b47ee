// SPDX-License-Identifier: Apache-2.0
import Glibc
public import SessionCore

extension BodySource {
    /// The bytes of a regular file. Its length is determined now: the request fails when the file has become shorter by
    /// the time it is sent, and bytes that were added are not sent.
    ///
    /// - Throws: `requestInvalid` for a missing or unreadable file, and for one that is no regular file.
    public static func file(_ path: String) throws(SessionError) -> BodySource {
        let length = try FileBodyReader(path).length
        return BodySource(length: length) { () throws(SessionError) in try FileBodyReader(path, length: length) }
    }
}

/// Reads a file from its first byte. It blocks on the disk, and is for the threads that may, never for a loop.
actor FileBodyReader: BodyReader {
    nonisolated let length: Int
    private let path: String
    private let descriptor: Int32
    private var left: Int

    /// - Parameter length: the number of bytes to read; nil for the present length.
    init(_ path: String, length: Int? = nil) throws(SessionError) {
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw SessionError(.requestInvalid, "An empty path, or one with a NUL, names no file.")
        }
        // Non-blocking, so that opening a pipe does not block the caller before it is rejected.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw SessionError(.requestInvalid, "\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw SessionError(.requestInvalid, "\(path) is no regular file.")
        }
        self.path = path
        self.descriptor = descriptor
        self.length = length ?? Int(status.st_size)
        left = self.length
    }

    deinit { close(descriptor) }

    func read(atMost count: Int) throws -> [UInt8] {
        let wanted = min(count, left)
        guard wanted > 0 else { return [] }
        var piece = [UInt8](repeating: 0, count: wanted)
        while true {
            let read = Glibc.read(descriptor, &piece, wanted)
            if read > 0 {
                left -= read
                piece.removeLast(wanted - read)
                return piece
            }
            if read == 0 {
                throw SessionError(.requestInvalid, "\(path) has become shorter while it was sent.")
            }
            if errno != EINTR {
                throw SessionError(.requestInvalid, "\(path) cannot be read: \(String(cString: strerror(errno))).")
            }
        }
    }
}
