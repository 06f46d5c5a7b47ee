import Glibc
import HTTPCore
import IOCore
import SessionCore

/// The body of a request as far as it has come, so that it can be sent again to where a redirect leads. Small ones stay
/// in memory, larger ones go to a file without a name; beyond the limit nothing is kept.
///
/// `@unchecked Sendable`: it is handed to the loop's work by way of the thread for files, and touched on the loop alone.
final class ReplayBuffer: @unchecked Sendable {
    private let limit: Int
    private let files: FileThread
    private let loop: EventLoop
    /// Called when there is room again, or when the replay has caught up.
    private let resume: () -> Void
    /// Called when what was kept cannot be sent again after all.
    private let fail: () -> Void

    /// All of it as long as there is no file, else what was not handed to it yet.
    private var memory: [UInt8] = []
    private var spool: SpooledBody?
    private var flow = WriteFlow()
    private(set) var count = 0
    private(set) var isLost = false
    private var isEnded = false
    /// The last bytes of the body, which the origin does not get yet.
    private var heldEnd: [UInt8]?

    /// Who gets what was kept, and how much of it has gone.
    private var replay: (task: LoopTask, position: Int)?
    private var isReading = false
    private var replays = 0

    /// So much stays in memory.
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

    /// The body ends with these bytes, which were taken already. As long as they are held back no origin has all of the
    /// body: it answers when it is known whether all could be kept, and so whether a redirect of its can be followed.
    ///
    /// - Returns: whether they are held back; then `releaseEnd` gives them when `resume` is called.
    func holdEnd(_ bytes: borrowing Span<UInt8>) -> Bool {
        guard !isWritten, replay == nil, heldEnd == nil else { return holdsEnd }
        heldEnd = Array(copying: bytes)
        return true
    }

    /// The bytes that were held back, once, when nothing is waited for any more.
    func releaseEnd() -> [UInt8]? {
        guard isWritten else { return nil }
        defer { heldEnd = nil }
        return heldEnd
    }

    /// The bytes that are held back, for another task.
    func removeEnd() -> [UInt8]? {
        defer { heldEnd = nil }
        return heldEnd
    }

    /// Whether no write is under way whose end could change what is known.
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

    /// Too long, or no room: it goes through once, and is not kept.
    private func lose() {
        isLost = true
        memory = []
        spool = nil
    }

    // MARK: Sending again

    /// Sends what is kept. Until that is done nothing else is to be sent.
    func replay(to task: LoopTask) {
        replay = nil
        guard count > 0 else { return }
        // It is among what was kept.
        heldEnd = nil
        guard spool != nil else {
            let all = memory
            task.send(all.span)
            return
        }
        // What waits is written first, so that all of it is read from one place.
        if !memory.isEmpty {
            flow.flush()
            handOver()
        }
        replay = (task, 0)
        replays += 1
        sendMore()
    }

    /// The task has room.
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
        // It was read for a task that has not come to send it.
        guard number == replays else { return sendMore() }
        guard let bytes, !bytes.isEmpty else {
            // The request cannot be made whole: its end must not look like one.
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

    /// Nothing is wanted any more.
    func end() {
        isEnded = true
        replay = nil
        heldEnd = nil
        memory = []
        spool = nil
    }
}

/// The file of a kept body.
///
/// `@unchecked Sendable`: `file` is touched by work on the thread for files alone, which also lets go of it.
private final class SpooledBody: @unchecked Sendable {
    private final class Contents: @unchecked Sendable {
        var file: UnnamedFile?
        var hasFailed = false
    }

    private let files: FileThread
    private let contents = Contents()

    /// Where temporary files go.
    private static let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"

    init(files: FileThread) {
        self.files = files
    }

    deinit {
        let contents = contents
        // Giving a large file back takes the disk's time.
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

    /// - Parameter then: nil when they cannot be read.
    func read(at offset: Int, count: Int, then: @escaping @Sendable ([UInt8]?) -> Void) -> Bool {
        files.submit { [contents] in
            then(contents.hasFailed ? nil : try? contents.file?.read(at: offset, count: count))
        }
    }
}
