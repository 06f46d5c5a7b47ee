// SPDX-License-Identifier: Apache-2.0
import HTTPCore
public import SessionCore

extension StubOrigin {
    /// Adds a route that opens a WebSocket. A request that is no opening handshake gets a 426.
    ///
    /// ```swift
    /// try origin.webSocket("/feed") { socket in
    ///     while let message = try await socket.receive() { try await socket.send(message) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - pattern: as of the other routes.
    ///   - protocols: the subprotocols that the origin has, the best first.
    ///   - compresses: whether permessage-deflate is accepted when it is offered.
    ///   - times: how many requests it answers; nil for all.
    ///   - handler: called on a thread of Swift's pool when the WebSocket is open.
    /// - Throws: `requestInvalid` for a text that is not a pattern.
    public func webSocket(
        _ pattern: String,
        protocols: [String] = [],
        compresses: Bool = true,
        times: Int? = nil,
        handler: @escaping @Sendable (_ socket: StubWebSocket) async throws -> Void
    ) throws(SessionError) {
        let service = StubWebSocketService(protocols: protocols, compresses: compresses, handler: handler)
        add(StubRoute(method: .get, pattern: try RoutePattern(pattern), left: times, action: .webSocket(service)))
    }
}
