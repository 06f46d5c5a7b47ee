/// Is told how far a body is: the latest figure, and always the last.
public struct ProgressHandler: Sendable {
    let queue: CallbackQueue?
    let handler: @Sendable (TaskProgress) -> Void

    /// - Parameters:
    ///   - queue: where the handler runs; nil for the session's callback queue.
    ///   - handler: told of the latest figure when it comes to run, so that a slow one is not told of all.
    public init(on queue: CallbackQueue? = nil, _ handler: @escaping @Sendable (_ progress: TaskProgress) -> Void) {
        self.queue = queue
        self.handler = handler
    }
}
