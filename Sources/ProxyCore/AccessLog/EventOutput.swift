import CShims
import Glibc
import IOCore

/// Where event lines go: the standard error. A reader that does not read keeps no thread waiting: signals would not be
/// heard, and clients not be served. Lines without room are left out, and counted in the first line that has room again.
///
/// `@unchecked Sendable`: everything that changes is behind `lock`.
final class EventOutput: @unchecked Sendable {
    static let standard = EventOutput(descriptor: STDERR_FILENO)

    private let descriptor: Int32
    private let lock = PosixLock()
    // Behind `lock`.
    private var lost = 0
    /// The last line had no room: the next one does not wait for it.
    private var isStuck = false
    /// A line was cut in the middle.
    private var isInsideLine = false

    /// How long the first line waits for a slow reader, in milliseconds.
    private static let patience: Int32 = 200
    /// A pipe that can be written to has room for that much (pipe(7): PIPE_BUF).
    private static let piece = 4096

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Writes a line, which ends with its newline, or leaves it out.
    func write(_ line: String) {
        lock.withLock {
            if !putWhatIsOwed() || !put(line) { lost += 1 }
        }
    }

    /// The end of a line that was cut, and how many are missing.
    private func putWhatIsOwed() -> Bool {
        if isInsideLine {
            guard put("\n") else { return false }
            isInsideLine = false
        }
        if lost > 0 {
            guard put("{\"event\":\"warning\",\"code\":\"events_lost\",\"count\":\(lost)}\n") else { return false }
            lost = 0
        }
        return true
    }

    /// - Returns: whether all of it was written; also where nothing can be written any more (there is nobody to tell).
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
