// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPSessionCore
import SessionCore
import Synchronization

/// Reads the standard input as a body of unknown length. It can be read once: a request that has to be sent again
/// fails.
actor StandardInputReader: BodyReader {
    /// `Sendable` because its one property is atomic.
    private final class Use: Sendable {
        let isTaken = Atomic<Bool>(false)
    }

    static func source() -> BodySource {
        let use = Use()
        return BodySource(length: nil) { () throws(SessionError) in
            guard !use.isTaken.exchange(true, ordering: .relaxed) else {
                throw SessionError(
                    .requestInvalid,
                    "The server wants the body a second time, and the standard input is read. Send a file."
                )
            }
            return StandardInputReader()
        }
    }

    func read(atMost count: Int) throws -> [UInt8] {
        var piece = [UInt8](repeating: 0, count: count)
        while true {
            let read = Glibc.read(STDIN_FILENO, &piece, count)
            if read >= 0 { return Array(piece.prefix(read)) }
            guard errno == EINTR else {
                throw SessionError(
                    .requestInvalid,
                    "The standard input cannot be read: \(String(cString: strerror(errno)))."
                )
            }
        }
    }
}
