// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// How requests of either kind are carried out: attempts, until one succeeds or is not retried.
extension Request {
    /// Carries the request out. When the calling Swift task is cancelled, the request is cancelled.
    ///
    /// - Parameters:
    ///   - attempt: sends the request, and makes the result from its response.
    ///   - join: makes the result when an earlier call has carried the request out.
    func outcome<Value>(
        of attempt: @Sendable () async throws(RequestFailure) -> sending Value,
        orJoining join: @Sendable () async throws(RequestFailure) -> sending Value
    ) async throws(RequestFailure) -> sending Value {
        let box = HandOver<Result<Value, RequestFailure>>()
        await withTaskCancellationHandler {
            await carryOut(attempt, orJoining: join, into: box)
        } onCancel: {
            cancel()
        }
        return try box.consume().get()
    }

    /// Carries the request out, and calls a handler with the result on its queue; nil is the session's callback queue.
    func begin<Value>(
        _ attempt: @escaping @Sendable () async throws(RequestFailure) -> sending Value,
        orJoining join: @escaping @Sendable () async throws(RequestFailure) -> sending Value,
        queue: CallbackQueue?,
        completionHandler: @escaping @Sendable (sending Result<Value, RequestFailure>) -> Void
    ) {
        let box = HandOver<Result<Value, RequestFailure>>()
        let isFirst = beginOnce()
        enqueueHandler { previous in
            Task(executorPreference: manager.session.thread.blocking) { [self] in
                if isFirst { await attempts(attempt, into: box) } else { await joined(join, into: box) }
                // Handlers run in the order of their calls.
                await previous?.value
                (queue ?? manager.session.thread.callbacks).enqueue { completionHandler(box.consume()) }
            }
        }
    }

    @concurrent
    private func carryOut<Value>(
        _ attempt: @Sendable () async throws(RequestFailure) -> sending Value,
        orJoining join: @Sendable () async throws(RequestFailure) -> sending Value,
        into box: HandOver<Result<Value, RequestFailure>>
    ) async {
        if beginOnce() { await attempts(attempt, into: box) } else { await joined(join, into: box) }
    }

    private func attempts<Value>(
        _ attempt: @Sendable () async throws(RequestFailure) -> sending Value,
        into box: HandOver<Result<Value, RequestFailure>>
    ) async {
        do throws(RequestFailure) {
            while true {
                do throws(RequestFailure) {
                    box.put(.success(try await attempt()))
                    return finish()
                } catch {
                    try await waitToRetry(after: error)
                }
            }
        } catch {
            box.put(.failure(error))
            finish(error)
        }
    }

    private func joined<Value>(
        _ join: @Sendable () async throws(RequestFailure) -> sending Value,
        into box: HandOver<Result<Value, RequestFailure>>
    ) async {
        await withCheckedContinuation { continuation in whenFinished { continuation.resume() } }
        do throws(RequestFailure) {
            box.put(.success(try await join()))
        } catch {
            box.put(.failure(error))
        }
    }

    /// The response that an earlier call has received, also when its own serializer has rejected it.
    func joined<Response>(_ response: Response?) throws(RequestFailure) -> Response {
        switch (failure, response) {
        case (nil, let response?), (.serialization, let response?): return response
        case (let failure?, _): throw failure
        case (nil, nil): throw .session(SessionError(.internal, "The request ended without a response."))
        }
    }

    /// The response for serializers that use the manager's decoder.
    private func decoded(_ response: DataResponse) -> DataResponse {
        var response = response
        response.decoder = manager.givenDecoder
        return response
    }

    /// Makes the object from a response.
    func serialize<Serializer: ResponseSerializer>(
        _ response: DataResponse,
        _ serializer: Serializer
    ) throws(RequestFailure) -> sending Serializer.Output {
        let response = decoded(response)
        do throws(ResponseSerializationError) {
            let value = try serializer.serialize(response, to: request.method)
            notifyMonitors { $0.request(self, didParse: response, failure: nil) }
            return value
        } catch {
            let error = error.named(RequestName.text(request.method, response.url))
            notifyMonitors { $0.request(self, didParse: response, failure: .serialization(error)) }
            throw .serialization(error)
        }
    }
}
