/// An answer, and what a serializer has made of it.
public struct SerializedResponse<Value> {
    public let value: Value
    public let response: DataResponse
}

extension SerializedResponse: Sendable where Value: Sendable {}

extension HTTPSessionManager {
    /// Makes a request and serializes its answer. That is done neither on the session's loop nor on the caller's actor.
    ///
    /// ```swift
    /// let users = try await manager.response(
    ///     for: HTTPRequestSerializer().request(.get, url, parameters: ["page": 2]),
    ///     serializer: DecodableResponseSerializer([User].self)
    /// ).value
    /// ```
    @concurrent
    public func response<Serializer: ResponseSerializer>(
        for request: HTTPRequest,
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedResponse<Serializer.Output> {
        let response: DataResponse
        do throws(SessionError) {
            response = try await data(for: request)
        } catch {
            throw .session(error)
        }
        do throws(ResponseSerializationError) {
            return SerializedResponse(
                value: try serializer.serialize(response, to: request.method),
                response: response
            )
        } catch {
            throw .serialization(error)
        }
    }
}
