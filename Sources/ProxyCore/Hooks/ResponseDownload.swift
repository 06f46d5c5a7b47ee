// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// A response body that is being saved to a file. The file is invisible until it is complete. A slow disk pauses the
/// origin, not the loop.
///
/// `@unchecked Sendable`: it is passed to the loop's work through the thread for files, and touched on the loop alone.
final class ResponseDownload: @unchecked Sendable {
    private let files: FileThread
    private let loop: EventLoop
    private let contents: Contents
    private let resume: () -> Void
    private let fail: (Problem) -> Void
    private var flow = WriteFlow()
    private var pending: [UInt8] = []
    private var isEnded = false

    /// - Parameters:
    ///   - directory: the folder of the file.
    ///   - quota: the limit of the bytes of all files in that folder, including this one.
    ///   - length: the length of the body, if it is known.
    ///   - name: the end of the file's name.
    ///   - resume: called when the disk has caught up.
    ///   - fail: called once, when the file cannot be written.
    init(
        directory: String,
        quota: Int,
        length: Int?,
        name: [UInt8],
        files: FileThread,
        loop: EventLoop,
        resume: @escaping () -> Void,
        fail: @escaping (Problem) -> Void
    ) {
        self.files = files
        self.loop = loop
        self.resume = resume
        self.fail = fail
        contents = Contents(
            directory: directory,
            quota: quota,
            length: length,
            name: String(decoding: name, as: UTF8.self),
            folders: files.folders
        )
        // Space is reserved before the body arrives, because there may be none. Without a thread the first write fails.
        files.submit { [self] in
            guard let failure = contents.open() else { return }
            loop.submit { self.didWrite(0, failure) }
        }
    }

    deinit {
        // Removing a large file takes the disk's time.
        let contents = contents
        files.submit { contents.discard() }
    }

    func append(_ bytes: borrowing Span<UInt8>) -> BodyFlow {
        pending.append(bytes)
        let step = flow.didReceive(bytes.count)
        if step.flushes { write() }
        return step.pauses ? .pause : .proceed
    }

    private func write() {
        let piece = pending
        pending = []
        let isAccepted = files.submit { [self] in
            let failure = contents.append(piece)
            loop.submit { self.didWrite(piece.count, failure) }
        }
        if !isAccepted { loop.submit { self.didWrite(piece.count, Self.noThread) } }
    }

    private static let noThread = Problem(.fileFailed, "There is no thread to write files.")

    private func didWrite(_ count: Int, _ failure: Problem?) {
        guard !isEnded else { return }
        if let failure {
            end()
            fail(failure)
            return
        }
        let step = flow.didWrite(count)
        if step.flushes { write() }
        if step.resumes { resume() }
    }

    /// The body is complete: writes the rest, and publishes the file.
    ///
    /// - Parameter then: called on the loop. If `end` is called first, it is not called and the file is removed.
    func finish(then: @escaping (Result<DownloadedFile, Problem>) -> Void) {
        let piece = pending
        pending = []
        // The rest is passed on here: nothing is left for `didWrite` to flush behind the publication.
        flow.flush()
        let callback = Callback(then)
        let isAccepted = files.submit { [self] in
            let result = contents.append(piece).map { Result.failure($0) } ?? contents.publish()
            loop.submit {
                guard !self.isEnded else {
                    if case .success(let outcome) = result { self.files.submit { FileMove.remove(outcome.path) } }
                    return
                }
                self.isEnded = true
                callback.call(result)
            }
        }
        if !isAccepted { then(.failure(Self.noThread)) }
    }

    /// The file is not needed any more.
    func end() { isEnded = true }

    /// A callback that is passed through the thread for files and called on the loop, to which its contents belong.
    private final class Callback: @unchecked Sendable {
        let call: (Result<DownloadedFile, Problem>) -> Void
        init(_ call: @escaping (Result<DownloadedFile, Problem>) -> Void) { self.call = call }
    }

    /// The file and its digest.
    ///
    /// `@unchecked Sendable`: touched by work on the thread for files alone.
    private final class Contents: @unchecked Sendable {
        private let directory: String
        private let quota: Int
        private let length: Int?
        private let name: String
        private let folders: DownloadFolders
        private var state = State.waiting
        private let digest = ContentDigest()

        private enum State {
            /// Nothing has been reserved, and there is no file.
            case waiting
            case open(UnnamedFile, DownloadFolder, reserved: Int)
            /// The file was published or given up; nothing is written, reserved or published any more.
            case closed(Problem?)
        }

        init(directory: String, quota: Int, length: Int?, name: String, folders: DownloadFolders) {
            self.directory = directory
            self.quota = quota
            self.length = length
            self.name = name
            self.folders = folders
        }

        /// - Returns: the reason why the file cannot be made.
        func open() -> Problem? {
            guard case .waiting = state else { return failure }
            do throws(IOFailure) {
                let folder = try folders.folder(at: directory)
                let bytes = length ?? 0
                guard try folder.reserve(bytes, quota: quota) else { return give(up: quotaReached) }
                do throws(IOFailure) {
                    state = .open(try UnnamedFile(in: directory, mode: 0o640), folder, reserved: bytes)
                } catch {
                    folder.release(bytes)
                    throw error
                }
                return nil
            } catch {
                return give(up: problem(error))
            }
        }

        /// - Returns: the reason why the bytes could not be written.
        func append(_ bytes: [UInt8]) -> Problem? {
            if let problem = open() { return problem }
            guard case .open(let file, let folder, var reserved) = state else { return nil }
            do throws(IOFailure) {
                let missing = file.size + bytes.count - reserved
                if missing > 0 {
                    guard try folder.reserve(missing, quota: quota) else { return give(up: quotaReached) }
                    reserved += missing
                    state = .open(file, folder, reserved: reserved)
                }
                try file.append(bytes)
                digest.update(bytes)
                return nil
            } catch {
                return give(up: problem(error))
            }
        }

        func publish() -> Result<DownloadedFile, Problem> {
            guard case .open(let file, let folder, let reserved) = state else {
                return .failure(failure ?? problem(IOFailure(code: EBADF, during: "publish")))
            }
            // Such a name cannot be guessed, and if it exists nevertheless, this download fails.
            let path = "\(directory)/\(String(UInt64.random(in: 0 ... .max), radix: 36))-\(name)"
            do throws(IOFailure) {
                try file.publish(as: path)
                folder.publish(file.size, reserved: reserved)
                state = .closed(nil)
                return .success(DownloadedFile(path: path, count: file.size, digest: digest.finish()))
            } catch {
                return .failure(give(up: problem(error)))
            }
        }

        /// Releases the file and its part of the quota.
        func discard() { close(nil) }

        private func give(up problem: Problem) -> Problem {
            close(problem)
            return problem
        }

        private func close(_ problem: Problem?) {
            if case .open(_, let folder, let reserved) = state { folder.release(reserved) }
            if case .closed = state { return }
            state = .closed(problem)
        }

        private var failure: Problem? {
            if case .closed(let problem) = state { problem } else { nil }
        }

        private var quotaReached: Problem {
            Problem(
                .quotaReached,
                "\(directory) would hold more than the quota of its rule, \(ByteCount.describe(quota)). "
                    + "Take files away, or raise the \"quota\"."
            )
        }

        private func problem(_ failure: IOFailure) -> Problem {
            Problem(
                .fileFailed,
                "The response could not be written to \(directory): \(failure). Make room, or let this process read and write there."
            )
        }
    }
}

extension ResponseDownload {
    /// The end of a file's name, from the requested path: letters, digits and `._-` alone, at most 100.
    static func name(of target: borrowing Span<UInt8>) -> [UInt8] {
        var end = 0
        while end < target.count, target[end] != UInt8(ascii: "?"), target[end] != UInt8(ascii: "#") { end += 1 }
        var start = end
        while start > 0, target[start - 1] != UInt8(ascii: "/") { start -= 1 }
        var name: [UInt8] = []
        for index in start..<end where name.count < 100 {
            let byte = target[index]
            let isPlain =
                ASCII.isLetter(byte) || ASCII.isDigit(byte) || byte == UInt8(ascii: ".")
                || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
            name.append(isPlain ? byte : UInt8(ascii: "_"))
        }
        return name.isEmpty ? Array("download".utf8) : name
    }
}
