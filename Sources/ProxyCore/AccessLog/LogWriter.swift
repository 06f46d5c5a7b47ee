// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
package import IOCore
import StrictJSON
import Synchronization

/// Receives whole lines of the task log as JSON, whatever its form is, on the log's thread.
package typealias LogObserver = @Sendable (UnsafeRawBufferPointer) -> Void

/// Writes log lines to a descriptor, apart from the loops that make them.
///
/// Each worker collects lines in a buffer of its own and hands it over when it is large or old enough. The log's own
/// thread writes, so that a slow reader of the log delays no request. The waiting lines are bounded: lines beyond that
/// are dropped and counted, and the count is logged when there is room again. Lines that a full disk does not take are
/// counted too, and reported on the standard error.
package final class LogWriter: Sendable {
    private let ownsDescriptor: Bool
    private let loop: EventLoop
    private let output: LineOutput
    package let losses: LogLosses
    private let notify: @Sendable (EventLine) -> Void
    /// Used by the loop's thread: makes reports that were too early before.
    private let reminder: Reminder
    /// Nil when the caller's own thread writes, in `close`.
    private let thread: LoopThread?
    private let waiting = Atomic<Int>(0)
    private let dropped = Atomic<Int>(0)
    private let bound = 16 << 20
    /// The form for people; nil for the lines as they are.
    private let text: LogText?
    private let observer: LogObserver?

    /// - Parameters:
    ///   - closing: whether the descriptor is closed at the end.
    ///   - clock: with `.byHand` there is no thread: everything is written when the log is closed.
    ///   - losses: counts the lines that could not be written, including those of former writers.
    ///   - text: turns the lines into text for people.
    ///   - observer: receives the lines, too.
    ///   - notify: receives the event lines about lost lines.
    package init(
        descriptor: Int32,
        closing: Bool,
        clock: LoopClock = .system,
        losses: LogLosses = LogLosses(),
        text: LogText? = nil,
        observer: LogObserver? = nil,
        notify: @escaping @Sendable (EventLine) -> Void = { $0.write() }
    ) throws(IOFailure) {
        let loop = try EventLoop(clock: clock)
        self.loop = loop
        output = LineOutput(descriptor: descriptor)
        self.text = text
        self.observer = observer
        self.losses = losses
        self.notify = notify
        reminder = Reminder(losses, notify)
        ownsDescriptor = closing
        thread = clock == .byHand ? nil : try LoopThread(name: "log") { loop.run() }
    }

    /// Opens `path` for appending.
    package convenience init(
        path: String,
        clock: LoopClock = .system,
        losses: LogLosses = LogLosses(),
        text: LogText? = nil,
        observer: LogObserver? = nil
    ) throws(IOFailure) {
        let descriptor = pinproxy_open_append(path)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "open") }
        try self.init(
            descriptor: descriptor,
            closing: true,
            clock: clock,
            losses: losses,
            text: text,
            observer: observer
        )
    }

    /// Takes over whole lines. May be called on any thread.
    package func write(_ lines: [UInt8], count: Int) {
        var buffer = ByteBuffer()
        buffer.append(lines)
        write(&buffer, count: count)
    }

    /// The same without a copy.
    ///
    /// - Parameter buffer: gets empty; its memory goes with the lines.
    func write(_ buffer: inout ByteBuffer, count: Int) {
        guard waiting.load(ordering: .relaxed) < bound else {
            dropped.add(count, ordering: .relaxed)
            losses.add(count)
            buffer.removeAll()
            return
        }
        let size = buffer.count
        waiting.add(size, ordering: .relaxed)
        let lines = LogLines(&buffer)
        loop.submit { [self] in
            lines.use { put($0) }
            waiting.subtract(size, ordering: .relaxed)
            let lost = dropped.exchange(0, ordering: .relaxed)
            guard lost > 0 else { return }
            var line = JSONLine()
            line.add("event", "log_lines_dropped")
            line.add("count", lost)
            Array(line.text.utf8).withUnsafeBytes { put($0) }
        }
    }

    /// Writes on the log's thread. A closed reader, or a full disk, does not stop the proxy.
    private func put(_ lines: UnsafeRawBufferPointer) {
        observer?(lines)
        let (lost, code) =
            text.map { $0.text(of: Array(lines)).withUnsafeBytes { output.append($0) } } ?? output.append(lines)
        if code != 0 { reminder.code = code }
        if lost > 0 { losses.add(lost) }
        reminder.report(on: loop)
    }

    /// Ends the writing.
    private func end() {
        let unfinished = output.finish()
        if unfinished > 0 { losses.add(unfinished) }
        reminder.reportRest()
        if ownsDescriptor { Glibc.close(output.descriptor) }
    }

    /// Writes the waiting lines and ends the thread.
    ///
    /// - Parameter patience: the rest is dropped when the log's reader takes nothing for so long, because a stop, or a
    ///   change of the log, must not wait for ever.
    package func close(patience: TimeSpan = .seconds(5)) {
        loop.submit { [loop] in loop.stop() }
        guard let thread else {
            loop.run()
            end()
            return
        }
        var left: Int
        repeat {
            left = waiting.load(ordering: .relaxed)
            if thread.join(within: patience) {
                end()
                return
            }
        } while waiting.load(ordering: .relaxed) != left
        // The thread may still be writing, so the descriptor stays open.
        thread.detach()
    }
}

/// Lines on their way to the log's thread.
///
/// `@unchecked Sendable`: only the maker has the object before it is submitted to the log's loop, and only that loop afterwards.
private final class LogLines: @unchecked Sendable {
    private var buffer = ByteBuffer()

    init(_ lines: inout ByteBuffer) { swap(&buffer, &lines) }

    func use(_ body: (UnsafeRawBufferPointer) -> Void) { buffer.withUnsafeBytes(body) }
}

/// Reports lost lines when it is time.
///
/// `@unchecked Sendable`: used by the log's thread alone, and after that thread's end by the thread that closes the
/// log.
private final class Reminder: @unchecked Sendable {
    /// The `errno` value of the last failure; 0 when the reader was only too slow.
    var code: Int32 = 0
    private let losses: LogLosses
    private let write: @Sendable (EventLine) -> Void
    private var timer: LoopTimer?

    init(_ losses: LogLosses, _ write: @escaping @Sendable (EventLine) -> Void) {
        self.losses = losses
        self.write = write
    }

    func report(on loop: EventLoop) {
        if let count = losses.countToReport(at: loop.freshNow) {
            write(line(count))
        } else if losses.hasUnreported, timer?.isArmed != true, let wait = losses.wait(at: loop.freshNow) {
            let timer = self.timer ?? LoopTimer { [unowned self, unowned loop] in report(on: loop) }
            self.timer = timer
            loop.arm(timer, after: wait)
        }
    }

    func reportRest() {
        if let count = losses.countToReport(at: Clock.monotonic, isLast: true) { write(line(count)) }
    }

    private func line(_ count: Int) -> EventLine {
        let why =
            code == 0
            ? "what reads the log is too slow (let it read faster, or name a file in log.tasks)"
            : "\(IOFailure(code: code, during: "write").reason) (make room for the log; later lines are tried again)"
        return EventLine(event: "log_lines_lost")
            .with("count", count)
            .with("total", losses.count)
            .with("message", "lines of the task log could not be written: \(why)")
    }
}

/// The lines of one worker, before they are handed over.
final class LogBuffer {
    /// nil when the lines are for the admin listener alone.
    let writer: LogWriter?
    private let recent: RecentTasks?
    private unowned let loop: EventLoop
    private var lines = ByteBuffer()
    private var count = 0
    private let timer = LoopTimer()
    /// The bytes that were handed over last: as many will probably come again.
    private var lastSize = 0

    private static let enough = 64 << 10
    /// Few lines are longer.
    private static let longestLine = 4 << 10
    private static let age = TimeSpan.milliseconds(100)

    init(writer: LogWriter?, recent: RecentTasks? = nil, loop: EventLoop) {
        self.writer = writer
        self.recent = recent
        self.loop = loop
        timer.whenDue { [unowned self] in flush() }
    }

    /// Lets `body` append one line, including its newline.
    @inline(__always)
    func line(_ body: (inout ByteBuffer) -> Void) {
        if count == 0, lastSize > 0 { lines.reserve(lastSize + Self.longestLine) }
        body(&lines)
        count += 1
        if lines.count >= Self.enough {
            flush()
        } else if count == 1 {
            loop.arm(timer, after: Self.age)
        }
    }

    func flush() {
        guard count > 0 else { return }
        loop.disarm(timer)
        lastSize = min(lines.count, Self.enough)
        if let recent { lines.withUnsafeBytes { recent.append($0, count: count) } }
        if let writer { writer.write(&lines, count: count) } else { lines.removeAll() }
        count = 0
    }

    /// Hands over the last lines; the buffer is not used any more.
    func end() {
        flush()
        loop.remove(timer)
    }
}
