public import HTTPCore
import SessionCore

extension HTTPSessionManager {
    /// Sends a complete request, and returns when the head of its response has arrived; the body is read from the result.
    ///
    /// - Parameters:
    ///   - request: with an absolute URL.
    ///   - interceptor: called before the manager's; attempts are repeated until a head is accepted, not later.
    ///   - validation: which responses are read; by default those with a status from 200 to 299.
    public func stream(
        _ request: HTTPRequest,
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        let request = StreamRequest(
            request,
            manager: self,
            interceptor: combined(interceptor),
            validation: validation
        )
        return try await request.open()
    }

    /// Sends a request that `requestSerializer` makes from parameters, and returns when the head of its response has
    /// arrived.
    ///
    /// - Parameters:
    ///   - method: decides where the parameters go.
    ///   - url: relative to `baseURL`, or absolute.
    ///   - parameters: nil for none.
    ///   - headers: take precedence over the serializer's.
    ///   - interceptor: called before the manager's.
    ///   - validation: which responses are read; by default those with a status from 200 to 299.
    public func stream(
        _ method: HTTPMethod = .get,
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        interceptor: (any RequestInterceptor)? = nil,
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        let made: HTTPRequest
        do throws(SessionError) {
            let base = HTTPRequest(url: try self.url(url), method: method, fields: try Self.fields(headers))
            made = try requestSerializer.serialize(base, parameters: parameters)
        } catch {
            throw .session(error)
        }
        return try await stream(made, interceptor: interceptor, validation: validation)
    }

    /// Server-sent events (`text/event-stream`), with a new connection whenever one ends, as an `EventSource` of a browser
    /// makes it.
    ///
    /// ```swift
    /// for try await event in manager.events("updates") { print(event.event, event.data) }
    /// ```
    ///
    /// - Parameters:
    ///   - url: relative to `baseURL`, or absolute.
    ///   - parameters: nil for none.
    ///   - headers: take precedence over the serializer's.
    ///   - lastEventID: of an earlier connection, sent as `Last-Event-ID`; nil for none.
    ///   - reconnection: when a connection is made again.
    ///   - interceptor: called before the manager's, for each connection.
    public func events(
        _ url: String,
        parameters: ParameterValue? = nil,
        headers: [String: String] = [:],
        lastEventID: String? = nil,
        reconnection: ServerSentEvents.Reconnection = ServerSentEvents.Reconnection(),
        interceptor: (any RequestInterceptor)? = nil
    ) -> ServerSentEvents {
        ServerSentEvents(lastEventID: lastEventID, reconnection: reconnection) {
            [self] lastEventID async throws(RequestFailure) in
            var all = headers
            all["Accept"] = all["Accept"] ?? "text/event-stream"
            all["Cache-Control"] = all["Cache-Control"] ?? "no-store"
            // An identifier is UTF-8, which a field may contain.
            if let lastEventID, !lastEventID.isEmpty { all["Last-Event-ID"] = lastEventID }
            return try await stream(
                .get,
                url,
                parameters: parameters,
                headers: all,
                interceptor: interceptor,
                validation: ServerSentEvents.validation
            )
        }
    }
}
