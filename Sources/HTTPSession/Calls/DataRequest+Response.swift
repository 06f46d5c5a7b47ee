import HTTPCore
import IOCore
import SessionCore

extension DataRequest {
    /// Carries the request out and serializes its response, neither on the session's loop nor on the caller's actor.
    /// When the calling Swift task is cancelled, the request is cancelled.
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
        return try box.consume().get()
    }

    /// Carries the request out, and calls a handler with the result.
    ///
    /// - Parameters:
    ///   - serializer: makes the object from the response.
    ///   - queue: the handler's queue; nil for the session's callback queue.
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
            (queue ?? manager.session.thread.callbacks).enqueue { completionHandler(box.consume()) }
        }
        return self
    }

    @concurrent
    private func run<Serializer: ResponseSerializer>(
        _ serializer: Serializer,
        _ box: HandOver<Result<SerializedResponse<Serializer.Output>, RequestFailure>>
    ) async {
        do throws(SessionError) { try beginOnce() } catch { return box.put(.failure(.session(error))) }
        defer { finish() }
        do throws(RequestFailure) {
            while true {
                do throws(RequestFailure) {
                    let response = try await attempt()
                    let value = try serialize(response, serializer)
                    return box.put(.success(SerializedResponse(value: value, response: response)))
                } catch {
                    try await waitToRetry(after: error)
                }
            }
        } catch {
            box.put(.failure(error))
        }
    }

    /// Adapts the request, sends it, and waits for its response.
    private func attempt() async throws(RequestFailure) -> DataResponse {
        let task = try await carryOut(try await adapt())
        guard let task = task as? DataTask else { preconditionFailure("a data request's task") }
        do throws(SessionError) {
            return try task.dataDelegate.result(of: task).get()
        } catch {
            throw .session(error)
        }
    }

    private func serialize<Serializer: ResponseSerializer>(
        _ response: DataResponse,
        _ serializer: Serializer
    ) throws(RequestFailure) -> sending Serializer.Output {
        do throws(ResponseSerializationError) {
            let value = try serializer.serialize(response, to: request.method)
            notifyMonitors { $0.request(self, didParse: response, failure: nil) }
            return value
        } catch {
            notifyMonitors { $0.request(self, didParse: response, failure: .serialization(error)) }
            throw .serialization(error)
        }
    }
}
