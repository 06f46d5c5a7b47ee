import HTTPCore
import IOCore
import SessionCore

/// How requests of either kind are carried out: attempts, until one succeeds or is not retried.
extension Request {
    /// Carries the request out. When the calling Swift task is cancelled, the request is cancelled.
    ///
    /// - Parameter attempt: sends the request, and makes the result from its response.
    func outcome<Value>(
        of attempt: @Sendable () async throws(RequestFailure) -> sending Value
    ) async throws(RequestFailure) -> sending Value {
        let box = HandOver<Result<Value, RequestFailure>>()
        await withTaskCancellationHandler {
            await carryOut(attempt, into: box)
        } onCancel: {
            cancel()
        }
        return try box.consume().get()
    }

    /// Carries the request out, and calls a handler with the result on its queue; nil is the session's callback queue.
    func begin<Value>(
        _ attempt: @escaping @Sendable () async throws(RequestFailure) -> sending Value,
        queue: CallbackQueue?,
        completionHandler: @escaping @Sendable (sending Result<Value, RequestFailure>) -> Void
    ) {
        let box = HandOver<Result<Value, RequestFailure>>()
        Task(executorPreference: manager.session.thread.blocking) { [self] in
            await carryOut(attempt, into: box)
            (queue ?? manager.session.thread.callbacks).enqueue { completionHandler(box.consume()) }
        }
    }

    @concurrent
    private func carryOut<Value>(
        _ attempt: @Sendable () async throws(RequestFailure) -> sending Value,
        into box: HandOver<Result<Value, RequestFailure>>
    ) async {
        do throws(SessionError) { try beginOnce() } catch { return box.put(.failure(.session(error))) }
        defer { finish() }
        do throws(RequestFailure) {
            while true {
                do throws(RequestFailure) {
                    return box.put(.success(try await attempt()))
                } catch {
                    try await waitToRetry(after: error)
                }
            }
        } catch {
            box.put(.failure(error))
        }
    }

    /// Makes the object from a response.
    func serialize<Serializer: ResponseSerializer>(
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
