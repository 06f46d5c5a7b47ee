import IOCore

/// The one thread that waits for the disk in place of the workers: for bodies that are kept for a redirect, and for
/// answers that become files. It starts with its first work.
///
/// `@unchecked Sendable`: `loop`, `thread` and `isStopped` are behind `lock`; `folders` is touched by its work alone.
final class FileThread: @unchecked Sendable {
    /// For its work alone.
    let folders = DownloadFolders()
    private let lock = PosixLock()
    private var loop: EventLoop?
    private var thread: LoopThread?
    private var isStopped = false

    /// Has work done, in the order of the calls.
    ///
    /// - Returns: false when there is no such thread, nor can be one: then the work is dropped.
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

    /// Waits for what is under way; what was not begun is dropped.
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
