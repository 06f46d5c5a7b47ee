// SPDX-License-Identifier: Apache-2.0
import HTTPCore
public import HTTPSessionCore
import IOCore
public import SessionCore
import WebSocketCore

/// The server's side of a WebSocket of a stub origin. For use on any thread.
///
/// Its closing handshake is made when the handler returns (1000), or throws (1011), unless the handler or the client has closed it.
public final class StubWebSocket: Sendable {
    /// The request of the opening handshake, its fields among it.
    public let request: StubRequest
    /// The subprotocol that was chosen; nil for none.
    public let subprotocol: String?
    let channel = WebSocketChannel(maximumMessageSize: 64 << 20)

    init(_ request: StubRequest, subprotocol: String?) {
        self.request = request
        self.subprotocol = subprotocol
    }

    /// Sends a message.
    ///
    /// - Throws: `cancelled` when the WebSocket is closed.
    public func send(_ message: WebSocketTask.Message) async throws(SessionError) {
        let message = message.message
        try await channel.call { channel, id, completion in channel.send(id, message, completion) }
    }

    /// The next message of the client; nil when it has closed the WebSocket.
    ///
    /// - Throws: when the connection has ended without a Close frame.
    public func receive() async throws(SessionError) -> WebSocketTask.Message? {
        do throws(SessionError) {
            return WebSocketTask.Message(
                try await channel.call { channel, id, completion in channel.receive(id, completion) }
            )
        } catch {
            if channel.isAtEnd { return nil }
            throw error
        }
    }

    /// Sends a Ping, and waits for its Pong.
    public func sendPing() async throws(SessionError) {
        try await channel.call { channel, id, completion in channel.ping(id, completion) }
    }

    /// Closes the WebSocket behind what was sent.
    public func close(_ code: WebSocketTask.CloseCode = .normalClosure, reason: String = "") {
        let text = WebSocketClose.shortened(Array(reason.utf8))
        channel.close(
            WebSocketClose.mayBeSent(code.rawValue)
                ? WebSocketClose(code: code.rawValue, reason: text) : WebSocketClose(code: nil)
        )
    }
}

/// How a route opens WebSockets.
struct StubWebSocketService: Sendable {
    let protocols: [String]
    let compresses: Bool
    let handler: @Sendable (StubWebSocket) async throws -> Void

    /// Opens a WebSocket on the exchange, which has been accepted. On the loop.
    ///
    /// - Returns: false for a request that is no opening handshake.
    func open(_ request: StubRequest, on exchange: StubExchange) -> Bool {
        guard let handshake = WebSocketRequest(exchange.request.fields) else { return false }
        let offer = compresses ? handshake.offers.first : nil
        let agreed = offer?.accepted()
        let socket = StubWebSocket(request, subprotocol: protocols.first { handshake.protocols.contains($0) })
        var fields = HeaderFields()
        handshake.addFields(
            subprotocol: socket.subprotocol,
            extensions: offer.flatMap { offer in agreed.map { offer.response($0) } },
            to: &fields
        )
        var settings = WebSocketMachine.Settings()
        settings.role = .server
        settings.deflate = agreed
        let run = StubWebSocketRun(settings, socket, on: exchange)
        exchange.respond(status: 101, fields: fields, bodyLength: nil)
        run.start(handler)
        return true
    }
}

/// A WebSocket under way on a stub's exchange. The exchange's closures hold it.
///
/// `@unchecked Sendable`: everything but `socket` is for the loop.
private final class StubWebSocketRun: @unchecked Sendable {
    private let exchange: StubExchange
    private let socket: StubWebSocket
    private let pump: WebSocketPump
    private var work: Task<Void, Never>?

    init(_ settings: WebSocketMachine.Settings, _ socket: StubWebSocket, on exchange: StubExchange) {
        self.exchange = exchange
        self.socket = socket
        pump = WebSocketPump(
            settings,
            socket.channel,
            over: StubWire(exchange),
            on: exchange.loop,
            closeTimeout: .seconds(10)
        )
    }

    func start(_ handler: @escaping @Sendable (StubWebSocket) async throws -> Void) {
        exchange.didReceiveBody = { [self] bytes in _ = pump.receive(bytes) }
        exchange.didReceiveEnd = { [self] in exchange.finish() }
        exchange.wantsMore = { [self] in pump.hasRoom() }
        exchange.didEnd = { [self] in stop() }
        socket.channel.start { [exchange] in exchange.onLoop { _ in self.pump.wake() } }
        socket.channel.didOpen(socket.subprotocol)
        work = Task { [socket] in
            do {
                try await handler(socket)
                socket.close()
            } catch {
                socket.close(.internalServerError, reason: "The handler of a stub's WebSocket threw an error: \(error)")
            }
        }
    }

    private func stop() {
        // Behind a closing handshake the handler takes what came before it, if there is anything left.
        if pump.finish(nil) != nil || socket.channel.isAtEnd { work?.cancel() }
        work = nil
    }
}

/// A stub's exchange, as the wire of its WebSocket.
private final class StubWire: WebSocketWire {
    private let exchange: StubExchange

    init(_ exchange: StubExchange) { self.exchange = exchange }

    var pendingBytes: Int { exchange.pendingBytes }

    func write(_ bytes: inout ByteBuffer) {
        exchange.send(bytes.bytes)
        bytes.release()
    }

    func finishWriting() { exchange.finish() }

    /// What the client has sent is there already.
    func readAgain() {}

    func cut() {
        exchange.fail(SessionError(.responseTruncated, "The stub's WebSocket was not closed in time."))
    }
}
