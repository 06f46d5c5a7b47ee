// SPDX-License-Identifier: Apache-2.0
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
    /// The checksum of the bytes in the file.
    private var checksum = XXH64()
    private var failure: SessionError?
    private var reopening: Reopening?

    /// A file of an earlier task whose bytes are being compared with their checksum.
    private struct Reopening {
        let file: GrowingFile
        let count: Int
        let expected: UInt64
        let then: @Sendable (Bool) -> Void
        /// Of the first bytes, as far as they were read.
        var checksum = XXH64()
        var offset = 0
    }

    /// So much of it is read between the work of others.
    private static let pieceSize = 1 << 20

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

    /// Opens the partial file of an earlier task, and truncates it to its first bytes. A file that was changed since is
    /// left alone: with the rest of the download it would be a mixture.
    ///
    /// - Parameters:
    ///   - expected: the checksum of these bytes.
    ///   - then: called with whether all of these bytes exist, unchanged, unless the file is closed before.
    func reopen(at count: Int, _ expected: UInt64, then: @escaping @Sendable (Bool) -> Void) {
        files.submit { [self, owner] in
            guard let found = try? GrowingFile(reopening: path), found.size >= count else {
                return owner.submit { then(false) }
            }
            reopening = Reopening(file: found, count: count, expected: expected, then: then)
            readOn()
        }
    }

    /// Reads the next piece of a reopened file. A large one takes seconds, in which other tasks write theirs.
    private func readOn() {
        guard var current = reopening else { return }
        if current.offset < current.count {
            let length = min(Self.pieceSize, current.count - current.offset)
            guard let piece = current.file.read(at: current.offset, count: length), !piece.isEmpty else {
                return endReopening(isWhole: false)
            }
            current.checksum.update(piece.span)
            current.offset += piece.count
            reopening = current
            return files.submit { [self] in readOn() }
        }
        guard current.checksum.value == current.expected, (try? current.file.truncate(to: current.count)) != nil else {
            return endReopening(isWhole: false)
        }
        (file, checksum) = (current.file, current.checksum)
        endReopening(isWhole: true)
    }

    private func endReopening(isWhole: Bool) {
        guard let then = reopening?.then else { return }
        reopening = nil
        owner.submit { then(isWhole) }
    }

    /// Closes the file and leaves it as it is. A `reopen` that is under way has no outcome.
    func close(then: @escaping @Sendable () -> Void) {
        files.submit { [self, owner] in
            reopening = nil
            file = nil
            owner.submit(then)
        }
    }

    /// Truncates the file to nothing.
    func startOver() {
        files.submit { [self] in
            checksum = XXH64()
            attempt { () throws(IOFailure) in try file?.truncate(to: 0) }
        }
    }

    func write(_ bytes: [UInt8], then: @escaping @Sendable (SessionError?) -> Void) {
        files.submit { [self, owner] in
            attempt { () throws(IOFailure) in
                try file?.append(bytes)
                checksum.update(bytes.span)
            }
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
    /// - Parameter then: called with the length of the file, in bytes, and the checksum of these bytes.
    func keep(then: @escaping @Sendable (Int, _ checksum: UInt64) -> Void) {
        files.submit { [self, owner] in
            // A later task relies on the contents of the file, also after a crash of the system.
            let isSafe = file.map { $0.synchronize() } ?? false
            let size = isSafe ? file?.size ?? 0 : 0
            file = nil
            if size == 0 { FileMove.remove(path) }
            owner.submit { [checksum = checksum.value] in then(size, checksum) }
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
