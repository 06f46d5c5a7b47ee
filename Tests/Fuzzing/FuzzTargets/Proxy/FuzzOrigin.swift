// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ServerTrust
import TestSupport

/// The origins of the target `proxy`: one port without TLS and three with it. They respond from a script, whatever the
/// request, and record the received bytes.
final class FuzzOrigin {
    /// The server behind a port.
    enum Kind: Int, CaseIterable {
        case plain, tls, http2
        /// TLS under a key that no pin names.
        case wrongKey
    }

    /// The ports, in the order of `Kind`.
    let ports: [UInt16]
    private let listeners: [Int32]
    private let contexts: [TLSServerContext?]
    private let wrongContext: TLSServerContext

    private var connections: [Connection] = []
    private var responses: [ScriptedResponse] = []
    private var standing: ScriptedResponse?
    private var hasWrongKey = false
    /// Whether a connection with a wrong key has received bytes.
    private(set) var hasLeaked = false

    init(right: TestServer, wrong: TestServer) throws {
        let made = try Kind.allCases.map { _ in try TestSocket.listen() }
        listeners = made.map(\.descriptor)
        ports = made.map(\.port)
        for descriptor in listeners { _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) }
        wrongContext = try Self.context(wrong, ["h2", "http/1.1"])
        contexts = [
            nil, try Self.context(right, ["http/1.1"]), try Self.context(right, ["h2", "http/1.1"]), wrongContext,
        ]
    }

    deinit { for listener in listeners { close(listener) } }

    private static func context(_ server: TestServer, _ protocols: [String]) throws -> TLSServerContext {
        var settings = TLSServerContext.Settings()
        settings.applicationProtocols = protocols
        return try TLSServerContext(
            ServerIdentity(server.identity, intermediates: Array(server.chain.dropFirst())),
            settings
        )
    }

    func port(_ kind: Kind) -> UInt16 { ports[kind.rawValue] }

    /// Resets the state for the next input.
    func reset() {
        // Connections of an earlier proxy in the queues are dropped, too.
        _ = accept()
        for connection in connections { connection.socket.close(byReset: true) }
        connections = []
        responses = []
        standing = nil
        hasWrongKey = false
        hasLeaked = false
    }

    // MARK: Steps

    func add(_ response: ScriptedResponse) { responses.append(response) }
    func setStanding(_ response: ScriptedResponse) { standing = response }
    func changeKey() { hasWrongKey.toggle() }
    func send(_ bytes: [UInt8], on index: Int) { connection(index)?.send(bytes) }
    func halfClose(_ index: Int) { connection(index)?.end() }
    func reset(_ index: Int) { connection(index)?.socket.close(byReset: true) }

    private func connection(_ index: Int) -> Connection? {
        connections.isEmpty ? nil : connections[index % connections.count]
    }

    // MARK: Work

    /// Reads the available bytes, and responds.
    ///
    /// - Returns: whether there was any progress.
    func work() -> Bool {
        var hasWorked = accept()
        for connection in connections where connection.socket.isOpen {
            if connection.work() { hasWorked = true }
            if connection.hasWrongKey, !connection.received.isEmpty { hasLeaked = true }
            while connection.owed > 0, let response = nextResponse() {
                connection.owed -= 1
                connection.send(response.bytes)
                switch response.ending {
                case .stays: break
                case .closes: connection.end()
                case .resets: connection.socket.close(byReset: true)
                }
                hasWorked = true
            }
        }
        return hasWorked
    }

    private func nextResponse() -> ScriptedResponse? { responses.isEmpty ? standing : responses.removeFirst() }

    private func accept() -> Bool {
        var waiting = listeners.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        guard poll(&waiting, nfds_t(waiting.count), 0) > 0 else { return false }
        for (kind, ready) in zip(Kind.allCases, waiting) where ready.revents != 0 {
            while true {
                let descriptor = Glibc.accept(ready.fd, nil, nil)
                guard descriptor >= 0 else { break }
                let isWrong = kind == .wrongKey || (hasWrongKey && kind != .plain)
                let context = isWrong ? wrongContext : contexts[kind.rawValue]
                connections.append(
                    Connection(FuzzSocket(adopting: descriptor), try? context?.session(), hasWrongKey: isWrong)
                )
            }
        }
        return true
    }

    /// One connection: its socket, optionally with TLS, and the number of requests without a response.
    private final class Connection {
        let socket: FuzzSocket
        let hasWrongKey: Bool
        private let session: TLSServerSession?
        /// The received bytes, inside TLS.
        private(set) var received: [UInt8] = []
        private var searched = 0
        var owed = 0
        private var waiting: [UInt8] = []
        private var isEnding = false

        init(_ socket: FuzzSocket, _ session: TLSServerSession?, hasWrongKey: Bool) {
            self.socket = socket
            self.session = session
            self.hasWrongKey = hasWrongKey
        }

        func send(_ bytes: [UInt8]) {
            guard let session else { return socket.send(bytes) }
            waiting += bytes
            encrypt(session)
        }

        func end() {
            isEnding = true
            if let session { encrypt(session) } else { socket.halfClose() }
        }

        private func encrypt(_ session: TLSServerSession) {
            guard session.isEstablished else { return }
            if !waiting.isEmpty { _ = session.write(waiting.span, upTo: .max) }
            waiting = []
            if isEnding { session.sendCloseNotify() }
            flush(session)
            if isEnding { socket.halfClose() }
        }

        private func flush(_ session: TLSServerSession) {
            guard !session.outgoing.isEmpty else { return }
            var bytes: [UInt8] = []
            bytes.append(session.outgoing.bytes)
            session.outgoing.removeAll()
            socket.send(bytes)
        }

        func work() -> Bool {
            var hasWorked = socket.flush()
            if let session {
                var sealed: [UInt8] = []
                if socket.receive(into: &sealed) { hasWorked = true }
                if !sealed.isEmpty {
                    session.incoming.append(sealed)
                    decrypt(session)
                }
                if socket.hasEnded { session.incomingHasEnded = true }
            } else if socket.receive(into: &received) {
                hasWorked = true
            }
            countRequests()
            return hasWorked
        }

        private func decrypt(_ session: TLSServerSession) {
            if !session.isEstablished { _ = session.handshake() }
            if session.isEstablished {
                var plain = ByteBuffer()
                while case .bytes = session.read(into: &plain, upTo: 16 << 10) {}
                received.append(plain.bytes)
                if !waiting.isEmpty || isEnding { encrypt(session) }
            }
            flush(session)
        }

        /// Every empty line counts as the end of a request, which is sufficient to respond at the right time.
        private func countRequests() {
            while searched + 4 <= received.count {
                if received[searched] == 13, received[searched + 1] == 10, received[searched + 2] == 13,
                    received[searched + 3] == 10
                {
                    owed += 1
                    searched += 4
                } else {
                    searched += 1
                }
            }
        }
    }
}
