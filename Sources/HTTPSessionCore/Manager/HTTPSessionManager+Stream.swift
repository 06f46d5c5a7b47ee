// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import SessionCore

extension HTTPSessionManager {
    /// Sends a complete request, and returns when the head of its response has arrived; the body is read from the result.
    ///
    /// - Parameters:
    ///   - request: with an absolute URL.
    ///   - options: those of this request; its serializer is not used. Attempts are repeated until a head is accepted, not later.
    ///   - validation: which responses are read; by default those with a status from 200 to 299.
    public func stream(
        _ request: HTTPSessionRequest,
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        let request = StreamRequest(
            options.applied(to: request),
            manager: self,
            options: options,
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
    ///   - options: those of this request.
    ///   - validation: which responses are read; by default those with a status from 200 to 299.
    public func stream(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        let made: HTTPSessionRequest
        do throws(SessionError) {
            made = try self.made(method, url, parameters, headers, options)
        } catch {
            throw .session(error)
        }
        return try await stream(made, options: options, validation: validation)
    }

    /// The same with parameters of any `Encodable` type.
    public func stream(
        _ method: HTTPMethod,
        _ url: some URLConvertible,
        parameters: some Encodable & Sendable,
        headers: HTTPHeaders = [:],
        options: RequestOptions = RequestOptions(),
        validation: ResponseValidation = ResponseValidation()
    ) async throws(RequestFailure) -> ResponseStream {
        try await stream(
            method,
            url,
            parameters: .some(Parameters(parameters)),
            headers: headers,
            options: options,
            validation: validation
        )
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
    ///   - options: those of each connection.
    public func events(
        _ url: some URLConvertible,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        lastEventID: String? = nil,
        reconnection: ServerSentEvents.Reconnection = ServerSentEvents.Reconnection(),
        options: RequestOptions = RequestOptions()
    ) -> ServerSentEvents {
        let url = url.urlText
        return ServerSentEvents(lastEventID: lastEventID, reconnection: reconnection) {
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
                options: options,
                validation: ServerSentEvents.validation
            )
        }
    }
}
