// SPDX-License-Identifier: Apache-2.0
import HTTPCore
public import SessionCore
import WebSocketCore

extension URLSessionManager {
    /// A task for a WebSocket. It starts with `WebSocketTask.open`, or `resume`.
    ///
    /// - Parameters:
    ///   - request: a GET without a body, whose URL is `wss` or `ws` (or `https` or `http`); its headers go with the opening
    ///     handshake, beside those that belong to it.
    ///   - protocols: the subprotocols that are offered, the best first.
    ///   - options: the settings of this WebSocket.
    /// - Throws: `requestInvalid` when the request cannot be sent, has a field `Sec-WebSocket-…`, or a subprotocol is no token or there
    ///   twice; `sessionInvalidated` when the session has been invalidated.
    public func webSocketTask(
        with request: HTTPSessionRequest,
        protocols: [String] = [],
        options: WebSocketOptions = WebSocketOptions()
    ) throws(SessionError) -> WebSocketTask {
        var request = request
        request.url = WebSocketURL.http(request.url)
        guard request.method == .get, case .none = request.body else {
            throw SessionError(.requestInvalid, "The opening handshake of a WebSocket is a GET without a body.")
        }
        guard WebSocketOffer.areValid(protocols) else {
            throw SessionError(.requestInvalid, "A subprotocol of a WebSocket is no token, or is offered twice.")
        }
        let checked = try thread.check(request)
        if let own = WebSocketField.first(in: checked.fields) {
            throw SessionError(.requestInvalid, "The field \(own) is the session's own; leave it out.")
        }
        let task = WebSocketTask(
            request,
            checked,
            delegate: WebSocketTaskDelegate(callbacks: thread.callbacks),
            session: thread,
            protocols: protocols,
            options: options
        )
        try thread.add(task)
        return task
    }

    /// The same for a URL: `wss://api.example.com/feed`.
    public func webSocketTask(
        with url: String,
        protocols: [String] = [],
        options: WebSocketOptions = WebSocketOptions()
    ) throws(SessionError) -> WebSocketTask {
        try webSocketTask(with: HTTPSessionRequest(url: url), protocols: protocols, options: options)
    }
}

extension HTTPSessionManager {
    /// A WebSocket for a request that `requestSerializer` makes from parameters. Interceptors are not asked. It starts with
    /// `WebSocketTask.open`, or `resume`.
    ///
    /// - Parameters:
    ///   - url: relative to `baseURL`, or absolute, with `wss` or `ws`.
    ///   - parameters: nil for none; they are in the query.
    ///   - headers: take precedence over the serializer's.
    ///   - protocols: the subprotocols that are offered, the best first.
    ///   - options: the settings of this WebSocket.
    /// - Throws: `requestInvalid` when no request can be made from these arguments; otherwise as `URLSessionManager.webSocketTask`.
    public func webSocketTask(
        _ url: String,
        parameters: Parameters? = nil,
        headers: HTTPHeaders = [:],
        protocols: [String] = [],
        options: WebSocketOptions = WebSocketOptions()
    ) throws(SessionError) -> WebSocketTask {
        let request = try made(.get, WebSocketURL.http(url), parameters, headers, RequestOptions())
        return try session.webSocketTask(with: request, protocols: protocols, options: options)
    }
}

/// The URLs of WebSockets (RFC 6455, section 3), as those of their opening handshakes.
private enum WebSocketURL {
    static func http(_ url: String) -> String {
        let scheme = url.prefix { $0 != ":" }
        return switch scheme.lowercased() {
        case "wss": "https" + url.dropFirst(scheme.count)
        case "ws": "http" + url.dropFirst(scheme.count)
        default: url
        }
    }
}
