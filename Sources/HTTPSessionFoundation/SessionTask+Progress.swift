public import Foundation
public import HTTPSession

extension SessionTask {
    /// How far the request's body is, in bytes. The same object each time; cancelling, pausing and resuming it does so
    /// with the task.
    ///
    /// It is updated on the session's callback queue.
    public var uploadProgress: Progress { progress("upload", delegate.sending, countOfBytesExpectedToSend) }

    /// How far the answer's body is, in bytes; the total is that of `Content-Length`, and not known where there is none
    /// until the end.
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

/// A `Progress` and the task that it stands for.
///
/// `@unchecked Sendable`: the reference never changes, and the object is changed on the session's callback queue alone.
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

    /// A body whose length only its end tells is whole then.
    func finish(isWhole: Bool) {
        if isWhole, progress.totalUnitCount < 0 { progress.totalUnitCount = progress.completedUnitCount }
    }
}
