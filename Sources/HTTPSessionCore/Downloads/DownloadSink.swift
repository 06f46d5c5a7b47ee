// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// Writes the body of a download to a file. When the disk is slow, the origin is paused, and the loop is not blocked.
/// Belongs to the loop.
///
/// `@unchecked Sendable`: work on the disk's thread hands it back to the loop, and only the loop touches it.
final class DownloadSink: BodySink, @unchecked Sendable {
    private let task: DownloadTask
    private let session: SessionThread
    private unowned let execution: TaskExecution
    private var own: DownloadTaskDelegate { task.downloadDelegate }

    private var file: DownloadFile?
    private var flow = WriteFlow()
    private var pending: [UInt8] = []
    private var reportedWritten: Int64 = 0
    /// The resume data of an earlier task, until the response shows whether it can be used.
    private var resumption: ResumeData?
    private var head: ResponseHead?
    /// The validator with which a later task can request the rest; nil when it cannot.
    private var validator: String?
    private var request: HTTPSessionRequest
    /// The length of the file, in bytes, when the rest of it is being received.
    private var end: Int64?
    private var failure: SessionError?
    private var isOver = false
    /// Set by `cancel(byProducingResumeData:)`.
    var isToBeResumed = false
    /// Whether a later task can continue this download.
    var mayBeResumed = true

    init(_ task: DownloadTask, execution: TaskExecution) {
        self.task = task
        self.execution = execution
        session = task.session
        resumption = task.resumption
        request = task.originalRequest
    }

    private func makeFile(_ name: String? = nil) -> DownloadFile {
        DownloadFile(name: name, folder: session.temporaryFolder, files: session.files.loop, owner: session.loop)
    }

    // MARK: Begin

    override var hasEnds: Bool { true }

    override func prepare(
        _ request: borrowing HTTPSessionRequest,
        then go: @escaping @Sendable (_ replacement: HTTPSessionRequest?) -> Void
    ) {
        guard let resumption else { return go(nil) }
        let whole = Self.forTheWhole(copy request)
        let found = makeFile(resumption.fileName)
        file = found
        found.reopen(at: resumption.received, resumption.checksum) { [self] isWhole in
            guard isWhole else {
                self.resumption = nil
                file = nil
                return go(whole)
            }
            go(nil)
        }
    }

    private static func forTheWhole(_ request: HTTPSessionRequest) -> HTTPSessionRequest {
        var request = request
        request.headers.remove(name: "Range")
        request.headers.remove(name: "If-Range")
        return request
    }

    override func receiveHead(_ head: ResponseHead, expected: Int?) -> Reception {
        self.head = head
        request = task.currentRequest
        if let resumption {
            switch resumption.decision(on: head) {
            case .fail(let why): return .end(SessionError(.responseInvalid, why))
            case .askForTheWhole:
                self.resumption = nil
                file?.startOver()
                return .ask(Self.forTheWhole(request))
            case .startOver:
                self.resumption = nil
                file?.startOver()
            case .resume(let total):
                validator = resumption.validator
                self.resumption = nil
                let offset = Int64(resumption.received)
                let whole = Int64(total)
                end = whole
                _ = task.count {
                    $0.received = offset
                    $0.expectedToReceive = whole
                }
                own.resumed(at: offset)
                (own.downloadTaskDidResumeAtOffset ?? session.hookBox.hooks.downloadTaskDidResumeAtOffset)?(
                    task,
                    offset,
                    whole
                )
                return .accept
            }
        }
        if let reason = own.validation?.fault(of: head) {
            return .end(SessionError(.responseInvalid, "\(reason) Nothing of it was written."))
        }
        guard head.status != 206 || request.headers.value(for: "Range") != nil else {
            return .end(SessionError(.responseInvalid, "The origin sent a part of the file; the whole was asked for."))
        }
        // A part that the caller requested cannot be the beginning of a complete file.
        validator = head.status == 200 && request.method == .get ? ResumeData.validator(of: head) : nil
        if file == nil {
            let made = makeFile()
            made.create()
            file = made
        }
        return .accept
    }

    // MARK: Bytes

    override func append(_ bytes: borrowing Span<UInt8>) -> AppendResult {
        if let failure { return .failed(failure) }
        pending.append(bytes)
        let count = Int64(bytes.count)
        let counts = task.count { $0.received += count }
        own.reportReceived(counts)
        let step = flow.didReceive(bytes.count)
        if step.flushes { write() }
        return step.pauses ? .pause : .more
    }

    private func write() {
        let piece = pending
        pending = []
        let count = piece.count
        file?.write(piece) { [self] failure in didWrite(count, failure) }
    }

    private func didWrite(_ count: Int, _ failure: SessionError?) {
        if let failure, self.failure == nil {
            self.failure = failure
            if !isOver { execution.fail(failure) }
            return
        }
        guard !isOver else { return }
        let step = flow.didWrite(count)
        reportWritten(count)
        if step.flushes { write() }
        if step.resumes { execution.receiveAgain() }
    }

    private func reportWritten(_ count: Int) {
        reportedWritten += Int64(count)
        let hook = own.downloadTaskDidWriteData ?? session.hookBox.hooks.downloadTaskDidWriteData
        hook?(task, Int64(count), own.resumedAt + reportedWritten, task.countOfBytesExpectedToReceive)
    }

    // MARK: End

    override func finish(_ error: SessionError?, then done: @escaping @Sendable (SessionError?) -> Void) {
        isOver = true
        if !pending.isEmpty { write() }
        flow.flush()
        // The framing of a part can end it anywhere, without a length that could be compared with its range before.
        if error == nil, let end, task.countOfBytesReceived != end {
            validator = nil
            let reason = "The origin sent another number of bytes than the rest of the download has. Start it again."
            return finish(SessionError(.responseInvalid, reason), then: done)
        }
        if error == nil, flow.inFlight > 0 { reportWritten(flow.inFlight) }
        // The response was refused before its body: the resume data of the earlier task stays valid.
        if resumption != nil {
            guard let file else { return keepEarlier(error, done) }
            return file.close { [self] in keepEarlier(error, done) }
        }
        guard let file else { return done(error) }
        guard let error else { return complete(file, done) }
        guard let validator, mayBeResumed, isToBeResumed || error.code != .cancelled else {
            return file.discard { done(error) }
        }
        let total = task.countOfBytesExpectedToReceive.map { Int($0) }
        file.keep { [self] size, checksum in
            if size > 0 {
                own.resumeData =
                    ResumeData(
                        url: task.originalRequest.url,
                        headers: task.originalRequest.headers,
                        fileName: file.name,
                        received: size,
                        checksum: checksum,
                        validator: validator,
                        total: total
                    ).bytes
            }
            done(error)
        }
    }

    private func keepEarlier(_ error: SessionError?, _ done: (SessionError?) -> Void) {
        own.resumeData = task.resumption?.bytes
        done(error)
    }

    private func complete(_ file: DownloadFile, _ done: @escaping @Sendable (SessionError?) -> Void) {
        let response = ReceivedResponse(head: head ?? ResponseHead(), url: task.currentRequest.url)
        let destination = own.destination
        let hook = own.downloadTaskDidFinishDownloading ?? session.hookBox.hooks.downloadTaskDidFinishDownloading
        file.finish { [task] path in
            if let target = hook?(task, path) { return (target, []) }
            return destination?(path, response)
        } then: { [self] ending in
            switch ending {
            case .there(let path):
                own.filePath = path
                done(nil)
            case .notWritten(let failure):
                done(failure)
            case .notMoved(let failure):
                (own.downloadTaskDidFailToMove ?? session.hookBox.hooks.downloadTaskDidFailToMove)?(task, failure)
                session.notifyObservers(.moveFailed(task, failure))
                done(failure)
            }
        }
    }
}
