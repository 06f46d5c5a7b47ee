import HTTPCore
import IOCore
import SessionCore

/// The partial file of a download, on the thread that waits for the disk.
///
/// `@unchecked Sendable`: `file` is touched by work on the loop of `files` alone; all else is immutable.
final class DownloadFile: @unchecked Sendable {
    let name: String
    let path: String
    private let files: EventLoop
    private let owner: EventLoop
    private var file: GrowingFile?
    private var failure: SessionError?

    /// - Parameters:
    ///   - name: nil for a new, random name.
    ///   - files: the thread for the disk.
    ///   - owner: the loop on which the completion handlers are called.
    init(name: String? = nil, folder: String, files: EventLoop, owner: EventLoop) {
        let random = (0..<2).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()
        self.name = name ?? ResumeData.filePrefix + random + ".part"
        path = "\(folder)/\(self.name)"
        self.files = files
        self.owner = owner
    }

    /// Makes the file. The first write reports a failure.
    func create() {
        files.submit { [self] in
            attempt { () throws(IOFailure) in file = try GrowingFile(creating: path) }
        }
    }

    /// Opens the partial file of an earlier task, and truncates it to its first bytes.
    ///
    /// - Parameter then: called with whether all of these bytes exist.
    func reopen(at count: Int, then: @escaping @Sendable (Bool) -> Void) {
        files.submit { [self, owner] in
            let isWhole: Bool
            do {
                let found = try GrowingFile(reopening: path)
                isWhole = found.size >= count
                if isWhole {
                    try found.truncate(to: count)
                    file = found
                }
            } catch {
                owner.submit { then(false) }
                return
            }
            owner.submit { then(isWhole) }
        }
    }

    /// Truncates the file to nothing.
    func startOver() {
        files.submit { [self] in
            attempt { () throws(IOFailure) in try file?.truncate(to: 0) }
        }
    }

    func write(_ bytes: [UInt8], then: @escaping @Sendable (SessionError?) -> Void) {
        files.submit { [self, owner] in
            attempt { () throws(IOFailure) in try file?.append(bytes) }
            let failure = failure
            owner.submit { then(failure) }
        }
    }

    private func attempt(_ work: () throws(IOFailure) -> Void) {
        guard failure == nil else { return }
        do throws(IOFailure) {
            try work()
        } catch {
            failure = SessionError(.fileFailed, "\(path): \(error).")
        }
    }

    enum Ending: Sendable {
        /// The complete file has this path.
        case there(String)
        case notWritten(SessionError)
        case notMoved(SessionError)
    }

    /// Closes the file and moves it to its destination; a file that cannot be moved is removed.
    ///
    /// - Parameters:
    ///   - destination: asked on the thread for the disk; nil from it: the file stays where it is.
    func finish(
        at destination: @escaping @Sendable (_ path: String) -> (path: String, options: DownloadOptions)?,
        then: @escaping @Sendable (Ending) -> Void
    ) {
        files.submit { [self, owner] in
            file = nil
            let ending: Ending
            if let failure {
                FileMove.remove(path)
                ending = .notWritten(failure)
            } else if let target = destination(path), target.path != path {
                ending = move(to: target.path, target.options)
            } else {
                ending = .there(path)
            }
            owner.submit { then(ending) }
        }
    }

    private func move(to target: String, _ options: DownloadOptions) -> Ending {
        do throws(IOFailure) {
            if options.contains(.createIntermediateDirectories) { try FileMove.makeFolders(above: target) }
            try FileMove.move(path, to: target, replacing: options.contains(.removePreviousFile))
            return .there(target)
        } catch {
            FileMove.remove(path)
            return .notMoved(
                SessionError(.fileFailed, "The download could not be moved to \(target): \(error.reason).")
            )
        }
    }

    /// Closes the file and keeps it for a later task.
    ///
    /// - Parameter then: called with the length of the file, in bytes.
    func keep(then: @escaping @Sendable (Int) -> Void) {
        files.submit { [self, owner] in
            // A later task relies on the contents of the file, also after a crash of the system.
            let isSafe = file.map { $0.synchronize() } ?? false
            let size = isSafe ? file?.size ?? 0 : 0
            file = nil
            if size == 0 { FileMove.remove(path) }
            owner.submit { then(size) }
        }
    }

    func discard(then: @escaping @Sendable () -> Void) {
        files.submit { [self, owner] in
            file = nil
            FileMove.remove(path)
            owner.submit(then)
        }
    }
}
