/// Is told how far a body is: the latest figure, and always the last.
public struct ProgressHandler: Sendable {
    let queue: CallbackQueue?
    let handler: @Sendable (TaskProgress) -> Void

    /// - Parameter queue: where the handler runs; nil for the session's callback queue.
    public init(on queue: CallbackQueue? = nil, _ handler: @escaping @Sendable (_ progress: TaskProgress) -> Void) {
        self.queue = queue
        self.handler = handler
    }
}
