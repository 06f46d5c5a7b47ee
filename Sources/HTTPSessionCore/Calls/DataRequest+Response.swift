// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

extension DataRequest {
    /// Carries the request out and serializes its response, neither on the session's loop nor on the caller's actor.
    /// When the calling Swift task is cancelled, the request is cancelled.
    ///
    /// A further call serializes the same response: it waits for the end of the request, whose attempts the serializer of the
    /// first call decides about, and sends nothing. It throws the failure of a request that has received no response.
    @concurrent
    public func response<Serializer: ResponseSerializer>(
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        try await outcome(
            of: { () throws(RequestFailure) in try await serialized(serializer) },
            orJoining: { () throws(RequestFailure) in try serializedAgain(serializer) }
        )
    }

    /// Carries the request out, and calls a handler with the result. Handlers of several calls are called in their order, when they
    /// have the same queue.
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
        begin(
            { () throws(RequestFailure) in try await self.serialized(serializer) },
            orJoining: { () throws(RequestFailure) in try self.serializedAgain(serializer) },
            queue: queue,
            completionHandler: completionHandler
        )
        return self
    }

    private func serializedAgain<Serializer: ResponseSerializer>(
        _ serializer: Serializer
    ) throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        let response = try joined(latest)
        return SerializedResponse(value: try serialize(response, manager.resolved(serializer)), response: response)
    }

    private func serialized<Serializer: ResponseSerializer>(
        _ serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        let response = try await attempt()
        let serializer = manager.resolved(serializer)
        return SerializedResponse(value: try serialize(response, serializer), response: response)
    }

    /// Adapts the request, sends it, and waits for its response.
    private func attempt() async throws(RequestFailure) -> DataResponse {
        let task = try await carryOut(try await adapt())
        guard let task = task as? DataTask else { preconditionFailure("a data request's task") }
        do throws(SessionError) {
            let response = try task.dataDelegate.result(of: task).get()
            latest = response
            return response
        } catch {
            throw .session(error)
        }
    }
}
