import CShims
import Glibc
package import IOCore
import Synchronization

/// Writes log lines to a descriptor, off the loops that make them.
///
/// Each worker gathers lines in a buffer of its own and hands it over when it is large or old enough; a thread of the
/// log's own does the writing, so that a slow reader of the log holds up nobody's requests. What a reader leaves lying
/// is bounded: beyond that lines are dropped, counted, and the count is logged when there is room again.
package final class LogWriter: Sendable {
    private let descriptor: Int32
    private let ownsDescriptor: Bool
    private let loop: EventLoop
    /// Nil where the caller's own thread writes, in `close`.
    private let thread: LoopThread?
    private let waiting = Atomic<Int>(0)
    private let dropped = Atomic<Int>(0)
    private let bound = 16 << 20

    /// - Parameters:
    ///   - closing: whether the descriptor is closed at the end.
    ///   - clock: with `.byHand` there is no thread: all is written when it is closed.
    package init(descriptor: Int32, closing: Bool, clock: LoopClock = .system) throws(IOFailure) {
        let loop = try EventLoop(clock: clock)
        self.loop = loop
        self.descriptor = descriptor
        ownsDescriptor = closing
        thread = clock == .byHand ? nil : try LoopThread(name: "log") { loop.run() }
    }

    /// Opens `path` for appending.
    package convenience init(path: String, clock: LoopClock = .system) throws(IOFailure) {
        let descriptor = pinproxy_open_append(path)
        guard descriptor >= 0 else { throw IOFailure(code: -descriptor, during: "open") }
        try self.init(descriptor: descriptor, closing: true, clock: clock)
    }

    /// Takes over whole lines. Any thread.
    package func write(_ lines: [UInt8], count: Int) {
        guard waiting.load(ordering: .relaxed) < bound else {
            dropped.add(count, ordering: .relaxed)
            return
        }
        waiting.add(lines.count, ordering: .relaxed)
        loop.submit { [self] in
            put(lines)
            waiting.subtract(lines.count, ordering: .relaxed)
            let lost = dropped.exchange(0, ordering: .relaxed)
            if lost > 0 { put(Array("{\"event\":\"log_lines_dropped\",\"count\":\(lost)}\n".utf8)) }
        }
    }

    /// The log's thread. A reader that has gone is no reason to stop serving.
    private func put(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
    }

    /// Writes what was handed over and ends the thread.
    ///
    /// - Parameter patience: when a reader of the log takes nothing for so long, the rest is left: a stop, or a change of
    ///   the log, must not wait for ever for somebody who has stopped reading.
    package func close(patience: TimeSpan = .seconds(5)) {
        loop.submit { [loop] in loop.stop() }
        guard let thread else {
            loop.run()
            if ownsDescriptor { Glibc.close(descriptor) }
            return
        }
        var left: Int
        repeat {
            left = waiting.load(ordering: .relaxed)
            if thread.join(within: patience) {
                if ownsDescriptor { Glibc.close(descriptor) }
                return
            }
        } while waiting.load(ordering: .relaxed) != left
        // It may still be writing: the descriptor stays open.
        thread.detach()
    }
}

/// A worker's lines on their way to the writer.
final class LogBuffer {
    let writer: LogWriter
    private unowned let loop: EventLoop
    private var lines = ByteBuffer()
    private var count = 0
    private var timer: LoopTimer!

    private static let enough = 64 << 10
    private static let age = TimeSpan.milliseconds(100)

    init(writer: LogWriter, loop: EventLoop) {
        self.writer = writer
        self.loop = loop
        timer = LoopTimer { [unowned self] in flush() }
    }

    /// Lets `body` append one line, its newline included.
    @inline(__always)
    func line(_ body: (inout ByteBuffer) -> Void) {
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
        writer.write(lines.withUnsafeBytes { Array($0) }, count: count)
        lines.removeAll()
        count = 0
    }

    /// Hands over what is there; the buffer is used no more.
    func end() {
        flush()
        loop.remove(timer)
    }
}
