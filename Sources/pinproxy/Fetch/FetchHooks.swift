// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import HTTPSessionCore
import IOCore
import StrictJSON

/// The decisions and actions of `fetch` during its task.
struct FetchHooks: Sendable {
    private let output: OutputFile?
    /// For a body that does not become a file.
    private let descriptor: Int32
    private let showsHead: Bool
    private let followsRedirects: Bool
    private let outcome: FetchOutcome
    private let progress: FetchProgress

    /// - Parameter descriptor: where a body is written to that does not become a file.
    init(plan: FetchPlan, outcome: FetchOutcome, progress: FetchProgress, descriptor: Int32) {
        output = plan.output
        self.descriptor = descriptor
        showsHead = plan.showsHead
        followsRedirects = plan.followsRedirects
        self.outcome = outcome
        self.progress = progress
    }

    func install(in manager: URLSessionManager) {
        manager.taskWillPerformHTTPRedirection = { [self] _, _, redirect in
            guard followsRedirects else { return .stop }
            // A denied redirect is not requested.
            if redirect.denial == nil { outcome.change { $0.urls.append(redirect.request.url) } }
            return .proceed
        }
        manager.dataTaskDidReceiveResponse = { [self] task, head in received(head, task) }
        manager.dataTaskDidBecomeDownloadTask = { [self] _, download in
            outcome.change { $0.task = download }
            watch(download)
        }
    }

    /// Watches a task whose body is written as it comes, unless its response becomes the file.
    func watch(_ task: DataTask) {
        if output?.target == nil, let own = task.delegate as? DataTaskDelegate {
            // Who names a terminal with -o wants the bytes there.
            let isTerminal = output == nil && isatty(STDOUT_FILENO) == 1
            own.dataStream = { [weak task, outcome] bytes in
                if isTerminal, bytes.contains(0) {
                    outcome.change { $0.isBinary = true }
                    task?.cancel()
                } else {
                    write(bytes, to: descriptor, task)
                }
            }
        }
        if let own = task.delegate as? UploadTaskDelegate {
            own.setUploadProgressHandler { [progress] in progress.show($0) }
        }
        task.delegate.taskDidComplete = { [outcome] ended, error in
            // A download may continue the task.
            guard outcome.now.task === ended else { return }
            outcome.change { $0.error = error }
        }
        task.delegate.queue.add { [outcome] in
            guard outcome.now.task === task else { return }
            outcome.change { $0.metrics = task.delegate.metrics }
            outcome.end()
        }
    }

    func watch(_ task: DownloadTask) {
        guard let output, let target = output.target, let own = task.delegate as? DownloadTaskDelegate else { return }
        own.destination = { [outcome] draft, response in
            outcome.change { $0.head = response.head }
            output.prepare(draft, as: .ordinary)
            return (target, .removePreviousFile)
        }
        own.setProgressHandler { [progress] in progress.show($0) }
        task.delegate.queue.add { [outcome] in
            let response = task.response
            outcome.change {
                $0.error = own.error
                $0.metrics = own.metrics
                $0.path = own.error == nil ? own.filePath : nil
                $0.resumeData = own.resumeData
                $0.received = task.countOfBytesReceived
                $0.head = response ?? $0.head
            }
            outcome.end()
        }
    }

    private func received(_ head: ResponseHead, _ task: DataTask) -> DataTaskDisposition {
        outcome.change { $0.head = head }
        if showsHead { write(Self.text(of: head), to: STDOUT_FILENO, task) }
        guard let output else { return .allow }
        guard (200..<300).contains(head.status) else { return .cancel }
        return output.target == nil ? .allow : .becomeDownload
    }

    private static func text(of head: ResponseHead) -> [UInt8] {
        let version = head.majorVersion == 2 ? "2" : "\(head.majorVersion).\(head.minorVersion)"
        let lines = ["HTTP/\(version) \(head.status)"] + head.fields.list.map { "\($0.name): \($0.value)" }
        let text = (lines + ["", ""]).joined(separator: "\n")
        // Fields come from the server; programs get them as they are.
        return Array((isatty(STDOUT_FILENO) == 1 ? text.legibleLines : text).utf8)
    }

    private func write(_ bytes: [UInt8], to descriptor: Int32, _ task: SessionTask?) {
        guard outcome.now.outputError == 0 else { return }
        let code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: descriptor) }
        guard code != 0 else { return }
        outcome.change { $0.outputError = code }
        task?.cancel()
    }
}
