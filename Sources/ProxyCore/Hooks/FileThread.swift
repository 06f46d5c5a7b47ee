import IOCore

/// The thread that waits for the disk instead of the workers: for replay buffers, and for responses that become files.
/// It starts with its first work.
///
/// `@unchecked Sendable`: `loop`, `thread` and `isStopped` are behind `lock`; `folders` is touched by its work alone.
final class FileThread: @unchecked Sendable {
    /// Used by work on this thread alone.
    let folders = DownloadFolders()
    private let lock = PosixLock()
    private var loop: EventLoop?
    private var thread: LoopThread?
    private var isStopped = false

    /// Runs work on this thread, in the order of the calls.
    ///
    /// - Returns: false when there is no thread and none can be started; the work is dropped then.
    @discardableResult
    func submit(_ work: @escaping @Sendable () -> Void) -> Bool {
        guard let loop = started() else { return false }
        loop.submit(work)
        return true
    }

    private func started() -> EventLoop? {
        lock.withLock {
            if isStopped { return nil }
            if let loop { return loop }
            guard let made = try? EventLoop(), let running = try? LoopThread(name: "files", { made.run() }) else {
                return nil
            }
            loop = made
            thread = running
            return made
        }
    }

    /// Waits for the current work, and drops work that has not begun.
    func stop() {
        let running: (EventLoop?, LoopThread?) = lock.withLock {
            isStopped = true
            defer { (loop, thread) = (nil, nil) }
            return (loop, thread)
        }
        running.0?.stop()
        running.1?.join()
    }
}
