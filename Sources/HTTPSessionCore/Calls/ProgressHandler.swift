// SPDX-License-Identifier: Apache-2.0
/// A handler of a body's progress: it gets the latest figure, and always the last.
public struct ProgressHandler: Sendable {
    let queue: CallbackQueue?
    let handler: @Sendable (TaskProgress) -> Void

    /// - Parameters:
    ///   - queue: the handler's queue; nil for the session's callback queue.
    ///   - handler: gets the latest figure at the time of the call, so that a slow handler skips figures.
    public init(on queue: CallbackQueue? = nil, _ handler: @escaping @Sendable (_ progress: TaskProgress) -> Void) {
        self.queue = queue
        self.handler = handler
    }
}
