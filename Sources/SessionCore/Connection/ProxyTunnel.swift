// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
import HTTPCore
import IOCore
import ServerTrust

/// TLS to a proxy whose certificate the security policy has accepted. Owns the `SSL`.
///
/// Only `ProxyTunnel` makes one, and only with it does it write to an HTTPS proxy: one that is refused gets neither CONNECT nor
/// credentials.
final class ProxyLink {
    /// The connection to the proxy. The origin's TLS, or its bytes where it has none, go through it.
    let ssl: OpaquePointer
    private let trust: ConnectionTrust

    /// - Returns: nil unless the verdict is one on this proxy, and accepts it now. The `SSL` is the caller's then.
    fileprivate init?(_ trust: ConnectionTrust, to proxy: Endpoint, at now: Int64, _ ssl: OpaquePointer) {
        guard trust.holds(for: proxy, at: now) else { return nil }
        self.ssl = ssl
        self.trust = trust
    }

    deinit { SSL_free(ssl) }

    /// Whether the verdict on the proxy lets a further request of this endpoint go through it.
    ///
    /// - Parameter now: seconds since 1970.
    func mayCarry(_ endpoint: Endpoint, at now: Int64) -> Bool {
        endpoint.proxyEndpoint.map { trust.holds(for: $0, at: now) } ?? false
    }
}

/// The result of one call on TLS or on a socket.
private enum Transfer {
    case bytes(Int)
    case needs(Readiness)
    /// The peer has ended, and has said so.
    case end
    /// With `errno`; the rest is in OpenSSL's queue.
    case broken(Int32)

    var count: Int { if case .bytes(let count) = self { count } else { 0 } }

    /// - Parameter readiness: what the socket has to be ready for when it would block.
    init(_ result: Int, _ code: Int32, awaiting readiness: Readiness) {
        self =
            if result > 0 { .bytes(result) } else if result == 0 { .end } else if code == EAGAIN || code == EINTR {
                .needs(readiness)
            } else { .broken(code) }
    }

    init(_ result: Int32, of ssl: OpaquePointer) {
        let code = errno
        if result > 0 {
            self = .bytes(Int(result))
            return
        }
        self =
            switch SSL_get_error(ssl, result) {
            case SSL_ERROR_WANT_READ: .needs(.readable)
            case SSL_ERROR_WANT_WRITE: .needs(.writable)
            case SSL_ERROR_ZERO_RETURN: .end
            default: .broken(code)
            }
    }
}

extension SessionError {
    /// The error for a proxy that sends bytes behind its response to CONNECT, where the client speaks first.
    static func earlyBytes(of endpoint: Endpoint) -> SessionError {
        noTunnel(to: endpoint, "it sent bytes behind its response, before anything was sent to the origin")
    }

    /// The error for a proxy that makes no tunnel.
    fileprivate static func noTunnel(to endpoint: Endpoint, _ why: String, _ remedy: String = "") -> SessionError {
        let origin = endpoint.authorityText
        let proxy = endpoint.proxy.map { $0.authorityText } ?? ""
        let details = "The upstream proxy \(proxy) makes no tunnel to \(origin): \(why).\(remedy)"
        return SessionError(.proxyRefused, details)
    }
}

/// Opens a tunnel through an HTTP proxy, on a connected socket: to an HTTPS proxy a TLS handshake under the policy for it, then
/// CONNECT (RFC 9110, section 9.3.6).
///
/// The head of the response to CONNECT is taken to its last byte and no further: what comes behind it belongs to the tunnel, and
/// the body of a refusal is not read.
final class ProxyTunnel: EventHandler {
    enum Outcome {
        /// With TLS to the proxy, if it is an HTTPS proxy.
        case open(ProxyLink?)
        case failed(SessionError)
    }

    /// When TLS to the proxy began and ended, in nanoseconds of the loop's clock; nil before.
    private(set) var handshakeStart: UInt64?
    private(set) var handshakeEnd: UInt64?
    /// The facts about the connection to the proxy.
    private(set) var info: ProxyConnectionInfo?

    private let endpoint: Endpoint
    /// An HTTPS proxy; nil for one without TLS.
    private let proxy: Endpoint?
    private let descriptor: Int32
    private let loop: EventLoop
    private let makeNote: (TrustEvaluation) -> [UInt8]
    private let didEvaluate: (ConnectionTrust) -> Void
    private let didEnd: (Outcome) -> Void
    private var handshake: TLSClientHandshake?
    /// TLS to the proxy after its handshake. nil when there is a link, which owns it then.
    private var ssl: OpaquePointer?
    private var verification: TLSVerification?
    private var link: ProxyLink?
    private var request = ByteBuffer()
    private var reader: HTTP1ResponseReader
    /// A part of the response's head.
    private var held = ByteBuffer()
    private var informationalCount = 0
    private var hasReceived = false
    private var isOver = false

    private static let informationalLimit = 10

    /// - Parameters:
    ///   - endpoint: where the tunnel leads; its `proxy` is an HTTP proxy.
    ///   - descriptor: a socket connected to the proxy, which stays the caller's.
    ///   - makeNote: makes `ProxyConnectionInfo.note`.
    ///   - didEvaluate: gets the verdict on an HTTPS proxy, accepted or not.
    ///   - didEnd: called once, not from within `start`.
    init(
        to endpoint: Endpoint,
        on descriptor: Int32,
        limits: HeadLimits,
        loop: EventLoop,
        makeNote: @escaping (TrustEvaluation) -> [UInt8],
        didEvaluate: @escaping (ConnectionTrust) -> Void,
        didEnd: @escaping (Outcome) -> Void
    ) {
        self.endpoint = endpoint
        proxy = endpoint.proxyEndpoint
        self.descriptor = descriptor
        self.loop = loop
        self.makeNote = makeNote
        self.didEvaluate = didEvaluate
        self.didEnd = didEnd
        reader = HTTP1ResponseReader(limits: limits)
    }

    deinit { _ = cancel() }

    /// Begins.
    func start(_ context: TLSClientContext) throws(SessionError) {
        do {
            if let proxy {
                try shakeHands(with: proxy, context)
            } else {
                writeRequest()
                try loop.register(descriptor, .writable, self)
            }
        } catch let error as SessionError {
            throw error
        } catch {
            throw SessionError(.internal, "The socket cannot be waited for: \(error).")
        }
    }

    /// Whether the proxy has sent anything; over TLS, also whether it has ended the connection.
    var hasHeard: Bool { hasReceived || handshakeEnd != nil || handshake?.hasHeard == true }

    /// Gives the tunnel up; nothing is called any more.
    ///
    /// - Returns: whether the socket stays the caller's. Otherwise a step of the handshake has it, and closes it at its end.
    func cancel() -> Bool { isOver || detach() }

    /// Waits for the socket no longer, and frees a TLS whose proxy was not accepted.
    private func detach() -> Bool {
        isOver = true
        let isOwner = handshake?.abandon(nil) ?? true
        handshake = nil
        loop.unregister(descriptor, of: self)
        if let ssl { SSL_free(ssl) }
        ssl = nil
        link = nil
        return isOwner
    }

    override func ready(_ readiness: Readiness) {
        loop.noteWork(.dial)
        exchange()
    }

    // MARK: TLS

    private func shakeHands(with proxy: Endpoint, _ context: TLSClientContext) throws {
        handshakeStart = loop.freshNow
        // A client certificate for the proxy is that of its pin file.
        let (ssl, verification) = try context.makeConnection(
            to: proxy,
            through: .socket(descriptor),
            offering: [.http1]
        ) { .none }
        self.verification = verification
        let handshake = TLSClientHandshake(
            ssl,
            on: descriptor,
            loop: loop,
            threads: context.threads,
            party: proxy.party,
            decision: HandshakeDecision(),
            decide: { .none },
            didEnd: { [unowned self] in handshakeDidEnd(ssl, $0) }
        )
        self.handshake = handshake
        try handshake.start()
    }

    private func handshakeDidEnd(_ ssl: OpaquePointer, _ outcome: TLSClientHandshake.Outcome) {
        handshake = nil
        switch outcome {
        case .complete:
            self.ssl = ssl
            conclude(ssl)
        case .failed(let fault):
            handshakeDidFail(fault)
        }
    }

    private func conclude(_ ssl: OpaquePointer) {
        handshakeEnd = loop.freshNow
        guard let trust = TLSVerification.evaluation(of: ssl) else {
            return end(.failed(SessionError(.proxyUntrusted, "\(subject) was never evaluated by the security policy.")))
        }
        info = ProxyConnectionInfo(
            authority: authority,
            tlsVersion: ShortName(cString: SSL_get_version(ssl)),
            cipher: ShortName(cString: SSL_CIPHER_get_name(SSL_get_current_cipher(ssl))),
            tlsGroup: trust.tlsGroup,
            evaluation: trust.evaluation,
            note: makeNote(trust.evaluation)
        )
        didEvaluate(trust)
        guard !isOver else { return }
        guard let proxy, let link = ProxyLink(trust, to: proxy, at: loop.freshWallClock / 1_000_000, ssl) else {
            let words = "\(subject) is not trusted: the verdict on it does not hold any more."
            return end(.failed(SessionError(.proxyUntrusted, words, evaluation: trust.evaluation)))
        }
        self.ssl = nil
        self.link = link
        writeRequest()
        do {
            try loop.register(descriptor, .writable, self)
        } catch {
            end(.failed(SessionError(.internal, "The socket cannot be waited for: \(error).")))
        }
    }

    private func handshakeDidFail(_ fault: TLSFault) {
        handshakeEnd = loop.freshNow
        let trust = verification?.lastTrust
        if let trust {
            // An accepted chain proves nothing without the proxy's proof of its key, which would have come next.
            let refused = trust.evaluation.isAccepted ? nil : trust.evaluation
            info = ProxyConnectionInfo(
                authority: authority,
                tlsVersion: trust.tlsVersion.map { ShortName(Array($0.utf8)) },
                cipher: trust.cipher.map { ShortName(Array($0.utf8)) },
                tlsGroup: trust.tlsGroup,
                evaluation: refused,
                note: refused.map { makeNote($0) } ?? []
            )
            didEvaluate(trust)
        }
        guard let proxy, !isOver else { return }
        let failure = HandshakeFailure(
            endpoint: proxy,
            evaluation: trust?.evaluation,
            isChainSeen: verification?.hasSeenChain ?? false,
            isClientCertificateMissing: verification?.isClientCertificateMissing ?? false,
            refusal: ClientCertificateRefusal(fault.alert, verification),
            fault: fault
        )
        end(.failed(failure.proxyError))
    }

    // MARK: CONNECT

    private func writeRequest() {
        let (host, port) = endpoint.resolve ?? (endpoint.host, endpoint.port)
        let authority = host.authorityText(port: port)
        request.append(text: "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n")
        if let line = endpoint.proxy?.authorizationLine { request.append(line.span) }
        request.append("\r\n")
        reader.reset(answering: .connect)
    }

    private func exchange() {
        while !request.isEmpty, !isOver {
            guard let count = moved(send()) else { return }
            request.consume(count)
            if request.isEmpty { request.release() }
        }
        while !isOver {
            let known = held.count
            var transfer = Transfer.end
            let new = held.write(upTo: 4096) { room in
                transfer = receive(room, isPeeking: true)
                return transfer.count
            }
            guard moved(transfer) != nil else { return }
            hasReceived = true
            consume(known: known, new: new)
        }
    }

    /// - Returns: nil when nothing was moved: the socket is waited for, or the tunnel has failed.
    private func moved(_ transfer: Transfer) -> Int? {
        switch transfer {
        case .bytes(let count): return count
        case .needs(let readiness): loop.modify(descriptor, readiness)
        case .end: fail("it ended the connection without a response")
        case .broken(let code):
            let fault = TLSFault(draining: code)
            let refusal = ClientCertificateRefusal(fault.alert, verification).map { " That is, \($0.words)" }
            let isAsked = verification?.isClientCertificateMissing ?? false
            let remedy = refusal ?? (isAsked ? HandshakeFailure.missingIdentity : "")
            fail("it broke off the connection: \(fault.words)", remedy)
        }
        return nil
    }

    /// Takes those of the bytes that belong to the response.
    ///
    /// - Parameters:
    ///   - known: the number of bytes in `held` that were taken before.
    ///   - new: the number of those that were only looked at.
    private func consume(known: Int, new: Int) {
        switch reader.next(held.bytes) {
        case .needMore(let consumed):
            take(new)
            held.consume(consumed)
        case .informational(let consumed):
            take(consumed - known)
            held.removeAll()
            informationalCount += 1
            if informationalCount > Self.informationalLimit { fail("it sends informational responses without an end") }
        case .head(let consumed):
            take(consumed - known)
            held.release()
            conclude(reader.head.status)
        case .failed(let why): fail("its response is invalid (\(why.replacing("origin", with: "proxy")))")
        case .data, .end: fail("its response is invalid")
        }
    }

    private func take(_ count: Int) {
        var left = count
        withUnsafeTemporaryAllocation(byteCount: max(count, 1), alignment: 1) { room in
            while left > 0 {
                let count = receive(UnsafeMutableRawBufferPointer(rebasing: room[..<left]), isPeeking: false).count
                guard count > 0 else { return fail("its bytes could not be read") }
                left -= count
            }
        }
    }

    private func conclude(_ status: Int) {
        guard !isOver else { return }
        guard 200..<300 ~= status else {
            let remedy = status == 407 ? " It wants credentials, or others than it was given." : ""
            return fail("it responds with \(status)", remedy)
        }
        // A TLS server has nothing to say before the client does.
        guard endpoint.scheme == .http || !hasEarlyBytes else { return end(.failed(.earlyBytes(of: endpoint))) }
        end(.open(link))
    }

    /// Whether bytes have come behind the response, in one piece with it or not. They stay where they are.
    private var hasEarlyBytes: Bool {
        // Whatever else OpenSSL says, the handshake with the origin will say once more.
        defer { pinproxy_clear_errors() }
        var byte: UInt8 = 0
        return withUnsafeMutableBytes(of: &byte) { receive($0, isPeeking: true).count > 0 }
    }

    // MARK: Bytes, over TLS or the socket

    private func send() -> Transfer {
        request.withUnsafeBytes { bytes in
            errno = 0
            guard let link else {
                let result = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
                return Transfer(result, errno, awaiting: .writable)
            }
            pinproxy_clear_errors()
            return Transfer(SSL_write(link.ssl, bytes.baseAddress, Int32(bytes.count)), of: link.ssl)
        }
    }

    private func receive(_ room: UnsafeMutableRawBufferPointer, isPeeking: Bool) -> Transfer {
        errno = 0
        guard let link else {
            let flags = Int32(isPeeking ? MSG_PEEK | MSG_DONTWAIT : MSG_DONTWAIT)
            return Transfer(recv(descriptor, room.baseAddress, room.count, flags), errno, awaiting: .readable)
        }
        pinproxy_clear_errors()
        let (base, count) = (room.baseAddress, Int32(room.count))
        return Transfer(isPeeking ? SSL_peek(link.ssl, base, count) : SSL_read(link.ssl, base, count), of: link.ssl)
    }

    // MARK: The end

    private func fail(_ why: String, _ remedy: String = "") {
        end(.failed(.noTunnel(to: endpoint, why, remedy)))
    }

    private func end(_ outcome: Outcome) {
        guard !isOver else { return }
        // No step is on a thread when the tunnel ends by itself.
        _ = detach()
        didEnd(outcome)
    }

    private var authority: String { endpoint.proxy.map { $0.authorityText } ?? "" }
    private var subject: String { "The upstream proxy \(authority)" }
}
