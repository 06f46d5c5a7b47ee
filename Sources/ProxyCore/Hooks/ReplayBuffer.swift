// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import SessionCore

/// The received part of a request body, kept so that it can be sent again after a redirect. Small bodies stay in
/// memory, larger ones go to a file without a name; a body beyond the limit is not kept.
///
/// `@unchecked Sendable`: it is passed to the loop's work through the thread for files, and touched on the loop alone.
final class ReplayBuffer: @unchecked Sendable {
    private let limit: Int
    private let files: FileThread
    private let loop: EventLoop
    /// Called when there is room again, or when the replay is complete.
    private let resume: () -> Void
    /// Called when the kept body cannot be sent again after all.
    private let fail: () -> Void

    /// The whole body while there is no file, else the part that was not passed to the file yet.
    private var memory: [UInt8] = []
    private var spool: SpooledBody?
    private var flow = WriteFlow()
    private(set) var count = 0
    private(set) var isLost = false
    private var isEnded = false
    /// The last bytes of the body, which are held back from the origin.
    private var heldEnd: [UInt8]?

    /// The task that the kept body is sent to, and the bytes sent so far.
    private var replay: (task: LoopTask, position: Int)?
    private var isReading = false
    private var replays = 0

    /// Larger bodies go to a file.
    static let memoryLimit = 64 << 10
    private static let readSize = 64 << 10

    init(limit: Int, files: FileThread, loop: EventLoop, resume: @escaping () -> Void, fail: @escaping () -> Void) {
        self.limit = limit
        self.files = files
        self.loop = loop
        self.resume = resume
        self.fail = fail
    }

    /// Whether the client has to wait: for the disk, or for the replay.
    var holdsBack: Bool { isReplaying || (!isLost && flow.isPaused) }

    var isReplaying: Bool { replay != nil }

    var holdsEnd: Bool { heldEnd != nil }

    // MARK: Keeping

    func append(_ bytes: borrowing Span<UInt8>) {
        guard !isLost, !isEnded else { return }
        count += bytes.count
        guard count <= limit else { return lose() }
        memory.append(bytes)
        if spool == nil {
            guard count > Self.memoryLimit else { return }
            spool = SpooledBody(files: files)
            write(flow.didReceive(memory.count))
        } else {
            write(flow.didReceive(bytes.count))
        }
    }

    /// Holds back the last bytes of the body, which were already appended. Without these bytes an origin does not
    /// respond, so it responds when it is known whether the whole body was kept and whether its redirect can be
    /// followed.
    ///
    /// - Returns: whether the bytes are held back; `releaseEnd` then returns them after `resume` was called.
    func holdEnd(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard !isWritten, replay == nil, heldEnd == nil else { return holdsEnd }
        heldEnd = Array(copying: bytes)
        return true
    }

    /// Returns the held bytes once, when no write is pending any more.
    func releaseEnd() -> [UInt8]? {
        guard isWritten else { return nil }
        defer { heldEnd = nil }
        return heldEnd
    }

    /// Returns the held bytes, for another task.
    func removeEnd() -> [UInt8]? {
        defer { heldEnd = nil }
        return heldEnd
    }

    /// Whether no pending write can still fail.
    private var isWritten: Bool {
        isLost || isEnded || spool == nil || (flow.pending == 0 && flow.inFlight == 0)
    }

    private func write(_ step: WriteFlow.Step) {
        if step.flushes { handOver() }
    }

    private func handOver() {
        guard let spool else { return }
        let piece = memory
        memory = []
        let isAccepted = spool.append(piece) { [self, loop] isWritten in
            loop.submit { self.didWrite(piece.count, isWritten) }
        }
        if !isAccepted { lose() }
    }

    private func didWrite(_ count: Int, _ isWritten: Bool) {
        guard !isLost, !isEnded else { return }
        guard isWritten else {
            lose()
            resume()
            return
        }
        let step = flow.didWrite(count)
        write(step)
        if step.resumes || (holdsEnd && isWritten) { resume() }
    }

    /// Gives up keeping the body, which is too long or has no room: it can be sent once only.
    private func lose() {
        isLost = true
        memory = []
        spool = nil
    }

    // MARK: Sending again

    /// Sends the kept body. Nothing else may be sent before that is complete.
    func replay(to task: LoopTask) {
        replay = nil
        guard count > 0 else { return }
        // The held bytes are part of the kept body.
        heldEnd = nil
        guard spool != nil else {
            let all = memory
            task.send(all.span)
            return
        }
        // Memory is written first, so that the whole body is read from the file.
        if !memory.isEmpty {
            flow.flush()
            handOver()
        }
        replay = (task, 0)
        replays += 1
        sendMore()
    }

    /// The task has room for more.
    func sendMore() {
        guard let replay, let spool, !isReading, replay.task.pendingBodyBytes < Self.readSize else { return }
        isReading = true
        let number = replays
        let isAccepted = spool.read(at: replay.position, count: min(Self.readSize, count - replay.position)) {
            [self, loop] bytes in
            loop.submit { self.didRead(bytes, for: number) }
        }
        if !isAccepted { didRead(nil, for: number) }
    }

    private func didRead(_ bytes: [UInt8]?, for number: Int) {
        isReading = false
        guard !isEnded, let current = replay else { return }
        // This read was for an earlier task.
        guard number == replays else { return sendMore() }
        guard let bytes, !bytes.isEmpty else {
            // The request cannot be completed, and its end must not look like a complete one.
            lose()
            replay = nil
            fail()
            return
        }
        let position = current.position + bytes.count
        current.task.send(bytes.span)
        if position < count {
            replay = (current.task, position)
            sendMore()
        } else {
            replay = nil
            resume()
        }
    }

    /// The body is not needed any more.
    func end() {
        isEnded = true
        replay = nil
        heldEnd = nil
        memory = []
        spool = nil
    }
}

/// The file of a replay buffer.
///
/// `@unchecked Sendable`: `file` is touched and released by work on the thread for files alone.
private final class SpooledBody: @unchecked Sendable {
    private final class Contents: @unchecked Sendable {
        var file: UnnamedFile?
        var hasFailed = false
    }

    private let files: FileThread
    private let contents = Contents()

    /// The folder of temporary files.
    private static let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"

    init(files: FileThread) {
        self.files = files
    }

    deinit {
        let contents = contents
        // Removing a large file takes the disk's time.
        files.submit { contents.file = nil }
    }

    func append(_ bytes: [UInt8], then: @escaping @Sendable (Bool) -> Void) -> Bool {
        files.submit { [contents] in
            if !contents.hasFailed {
                do throws(IOFailure) {
                    if contents.file == nil {
                        contents.file = try UnnamedFile(in: Self.folder)
                        contents.file?.forgetName()
                    }
                    try contents.file?.append(bytes)
                } catch {
                    contents.hasFailed = true
                    contents.file = nil
                }
            }
            then(!contents.hasFailed)
        }
    }

    /// - Parameter then: receives nil when the bytes cannot be read.
    func read(at offset: Int, count: Int, then: @escaping @Sendable ([UInt8]?) -> Void) -> Bool {
        files.submit { [contents] in
            then(contents.hasFailed ? nil : try? contents.file?.read(at: offset, count: count))
        }
    }
}
