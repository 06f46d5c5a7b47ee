// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import HTTPSession
import IOCore
import StrictJSON

/// The decisions and actions of `fetch` during its task.
struct FetchHooks: Sendable {
    private let output: String?
    private let showsHead: Bool
    private let followsRedirects: Bool
    private let outcome: FetchOutcome
    private let progress: FetchProgress

    init(plan: FetchPlan, outcome: FetchOutcome, progress: FetchProgress) {
        output = plan.output
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

    /// Watches a task whose body goes to the standard output, unless its response becomes the file.
    func watch(_ task: DataTask) {
        if output == nil, let own = task.delegate as? DataTaskDelegate {
            let isTerminal = isatty(STDOUT_FILENO) == 1
            own.dataStream = { [weak task, outcome] bytes in
                if isTerminal, bytes.contains(0) {
                    outcome.change { $0.isBinary = true }
                    task?.cancel()
                } else {
                    write(bytes, task)
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
        guard let output, let own = task.delegate as? DownloadTaskDelegate else { return }
        own.destination = { [outcome] _, response in
            outcome.change { $0.head = response.head }
            return (output, .removePreviousFile)
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
        if showsHead { write(Self.text(of: head), task) }
        guard output != nil else { return .allow }
        return (200..<300).contains(head.status) ? .becomeDownload : .cancel
    }

    private static func text(of head: ResponseHead) -> [UInt8] {
        let version = head.majorVersion == 2 ? "2" : "\(head.majorVersion).\(head.minorVersion)"
        let lines = ["HTTP/\(version) \(head.status)"] + head.fields.list.map { "\($0.name): \($0.value)" }
        let text = (lines + ["", ""]).joined(separator: "\n")
        // Fields come from the server; programs get them as they are.
        return Array((isatty(STDOUT_FILENO) == 1 ? text.legibleLines : text).utf8)
    }

    private func write(_ bytes: [UInt8], _ task: SessionTask?) {
        guard outcome.now.outputError == 0 else { return }
        let code = bytes.withUnsafeBytes { DescriptorOutput.write($0, to: STDOUT_FILENO) }
        guard code != 0 else { return }
        outcome.change { $0.outputError = code }
        task?.cancel()
    }
}
