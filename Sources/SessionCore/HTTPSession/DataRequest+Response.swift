import HTTPCore
import IOCore

extension DataRequest {
    /// Carries the request out and serializes its answer. That is done neither on the session's loop nor on the caller's
    /// actor. When the Swift task that waits is cancelled, so is the request.
    @concurrent
    public func response<Serializer: ResponseSerializer>(
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        let box = HandOver<Result<SerializedResponse<Serializer.Output>, RequestFailure>>()
        await withTaskCancellationHandler {
            await run(serializer, box)
        } onCancel: {
            cancel()
        }
        return try box.take().get()
    }

    /// Carries the request out, and calls a handler with what came of it.
    ///
    /// - Parameters:
    ///   - serializer: makes the object of the answer.
    ///   - queue: where the handler runs; nil for the session's callback queue.
    ///   - completionHandler: called once, also after `cancel`.
    /// - Returns: this request.
    @discardableResult
    public func response<Serializer: ResponseSerializer>(
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                sending Result<SerializedResponse<Serializer.Output>, RequestFailure>
            ) -> Void
    ) -> DataRequest {
        let box = HandOver<Result<SerializedResponse<Serializer.Output>, RequestFailure>>()
        Task(executorPreference: BlockingThreads.shared) { [self] in
            await run(serializer, box)
            (queue ?? manager.session.thread.callbacks).enqueue { completionHandler(box.take()) }
        }
        return self
    }

    @concurrent
    private func run<Serializer: ResponseSerializer>(
        _ serializer: Serializer,
        _ box: HandOver<Result<SerializedResponse<Serializer.Output>, RequestFailure>>
    ) async {
        do throws(RequestFailure) {
            do throws(SessionError) { try begin() } catch { throw .session(error) }
            while true {
                do throws(RequestFailure) {
                    let response = try await attempt()
                    let value = try serialize(response, serializer)
                    finish()
                    return box.put(.success(SerializedResponse(value: value, response: response)))
                } catch {
                    try await judge(error)
                }
            }
        } catch {
            finish()
            box.put(.failure(error))
        }
    }

    /// Adapts the request, sends it, and waits for its answer.
    private func attempt() async throws(RequestFailure) -> DataResponse {
        guard !isCancelled else { throw .session(TaskRun.cancelled) }
        let adapted = try await adapt()
        let task: DataTask
        do throws(SessionError) {
            task = try addTask(for: adapted)
        } catch {
            throw .session(error)
        }
        let result = await withCheckedContinuation { continuation in
            task.delegate.whenComplete { continuation.resume(returning: task.dataDelegate.result(of: task)) }
        }
        if let metrics = task.delegate.metrics { manager.tell { $0.request(self, didGather: metrics) } }
        manager.tell { $0.request(self, didComplete: task, with: task.error) }
        do throws(SessionError) {
            return try result.get()
        } catch {
            throw .session(error)
        }
    }

    private func adapt() async throws(RequestFailure) -> HTTPRequest {
        guard let interceptor else { return originalRequest }
        do {
            let adapted = try await interruptible { try await interceptor.adapt(self.originalRequest, for: self) }
            took(adapted)
            manager.tell { $0.request(self, didAdapt: self.originalRequest, to: adapted) }
            return adapted
        } catch {
            if isCancelled { throw .session(TaskRun.cancelled) }
            manager.tell { $0.request(self, didFailToAdapt: self.originalRequest, with: error) }
            throw .adaptation(error)
        }
    }

    private func serialize<Serializer: ResponseSerializer>(
        _ response: DataResponse,
        _ serializer: Serializer
    ) throws(RequestFailure) -> sending Serializer.Output {
        do throws(ResponseSerializationError) {
            let value = try serializer.serialize(response, to: request.method)
            manager.tell { $0.request(self, didParse: response, failure: nil) }
            return value
        } catch {
            manager.tell { $0.request(self, didParse: response, failure: .serialization(error)) }
            throw .serialization(error)
        }
    }

    /// Returns when the request is to be made again.
    ///
    /// - Throws: what the request ends with.
    private func judge(_ failure: RequestFailure) async throws(RequestFailure) {
        if isCancelled { throw .session(TaskRun.cancelled) }
        guard let interceptor, failure.mayBeRetried else { throw failure }
        let verdict: RetryResult
        do {
            verdict = try await interruptible { await interceptor.retry(self, dueTo: failure) }
            switch verdict {
            case .doNotRetry: throw failure
            case .doNotRetryWithError(let error): throw RequestFailure.retry(error, original: failure)
            case .retry: break
            case .retryWithDelay(let delay): try await interruptible { try await Task.sleep(for: delay) }
            }
        } catch let error as RequestFailure {
            throw error
        } catch {
            throw .session(TaskRun.cancelled)
        }
        willRetry()
        manager.tell { $0.requestIsRetrying(self) }
    }
}
