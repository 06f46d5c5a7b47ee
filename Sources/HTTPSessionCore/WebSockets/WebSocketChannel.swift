// SPDX-License-Identifier: Apache-2.0
import IOCore
package import SessionCore
package import WebSocketCore

/// A WebSocket between its loop, where frames are read and written, and the program on any thread: messages that wait to be
/// received, and what waits to be sent.
///
/// Of received messages, about a quarter of a megabyte waits besides the last one; then the peer waits, too. What waits to be sent
/// is the program's: each call of `send` holds its own message.
///
/// `@unchecked Sendable`: what changes is in `shared`, accessed with `lock` held. No foreign code is called with it held.
package final class WebSocketChannel: @unchecked Sendable {
    package typealias Completion<Value> = @Sendable (Result<Value, SessionError>) -> Void

    /// What the program gives to be sent.
    enum Outgoing {
        case message(UInt64, WebSocketMessage)
        case ping([UInt8])
        case close(WebSocketClose)
    }

    private enum Phase {
        case opening
        case open
        /// Nothing more comes or goes; the error is nil after a closing handshake.
        case over(SessionError?)
    }

    private struct Shared {
        var phase = Phase.opening
        /// Whether the opening handshake has succeeded, be the WebSocket over since.
        var hasOpened = false
        var subprotocol: String?
        var close: WebSocketClose?
        var maximumMessageSize: Int
        var openers: [(id: UInt64, completion: Completion<String?>)] = []

        var incoming: [WebSocketMessage] = []
        /// The first of `incoming` that was not taken.
        var first = 0
        var incomingSize = 0
        /// The loop reads nothing until there is room.
        var isFull = false
        var receivers: [(id: UInt64, completion: Completion<WebSocketMessage>)] = []

        var outgoing: [Outgoing] = []
        /// Messages that the loop has not sent whole, or not begun.
        var sending: [UInt64: Completion<Void>] = [:]
        var pings: [(payload: [UInt8], completion: Completion<Void>)] = []
        var isCloseAsked = false

        /// Calls that were cancelled before they had begun.
        var cancelled: Set<UInt64> = []
        var lastNumber: UInt64 = 0
        var wake: (@Sendable () -> Void)?
        var isWakePlanned = false

        var isOver: Bool { if case .over = phase { true } else { false } }

        /// The error of a call that comes too late.
        var lateError: SessionError {
            if case .over(let error?) = phase { return error }
            guard let close else { return .taskCancelled }
            return SessionError(.cancelled, "The WebSocket is closed: \(close.text).")
        }
    }

    private let lock = PosixLock()
    private var shared: Shared

    /// Received messages that wait at most, in bytes, before the peer has to wait.
    private static let limit = 256 << 10
    /// What a message costs besides its bytes.
    private static let overhead = 64

    package init(maximumMessageSize: Int) { shared = Shared(maximumMessageSize: maximumMessageSize) }

    // MARK: The program

    var maximumMessageSize: Int {
        get { lock.withLock { shared.maximumMessageSize } }
        set { lock.withLock { shared.maximumMessageSize = newValue } }
    }

    var subprotocol: String? { lock.withLock { shared.subprotocol } }
    /// The peer's Close frame, or why there is none; nil before.
    var close: WebSocketClose? { lock.withLock { shared.close } }

    /// Whether the opening handshake is over.
    var isOpened: Bool { lock.withLock { if case .opening = shared.phase { false } else { true } } }

    /// A number for a call, by which it can be cancelled.
    func number() -> UInt64 {
        lock.withLock {
            shared.lastNumber += 1
            return shared.lastNumber
        }
    }

    /// Waits for the end of the opening handshake.
    func whenOpen(_ id: UInt64, _ completion: @escaping Completion<String?>) {
        let result = lock.withLock { () -> Result<String?, SessionError>? in
            if shared.cancelled.remove(id) != nil { return .failure(.taskCancelled) }
            switch shared.phase {
            case .opening:
                shared.openers.append((id, completion))
                return nil
            case .open: return .success(shared.subprotocol)
            // The peer may have closed it before the program looks.
            case .over where shared.hasOpened: return .success(shared.subprotocol)
            case .over: return .failure(shared.lateError)
            }
        }
        if let result { completion(result) }
    }

    /// Takes the next message, or waits for it.
    package func receive(_ id: UInt64, _ completion: @escaping Completion<WebSocketMessage>) {
        let (result, wake) = lock.withLock { () -> (Result<WebSocketMessage, SessionError>?, (@Sendable () -> Void)?) in
            if shared.cancelled.remove(id) != nil { return (.failure(.taskCancelled), nil) }
            if shared.first < shared.incoming.count { return (.success(takeMessage()), planRoom()) }
            guard !shared.isOver else { return (.failure(shared.lateError), nil) }
            shared.receivers.append((id, completion))
            return (nil, nil)
        }
        wake?()
        if let result { completion(result) }
    }

    /// Whether the closing handshake has ended the WebSocket, and all messages are taken.
    package var isAtEnd: Bool {
        lock.withLock {
            guard case .over(nil) = shared.phase, shared.close != nil else { return false }
            return shared.first == shared.incoming.count
        }
    }

    /// With the lock held.
    private func takeMessage() -> WebSocketMessage {
        let message = shared.incoming[shared.first]
        shared.incoming[shared.first] = WebSocketMessage(isText: false, bytes: [])
        shared.first += 1
        shared.incomingSize -= message.bytes.count + Self.overhead
        if shared.first == shared.incoming.count {
            shared.incoming.removeAll(keepingCapacity: true)
            shared.first = 0
        }
        return message
    }

    /// With the lock held.
    private func planRoom() -> (@Sendable () -> Void)? {
        guard shared.isFull, shared.incomingSize < Self.limit / 2 else { return nil }
        shared.isFull = false
        return planWake()
    }

    /// With the lock held: wakes the loop, unless it will come anyway.
    private func planWake() -> (@Sendable () -> Void)? {
        guard !shared.isWakePlanned, let wake = shared.wake else { return nil }
        shared.isWakePlanned = true
        return wake
    }

    /// Gives a message to be sent.
    package func send(_ id: UInt64, _ message: WebSocketMessage, _ completion: @escaping Completion<Void>) {
        let (error, wake) = lock.withLock { () -> (SessionError?, (@Sendable () -> Void)?) in
            if shared.cancelled.remove(id) != nil { return (.taskCancelled, nil) }
            guard !shared.isOver, !shared.isCloseAsked else { return (shared.lateError, nil) }
            shared.sending[id] = completion
            shared.outgoing.append(.message(id, message))
            return (nil, planWake())
        }
        wake?()
        if let error { completion(.failure(error)) }
    }

    /// Sends a Ping, and waits for its Pong.
    package func ping(_ id: UInt64, _ completion: @escaping Completion<Void>) {
        // The number goes with the Ping, so that each has a Pong of its own.
        let payload = stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: id >> UInt64($0)) }
        let (error, wake) = lock.withLock { () -> (SessionError?, (@Sendable () -> Void)?) in
            if shared.cancelled.remove(id) != nil { return (.taskCancelled, nil) }
            guard !shared.isOver, !shared.isCloseAsked else { return (shared.lateError, nil) }
            shared.pings.append((payload, completion))
            shared.outgoing.append(.ping(payload))
            return (nil, planWake())
        }
        wake?()
        if let error { completion(.failure(error)) }
    }

    /// Closes behind what was given before. The first call counts.
    package func close(_ close: WebSocketClose) {
        let wake = lock.withLock { () -> (@Sendable () -> Void)? in
            guard !shared.isOver, !shared.isCloseAsked else { return nil }
            shared.isCloseAsked = true
            shared.outgoing.append(.close(close))
            return planWake()
        }
        wake?()
    }

    /// Ends a call of `whenOpen`, `receive`, `send` or `ping` with the error `cancelled`. A message that is under way is sent
    /// nevertheless.
    package func cancel(_ id: UInt64) {
        let end = lock.withLock { () -> (@Sendable () -> Void)? in
            if let index = shared.receivers.firstIndex(where: { $0.id == id }) {
                let completion = shared.receivers.remove(at: index).completion
                return { completion(.failure(.taskCancelled)) }
            }
            if let completion = shared.sending.removeValue(forKey: id) {
                shared.outgoing.removeAll { if case .message(id, _) = $0 { true } else { false } }
                return { completion(.failure(.taskCancelled)) }
            }
            if let index = shared.openers.firstIndex(where: { $0.id == id }) {
                let completion = shared.openers.remove(at: index).completion
                return { completion(.failure(.taskCancelled)) }
            }
            let payload = stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: id >> UInt64($0)) }
            if let index = shared.pings.firstIndex(where: { $0.payload == payload }) {
                let completion = shared.pings.remove(at: index).completion
                return { completion(.failure(.taskCancelled)) }
            }
            shared.cancelled.insert(id)
            return nil
        }
        end?()
    }

    /// Makes a call, and waits for its completion, or for the cancellation of the calling Swift task.
    package func call<Value: Sendable>(
        _ begin: (WebSocketChannel, UInt64, @escaping Completion<Value>) -> Void
    ) async throws(SessionError) -> Value {
        let id = number()
        let result = await withTaskCancellationHandler {
            await handedOver { give in begin(self, id) { give($0) } }
        } onCancel: {
            cancel(id)
        }
        // It may have been cancelled after its completion.
        lock.withLock { _ = shared.cancelled.remove(id) }
        return try result.get()
    }

    // MARK: The loop

    /// - Parameter wake: called when there is something to send, or room again.
    package func start(wake: @escaping @Sendable () -> Void) {
        lock.withLock { if !shared.isOver { shared.wake = wake } }
    }

    /// - Parameter hook: is called with the WebSocket open, before those who wait for that.
    package func didOpen(_ subprotocol: String?, hook: () -> Void = {}) {
        let (openers, wake) = lock.withLock {
            () -> ([(id: UInt64, completion: Completion<String?>)], (@Sendable () -> Void)?) in
            guard case .opening = shared.phase else { return ([], nil) }
            shared.phase = .open
            shared.hasOpened = true
            shared.subprotocol = subprotocol
            defer { shared.openers = [] }
            return (shared.openers, shared.outgoing.isEmpty ? nil : planWake())
        }
        hook()
        for opener in openers { opener.completion(.success(subprotocol)) }
        wake?()
    }

    /// The loop has come: what follows wakes it again.
    func didWake() { lock.withLock { shared.isWakePlanned = false } }

    func nextOutgoing() -> Outgoing? {
        lock.withLock { shared.outgoing.isEmpty ? nil : shared.outgoing.removeFirst() }
    }

    func didSend(_ id: UInt64) {
        let completion = lock.withLock { shared.sending.removeValue(forKey: id) }
        completion?(.success(()))
    }

    /// Whether no more messages are read for now.
    var isFull: Bool { lock.withLock { shared.isFull } }

    func didReceive(_ message: WebSocketMessage) {
        let receiver = lock.withLock { () -> Completion<WebSocketMessage>? in
            guard !shared.isOver else { return nil }
            if !shared.receivers.isEmpty { return shared.receivers.removeFirst().completion }
            shared.incoming.append(message)
            shared.incomingSize += message.bytes.count + Self.overhead
            shared.isFull = shared.incomingSize >= Self.limit
            return nil
        }
        receiver?(.success(message))
    }

    /// A Pong is for its Ping and for those before it (RFC 6455, section 5.5.3).
    func didReceivePong(_ payload: [UInt8]) {
        let answered = lock.withLock { () -> [Completion<Void>] in
            guard let index = shared.pings.firstIndex(where: { $0.payload == payload }) else { return [] }
            defer { shared.pings.removeSubrange(...index) }
            return shared.pings[...index].map(\.completion)
        }
        for completion in answered { completion(.success(())) }
    }

    /// Nothing more comes or goes. The first call counts; received messages can still be taken.
    ///
    /// - Parameters:
    ///   - close: the peer's Close frame, or the code that stands for its absence.
    ///   - error: nil after a closing handshake.
    package func finish(_ close: WebSocketClose, _ error: SessionError?) {
        let ended = lock.withLock { () -> Shared? in
            guard !shared.isOver else { return nil }
            let old = shared
            shared.close = close
            shared.phase = .over(error)
            shared.openers = []
            shared.receivers = []
            shared.outgoing = []
            shared.sending = [:]
            shared.pings = []
            shared.wake = nil
            return old
        }
        guard let ended else { return }
        let error = error ?? SessionError(.cancelled, "The WebSocket is closed: \(close.text).")
        for opener in ended.openers { opener.completion(.failure(error)) }
        for receiver in ended.receivers { receiver.completion(.failure(error)) }
        for completion in ended.sending.values { completion(.failure(error)) }
        for ping in ended.pings { ping.completion(.failure(error)) }
    }
}

extension WebSocketClose {
    /// For people.
    var text: String {
        let code = code.map { "code \($0)" } ?? "no code"
        return reason.isEmpty ? code : "\(code), \(String(decoding: reason, as: UTF8.self))"
    }
}
