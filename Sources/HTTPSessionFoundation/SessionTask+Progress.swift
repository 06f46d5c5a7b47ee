// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import HTTPSessionCore

extension SessionTask {
    /// The progress of the request's body in bytes, always the same object; cancelling, pausing and resuming it does so
    /// with the task.
    ///
    /// It is updated on the session's callback queue.
    public var uploadProgress: Progress {
        progress("upload", delegate.sending) {
            TaskProgress(completedBytes: $0.countOfBytesSent, totalBytes: $0.countOfBytesExpectedToSend)
        }
    }

    /// The progress of the response's body in bytes; without a `Content-Length` the total is not known before the end.
    public var downloadProgress: Progress {
        progress("download", delegate.receiving) {
            TaskProgress(completedBytes: $0.countOfBytesReceived, totalBytes: $0.countOfBytesExpectedToReceive)
        }
    }

    private func progress(
        _ name: String,
        _ relay: ProgressRelay,
        _ present: @escaping @Sendable (SessionTask) -> TaskProgress
    ) -> Progress {
        let wired = delegate.companion("Progress \(name)") {
            // It may be asked for within the body, or after its end.
            let made = WiredProgress(
                self,
                present(self),
                isWhole: delegate.isComplete && error == nil
            )
            relay.setHandler({ made.show($0) }, on: delegate.callbacks, name: "Progress")
            // Figures between the two lines before.
            delegate.callbacks.enqueue { [weak self] in if let self { made.show(present(self)) } }
            delegate.whenComplete { [callbacks = delegate.callbacks, weak self] in
                guard let self else { return }
                let last = error == nil ? present(self) : nil
                callbacks.enqueue { made.end(last) }
            }
            return made
        }
        return wired.progress
    }
}

/// A `Progress` that is connected to a task.
///
/// `@unchecked Sendable`: the reference does not change, and only the session's callback queue changes the object.
private final class WiredProgress: @unchecked Sendable {
    let progress: Progress

    init(_ task: SessionTask, _ present: TaskProgress, isWhole: Bool) {
        progress = Progress(totalUnitCount: present.totalBytes ?? -1)
        progress.completedUnitCount = present.completedBytes
        if isWhole { Self.finish(progress) }
        progress.kind = .file
        progress.isCancellable = true
        progress.isPausable = true
        progress.cancellationHandler = { [weak task] in task?.cancel() }
        progress.pausingHandler = { [weak task] in task?.suspend() }
        progress.resumingHandler = { [weak task] in task?.resume() }
    }

    func show(_ step: TaskProgress) {
        guard !progress.isFinished else { return }
        if let total = step.totalBytes { progress.totalUnitCount = total }
        progress.completedUnitCount = step.completedBytes
    }

    /// At the end of a task; with nil it has failed. A handler of the program's own may capture the task.
    func end(_ last: TaskProgress?) {
        if let last {
            show(last)
            Self.finish(progress)
        }
        progress.cancellationHandler = nil
        progress.pausingHandler = nil
        progress.resumingHandler = nil
    }

    /// The total of a body of unknown length is known at its end. A `Progress` of nothing would never end: that of a
    /// task without a body is one of one.
    private static func finish(_ progress: Progress) {
        if progress.completedUnitCount == 0 { progress.completedUnitCount = 1 }
        progress.totalUnitCount = progress.completedUnitCount
    }
}
