// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPSessionCore
import SessionCore

extension BodySource {
    /// The bytes of an `InputStream`, which is read on a thread of its own while they are sent.
    ///
    /// - Parameters:
    ///   - length: the length in bytes, if it is known; the stream has to provide exactly that many.
    ///   - makeStream: returns an unopened stream at its first byte, each time that the body is opened; nil fails the
    ///     request, before anything of it is sent. It is called on the session's loop, and must not block; opening the stream may.
    public static func inputStream(
        length: Int? = nil,
        _ makeStream: @escaping @Sendable () -> InputStream?
    ) -> BodySource {
        BodySource(length: length) { () throws(SessionError) in
            guard let reader = InputStreamReader(makeStream) else {
                throw SessionError(.requestInvalid, "There is no stream for the request's body.")
            }
            return reader
        }
    }
}

/// An `InputStream` may block for any time, also when it is opened, and delays no other work here. It is closed when this object is
/// released.
private actor InputStreamReader: BodyReader {
    private let stream: InputStream
    private var isOpen = false
    private let queue: SerialQueue

    nonisolated var unownedExecutor: UnownedSerialExecutor { queue.asUnownedSerialExecutor() }

    init?(_ makeStream: @Sendable () -> InputStream?) {
        guard let stream = makeStream() else { return nil }
        self.stream = stream
        queue = SerialQueue()
    }

    func read(atMost count: Int) throws -> [UInt8] {
        if !isOpen {
            // Not when the reader is made, which happens on the session's loop: a pipe, for one, waits for its writer.
            isOpen = true
            stream.open()
        }
        var piece = [UInt8](repeating: 0, count: count)
        let read = stream.read(&piece, maxLength: count)
        guard read >= 0 else { throw stream.streamError ?? CocoaError(.fileReadUnknown) }
        piece.removeLast(count - read)
        return piece
    }
}

private final class SerialQueue: SerialExecutor {
    private let queue = DispatchQueue(label: "HTTPSessionFoundation.InputStream")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}
