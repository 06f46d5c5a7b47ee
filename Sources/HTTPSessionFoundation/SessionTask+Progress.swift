public import Foundation
public import HTTPSession

extension SessionTask {
    /// The progress of the request's body in bytes, always the same object; cancelling, pausing and resuming it does so
    /// with the task.
    ///
    /// It is updated on the session's callback queue.
    public var uploadProgress: Progress { progress("upload", delegate.sending, countOfBytesExpectedToSend) }

    /// The progress of the response's body in bytes; without a `Content-Length` the total is not known before the end.
    public var downloadProgress: Progress { progress("download", delegate.receiving, countOfBytesExpectedToReceive) }

    private func progress(_ name: String, _ relay: ProgressRelay, _ expected: Int64?) -> Progress {
        let wired = delegate.companion("Progress \(name)") {
            let made = WiredProgress(self, expected)
            relay.setHandler({ made.show($0) }, on: delegate.callbacks, name: "Progress")
            delegate.whenComplete { [callbacks = delegate.callbacks, weak self] in
                let isWhole = self.map { $0.error == nil } ?? false
                callbacks.enqueue { made.finish(isWhole: isWhole) }
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

    init(_ task: SessionTask, _ expected: Int64?) {
        progress = Progress(totalUnitCount: expected ?? -1)
        progress.kind = .file
        progress.isCancellable = true
        progress.isPausable = true
        progress.cancellationHandler = { [weak task] in task?.cancel() }
        progress.pausingHandler = { [weak task] in task?.suspend() }
        progress.resumingHandler = { [weak task] in task?.resume() }
    }

    func show(_ step: TaskProgress) {
        if let total = step.totalBytes { progress.totalUnitCount = total }
        progress.completedUnitCount = step.completedBytes
    }

    /// At the end the total of a body of unknown length is known.
    func finish(isWhole: Bool) {
        if isWhole, progress.totalUnitCount < 0 { progress.totalUnitCount = progress.completedUnitCount }
    }
}
