// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore
import StrictJSON

/// The destination of event lines: the standard error. A reader that does not read must not block a thread, because
/// then signals and clients would wait too. Lines without room are dropped, and counted in the first line that has room
/// again.
///
/// `@unchecked Sendable`: everything that changes is behind `lock`.
final class EventOutput: @unchecked Sendable {
    static let standard = EventOutput(descriptor: STDERR_FILENO)

    let descriptor: Int32
    private let lock = PosixLock()
    // The state behind `lock`.
    /// The form for people; nil for the lines as they are.
    private var text: LogText?
    private var lost = 0
    /// The last line had no room: the next one is not delayed.
    private var isStuck = false
    /// A line was cut in the middle.
    private var isInsideLine = false

    /// How long the first line waits for a slow reader, in milliseconds.
    private static let patience: Int32 = 200
    /// A writable pipe has room for this much (pipe(7): PIPE_BUF).
    private static let piece = 4096

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Changes the form of the lines that follow.
    func use(_ text: LogText?) { lock.withLock { self.text = text } }

    /// Writes a line, including its newline, or drops it.
    func write(_ line: String) {
        lock.withLock {
            let line = text.map { String(decoding: $0.text(of: Array(line.utf8)), as: UTF8.self) } ?? line
            if !putWhatIsOwed() || !put(line) { lost += 1 }
        }
    }

    /// Writes the rest of a line that was cut, and the number of dropped lines.
    private func putWhatIsOwed() -> Bool {
        if isInsideLine {
            guard put("\n") else { return false }
            isInsideLine = false
        }
        if lost > 0 {
            var line = JSONLine()
            line.add("event", "warning")
            line.add("code", "events_lost")
            line.add("count", lost)
            guard put(line.text) else { return false }
            lost = 0
        }
        return true
    }

    /// - Returns: whether everything was written; true as well when writing has become impossible, which cannot be
    ///   reported anywhere.
    private func put(_ text: String) -> Bool {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            guard poll(&waiting, 1, isStuck ? 0 : Self.patience) > 0 else {
                isStuck = true
                isInsideLine = isInsideLine || bytes.count < text.utf8.count
                return false
            }
            let written = bytes.prefix(Self.piece).withUnsafeBytes {
                pinproxy_write_file(descriptor, $0.baseAddress, $0.count)
            }
            if written == -Int(EAGAIN) { continue }
            guard written > 0 else { return true }
            bytes = bytes.dropFirst(written)
        }
        isStuck = false
        return true
    }
}
