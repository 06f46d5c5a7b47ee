// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
public import SessionCore
package import WebSocketCore

/// A WebSocket (RFC 6455): the counterpart of `URLSessionWebSocketTask`. For use on any thread.
///
/// ```swift
/// let socket = try session.webSocketTask(with: "wss://api.example.com/feed", protocols: ["v2.feed"])
/// try await socket.open()
/// try await socket.send(.string("subscribe"))
/// for try await message in socket.messages { print(message) }
/// socket.cancel(with: .normalClosure)
/// ```
///
/// The request of the opening handshake is a request of the session: policy and pins, proxy, cookies, credentials, challenges and
/// redirects are those of every task, and the limits of its `TaskTimeouts` hold until the WebSocket is open. A response that does not
/// open it fails the task with `responseInvalid`; `response` has its head. Pings of the server are answered without the program.
///
/// The task ends without an error after a closing handshake. It ends with `responseInvalid` when the server violates the protocol or
/// sends text that is not UTF-8, with `responseTooLarge` for a message above `maximumMessageSize`, and with `responseTruncated` when
/// the connection ends without a Close frame. `suspend` stops reading, `cancel()` cuts the connection.
///
/// `@unchecked Sendable`: as `SessionTask`; its own properties do not change.
public final class WebSocketTask: SessionTask, @unchecked Sendable {
    /// A message.
    public enum Message: Sendable, Hashable {
        /// Bytes.
        case data([UInt8])
        /// Text, which is valid UTF-8.
        case string(String)

        package init(_ message: WebSocketMessage) {
            self = message.isText ? .string(String(decoding: message.bytes, as: UTF8.self)) : .data(message.bytes)
        }

        package var message: WebSocketMessage {
            switch self {
            case .data(let bytes): WebSocketMessage(isText: false, bytes: bytes)
            case .string(let text): WebSocketMessage(isText: true, bytes: Array(text.utf8))
            }
        }
    }

    /// Why a WebSocket was closed (RFC 6455, section 7.4), with the names of `URLSessionWebSocketTask.CloseCode`. Programs have codes
    /// of their own from 4000 to 4999.
    public struct CloseCode: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        /// The number of a close frame, from 0 to 65,535.
        public let rawValue: UInt16

        /// Any number; only 1000 to 1003, 1007 to 1014 and 3000 to 4999 are sent.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// The WebSocket is not closed.
        public static let invalid = CloseCode(rawValue: 0)
        /// What it was for is done.
        public static let normalClosure = CloseCode(rawValue: 1000)
        /// The peer goes away: a server that ends.
        public static let goingAway = CloseCode(rawValue: 1001)
        /// The other side has violated the protocol.
        public static let protocolError = CloseCode(rawValue: 1002)
        /// Messages of a type that is not accepted.
        public static let unsupportedData = CloseCode(rawValue: 1003)
        /// The peer's Close frame had no code. Never sent.
        public static let noStatusReceived = CloseCode(rawValue: 1005)
        /// The connection has ended without a Close frame. Never sent.
        public static let abnormalClosure = CloseCode(rawValue: 1006)
        /// A message was not what its type says: text that is not UTF-8.
        public static let invalidFramePayloadData = CloseCode(rawValue: 1007)
        /// A message violates a policy.
        public static let policyViolation = CloseCode(rawValue: 1008)
        /// A message is too long.
        public static let messageTooBig = CloseCode(rawValue: 1009)
        /// The client needs an extension that the server does not have.
        public static let mandatoryExtensionMissing = CloseCode(rawValue: 1010)
        /// The server cannot do what was asked.
        public static let internalServerError = CloseCode(rawValue: 1011)
        /// The handshake of TLS has failed. Never sent.
        public static let tlsHandshakeFailure = CloseCode(rawValue: 1015)

        public var description: String { "\(rawValue)" }
    }

    let channel: WebSocketChannel
    private let protocols: [String]
    private let options: WebSocketOptions

    init(
        _ request: HTTPSessionRequest,
        _ checked: CheckedRequest,
        delegate: WebSocketTaskDelegate,
        session: SessionThread,
        protocols: [String],
        options: WebSocketOptions
    ) {
        channel = WebSocketChannel(maximumMessageSize: options.maximumMessageSize)
        self.protocols = protocols
        self.options = options
        super.init(request, checked, delegate: delegate, session: session)
    }

    /// `delegate` with the members of a WebSocket.
    public var webSocketDelegate: WebSocketTaskDelegate {
        // `URLSessionManager` makes it so, and it never changes.
        guard let delegate = delegate as? WebSocketTaskDelegate else { preconditionFailure("a WebSocket's delegate") }
        return delegate
    }

    override func makeSink(_ execution: TaskExecution) -> BodySink {
        let sink = WebSocketSink(
            channel,
            protocols: protocols,
            options: options,
            loop: session.loop,
            events: WebSocketSink.Events(
                didOpen: { [unowned self] subprotocol in webSocketDelegate.didOpen?(self, subprotocol) },
                didReceive: { [unowned self] byteCount in _ = count { $0.received += Int64(byteCount) } },
                didClose: { [unowned self] in webSocketDelegate.didClose?(self, closeCode, closeReason) }
            )
        )
        let handle = LoopHandle(sink)
        channel.start { [loop = session.loop] in loop.submit { handle.sink?.wake() } }
        return sink
    }

    // MARK: What there is to know

    /// The longest message that is received, in bytes. A change holds from the next message on.
    public var maximumMessageSize: Int {
        get { channel.maximumMessageSize }
        set { channel.maximumMessageSize = newValue }
    }

    /// The subprotocol that the server has chosen among those that were offered; nil before, and when it has chosen none.
    public var subprotocol: String? { channel.subprotocol }

    /// The code of the peer's Close frame, or the one with which this side has failed the WebSocket; `invalid` while it is open.
    public var closeCode: CloseCode { channel.close?.code.map { CloseCode(rawValue: $0) } ?? .invalid }

    /// The reason of the peer's Close frame, or why this side has failed the WebSocket; nil while it is open, and without one.
    public var closeReason: String? {
        guard let close = channel.close, !close.reason.isEmpty else { return nil }
        return String(decoding: close.reason, as: UTF8.self)
    }

    // MARK: Opening

    /// Starts the task, and waits until the WebSocket is open. When the calling Swift task is cancelled, this task is cancelled.
    /// It returns also where the WebSocket was open and has been closed since, which the next call tells.
    ///
    /// - Returns: the subprotocol that the server has chosen; nil for none.
    /// - Throws: why it was not opened.
    @discardableResult
    public func open() async throws(SessionError) -> String? {
        resume()
        do throws(SessionError) {
            return try await channel.call { channel, id, completion in channel.whenOpen(id, completion) }
        } catch {
            if error.code == .cancelled, Task.isCancelled { cancel() }
            throw error
        }
    }

    // MARK: Messages

    /// Sends a message. It returns when the last byte has been handed to the connection, at most 128 KB ahead of the network: a
    /// program that awaits each call sends no faster than the server reads. Messages go in the order of the calls; before the
    /// WebSocket is open they wait.
    ///
    /// When the calling Swift task is cancelled, `cancelled` is thrown; a message of which something has gone is still sent whole.
    ///
    /// - Throws: `cancelled` when the WebSocket is closed, or the error of the task.
    public func send(_ message: Message) async throws(SessionError) {
        let message = message.message
        try await channel.call { channel, id, completion in channel.send(id, message, completion) }
    }

    /// The same with a handler, which is called on the session's callback queue.
    public func send(_ message: Message, completionHandler: @escaping @Sendable (_ error: SessionError?) -> Void) {
        channel.send(channel.number(), message.message) { [callbacks = session.callbacks] result in
            callbacks.enqueue { completionHandler(result.error) }
        }
    }

    /// The next message. Messages that the program does not receive wait, and with more than a quarter of a megabyte of them the
    /// server waits, too.
    ///
    /// When the calling Swift task is cancelled, `cancelled` is thrown and no message is lost; the WebSocket stays open.
    ///
    /// - Throws: `cancelled` when the WebSocket is closed and all its messages were received, or the error of the task.
    public func receive() async throws(SessionError) -> Message {
        Message(try await channel.call { channel, id, completion in channel.receive(id, completion) })
    }

    /// The same with a handler, which is called once, on the session's callback queue.
    public func receive(completionHandler: @escaping @Sendable (_ result: Result<Message, SessionError>) -> Void) {
        channel.receive(channel.number()) { [callbacks = session.callbacks] result in
            callbacks.enqueue { completionHandler(result.map { Message($0) }) }
        }
    }

    /// The messages, up to the end. A loop ends after a closing handshake, whatever its code, and throws the error of the task
    /// otherwise. The WebSocket stays open when a loop ends early: another one, or `receive`, goes on.
    public var messages: Messages { Messages(channel: channel) }

    /// The messages of a WebSocket.
    public struct Messages: AsyncSequence, Sendable {
        let channel: WebSocketChannel

        /// Several iterators share the messages.
        public func makeAsyncIterator() -> Iterator { Iterator(channel: channel) }

        /// The place among the messages.
        public struct Iterator: AsyncIteratorProtocol {
            let channel: WebSocketChannel

            /// The next message; nil after a closing handshake.
            public mutating func next() async throws(SessionError) -> Message? { try await next(isolation: nil) }

            /// The next message; nil after a closing handshake.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws(SessionError) -> Message? {
                do throws(SessionError) {
                    return Message(try await channel.call { channel, id, done in channel.receive(id, done) })
                } catch {
                    if channel.isAtEnd { return nil }
                    throw error
                }
            }
        }
    }

    // MARK: Pings

    /// Sends a Ping, and returns when its Pong has come. There is no limit of time but that of the calling Swift task.
    ///
    /// - Throws: `cancelled` when the WebSocket is closed, or the error of the task.
    public func sendPing() async throws(SessionError) {
        try await channel.call { channel, id, completion in channel.ping(id, completion) }
    }

    /// The same with a handler, which is called once, on the session's callback queue: with nil when the Pong has come.
    public func sendPing(pongReceiveHandler: @escaping @Sendable (_ error: SessionError?) -> Void) {
        channel.ping(channel.number()) { [callbacks = session.callbacks] result in
            callbacks.enqueue { pongReceiveHandler(result.error) }
        }
    }

    // MARK: Closing

    /// Closes the WebSocket: the Close frame goes behind the messages that were given before, the server's is awaited for
    /// `WebSocketOptions.closeTimeout`, and the task ends. Messages that come meanwhile are dropped. A WebSocket that is not open yet
    /// is cancelled. Later calls have no effect.
    ///
    /// - Parameters:
    ///   - closeCode: one that is never sent stands for a Close frame without a code.
    ///   - reason: for people; at most 123 bytes of its UTF-8 are sent.
    public func cancel(with closeCode: CloseCode, reason: String? = nil) {
        guard channel.isOpened else { return cancel() }
        guard WebSocketClose.mayBeSent(closeCode.rawValue) else { return channel.close(WebSocketClose(code: nil)) }
        let text = WebSocketClose.shortened(Array((reason ?? "").utf8))
        channel.close(WebSocketClose(code: closeCode.rawValue, reason: text))
    }
}

/// The hooks of one WebSocket, called on the session's loop; see `SessionHooks`.
///
/// `@unchecked Sendable`: what changes is accessed with `lock` held.
public final class WebSocketTaskDelegate: TaskDelegate, @unchecked Sendable {
    /// Behind `lock`.
    private var hooks = Hooks()

    private struct Hooks {
        var didOpen: (@Sendable (WebSocketTask, String?) -> Void)?
        var didClose: (@Sendable (WebSocketTask, WebSocketTask.CloseCode, String?) -> Void)?
    }

    /// The WebSocket is open, with the subprotocol that the server has chosen.
    public var didOpen: (@Sendable (_ task: WebSocketTask, _ subprotocol: String?) -> Void)? {
        get { lock.withLock { hooks.didOpen } }
        set { unlessComplete { exchange(&hooks.didOpen, with: newValue) } }
    }

    /// The connection of an open WebSocket has ended: `taskDidComplete` follows, with the error if there is one.
    public var didClose:
        (@Sendable (_ task: WebSocketTask, _ closeCode: WebSocketTask.CloseCode, _ reason: String?) -> Void)?
    {
        get { lock.withLock { hooks.didClose } }
        set { unlessComplete { exchange(&hooks.didClose, with: newValue) } }
    }

    override func takeHooks() -> Any? {
        defer { hooks = Hooks() }
        return (hooks, super.takeHooks())
    }
}

/// Carries a reference to the sink from other threads to the loop.
///
/// `@unchecked Sendable`: `sink` is for the loop.
private final class LoopHandle: @unchecked Sendable {
    private(set) weak var sink: WebSocketSink?

    init(_ sink: WebSocketSink) { self.sink = sink }
}

extension Result {
    /// nil after success.
    fileprivate var error: Failure? { if case .failure(let error) = self { error } else { nil } }
}
