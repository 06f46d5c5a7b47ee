import COpenSSL
import CShims
import Glibc
import HTTPCore
import IOCore
import ServerTrust

/// TLS to a proxy whose certificate the security policy has accepted. Owns the `SSL`.
///
/// Only `ProxyTunnel` makes one, and only with it can it write: a proxy that is refused gets neither CONNECT nor credentials.
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

/// One step of a client's handshake on a non-blocking socket.
enum HandshakeStep {
    case complete
    case needs(Readiness)
    /// With `errno`; the rest is in OpenSSL's queue.
    case failed(Int32)

    static func next(_ ssl: OpaquePointer) -> HandshakeStep {
        pinproxy_clear_errors()
        errno = 0
        let result = SSL_do_handshake(ssl)
        let code = errno
        guard result != 1 else { return .complete }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .needs(.readable)
        case SSL_ERROR_WANT_WRITE: return .needs(.writable)
        default: return .failed(code)
        }
    }
}

extension SessionError {
    /// The error for a proxy that sends bytes behind its response to CONNECT, where the client speaks first.
    static func earlyBytes(of endpoint: Endpoint) -> SessionError {
        noTunnel(to: endpoint, "it sent bytes behind its response, before anything was sent to the origin")
    }

    /// The error for an HTTPS proxy that makes no tunnel.
    fileprivate static func noTunnel(to endpoint: Endpoint, _ why: String, _ remedy: String = "") -> SessionError {
        let origin = "\(endpoint.host.authorityText):\(endpoint.port)"
        let proxy = endpoint.proxyEndpoint.map { "\($0.host.authorityText):\($0.port)" } ?? ""
        let details = "The session's proxy \(proxy) makes no tunnel to \(origin): \(why).\(remedy)"
        return SessionError(.proxyRefused, details)
    }
}

/// Opens a tunnel through an HTTPS proxy, on a connected socket: a TLS handshake under the policy for the proxy, then CONNECT
/// (RFC 9110, section 9.3.6).
///
/// The response to CONNECT is taken to its last byte and no further: what comes behind it belongs to the tunnel.
final class ProxyTunnel: EventHandler {
    enum Outcome {
        case open(ProxyLink)
        case failed(SessionError)
    }

    /// When TLS to the proxy began and ended, in nanoseconds of the loop's clock; nil before.
    private(set) var handshakeStart: UInt64?
    private(set) var handshakeEnd: UInt64?
    /// The facts about the connection to the proxy.
    private(set) var info: ProxyConnectionInfo?

    private let endpoint: Endpoint
    private let proxy: Endpoint
    private let descriptor: Int32
    private let loop: EventLoop
    private let makeNote: (TrustEvaluation) -> [UInt8]
    private let didEvaluate: (ConnectionTrust) -> Void
    private let didEnd: (Outcome) -> Void
    /// nil when there is a link, which owns it then.
    private var ssl: OpaquePointer?
    private var verification: TLSVerification?
    private var link: ProxyLink?
    private var request = ByteBuffer()
    private var reader: HTTP1ResponseReader
    /// A part of the response's head.
    private var held = ByteBuffer()
    private var informationalCount = 0
    private var isOver = false

    private static let informationalLimit = 10

    /// - Parameters:
    ///   - endpoint: where the tunnel leads; it has a `proxyEndpoint`.
    ///   - descriptor: a socket connected to the proxy, which stays the caller's.
    ///   - makeNote: makes `ProxyConnectionInfo.note`.
    ///   - didEvaluate: gets the verdict on the proxy, accepted or not.
    ///   - didEnd: called once, not from within `start`.
    init(
        to endpoint: Endpoint,
        through proxy: Endpoint,
        on descriptor: Int32,
        limits: HeadLimits,
        loop: EventLoop,
        makeNote: @escaping (TrustEvaluation) -> [UInt8],
        didEvaluate: @escaping (ConnectionTrust) -> Void,
        didEnd: @escaping (Outcome) -> Void
    ) {
        self.endpoint = endpoint
        self.proxy = proxy
        self.descriptor = descriptor
        self.loop = loop
        self.makeNote = makeNote
        self.didEvaluate = didEvaluate
        self.didEnd = didEnd
        reader = HTTP1ResponseReader(limits: limits)
    }

    deinit { cancel() }

    /// Begins.
    func start(_ context: TLSClientContext) throws(SessionError) {
        handshakeStart = loop.freshNow
        // A client certificate for the proxy is that of its pin file.
        let made = try context.makeConnection(to: proxy, through: .socket(descriptor), offering: [.http1]) { .none }
        (ssl, verification) = made
        do {
            try loop.register(descriptor, .writable, self)
        } catch {
            throw SessionError(.internal, "The socket cannot be waited for: \(error).")
        }
    }

    /// Gives the tunnel up; nothing is called any more. The socket stays open.
    func cancel() {
        guard !isOver else { return }
        letGo()
    }

    /// Waits for the socket no longer, and frees a TLS whose proxy was not accepted.
    private func letGo() {
        isOver = true
        loop.unregister(descriptor, of: self)
        if let ssl { SSL_free(ssl) }
        ssl = nil
        link = nil
    }

    override func ready(_ readiness: Readiness) {
        if link == nil { shakeHands() }
        if let link { exchange(link) }
    }

    // MARK: TLS

    private func shakeHands() {
        guard let ssl, !isOver else { return }
        switch HandshakeStep.next(ssl) {
        case .needs(let readiness): loop.modify(descriptor, readiness)
        case .failed(let code): handshakeDidFail(code)
        case .complete: conclude(ssl)
        }
    }

    private func conclude(_ ssl: OpaquePointer) {
        handshakeEnd = loop.freshNow
        guard let trust = TLSVerification.evaluation(of: ssl) else {
            return end(.failed(SessionError(.proxyUntrusted, "\(subject) was never evaluated by the security policy.")))
        }
        info = ProxyConnectionInfo(
            authority: place,
            tlsVersion: ShortName(cString: SSL_get_version(ssl)),
            cipher: ShortName(cString: SSL_CIPHER_get_name(SSL_get_current_cipher(ssl))),
            evaluation: trust.evaluation,
            note: makeNote(trust.evaluation)
        )
        didEvaluate(trust)
        guard !isOver else { return }
        guard let link = ProxyLink(trust, to: proxy, at: loop.freshWallClock / 1_000_000, ssl) else {
            let words = "\(subject) is not trusted: the verdict on it does not hold any more."
            return end(.failed(SessionError(.proxyUntrusted, words, evaluation: trust.evaluation)))
        }
        self.ssl = nil
        self.link = link
        writeRequest()
    }

    private func handshakeDidFail(_ code: Int32) {
        handshakeEnd = loop.freshNow
        let words = TLSWords.drain(code)
        let trust = verification?.lastTrust
        if let trust {
            // An accepted chain proves nothing without the proxy's proof of its key, which would have come next.
            let refused = trust.evaluation.isAccepted ? nil : trust.evaluation
            info = ProxyConnectionInfo(
                authority: place,
                tlsVersion: trust.tlsVersion.map { ShortName(Array($0.utf8)) },
                cipher: trust.cipher.map { ShortName(Array($0.utf8)) },
                evaluation: refused,
                note: refused.map { makeNote($0) } ?? []
            )
            didEvaluate(trust)
        }
        guard !isOver else { return }
        let failure = HandshakeFailure(
            endpoint: proxy,
            evaluation: trust?.evaluation,
            isChainSeen: verification?.hasSeenChain ?? false,
            isClientCertificateMissing: verification?.isClientCertificateMissing ?? false,
            words: words
        )
        end(.failed(failure.proxyError))
    }

    // MARK: CONNECT

    private func writeRequest() {
        let (host, port) = endpoint.resolve ?? (endpoint.host, endpoint.port)
        let place = "\(host.authorityText):\(port)"
        request.append(text: "CONNECT \(place) HTTP/1.1\r\nHost: \(place)\r\n")
        if let line = endpoint.proxy?.authorizationLine { request.append(line.span) }
        request.append("\r\n")
        reader.reset(answering: .connect)
    }

    private func exchange(_ link: ProxyLink) {
        while !request.isEmpty, !isOver {
            pinproxy_clear_errors()
            errno = 0
            let result = request.withUnsafeBytes { SSL_write(link.ssl, $0.baseAddress, Int32($0.count)) }
            let code = errno
            guard result > 0 else { return wait(link, result, code) }
            request.consume(Int(result))
            if request.isEmpty { request.release() }
        }
        while !isOver {
            let known = held.count
            var result: Int32 = 0
            var code: Int32 = 0
            pinproxy_clear_errors()
            errno = 0
            let count = held.write(upTo: 4096) { room in
                result = SSL_peek(link.ssl, room.baseAddress, Int32(room.count))
                code = errno
                return max(Int(result), 0)
            }
            guard result > 0 else { return wait(link, result, code) }
            consume(link, known: known, new: count)
        }
    }

    /// Takes from OpenSSL those of the bytes that belong to the response.
    ///
    /// - Parameters:
    ///   - known: the number of bytes in `held` that were taken before.
    ///   - new: the number of those that OpenSSL still has.
    private func consume(_ link: ProxyLink, known: Int, new: Int) {
        switch reader.next(held.bytes) {
        case .needMore(let consumed):
            take(link, new)
            held.consume(consumed)
        case .informational(let consumed):
            take(link, consumed - known)
            held.removeAll()
            informationalCount += 1
            if informationalCount > Self.informationalLimit { fail("it sends informational responses without an end") }
        case .head(let consumed):
            take(link, consumed - known)
            held.release()
            conclude(link, reader.head.status)
        case .failed(let why): fail("its response is invalid (\(why.replacing("origin", with: "proxy")))")
        case .data, .end: fail("its response is invalid")
        }
    }

    private func take(_ link: ProxyLink, _ count: Int) {
        var left = count
        withUnsafeTemporaryAllocation(byteCount: max(count, 1), alignment: 1) { room in
            while left > 0 {
                let result = SSL_read(link.ssl, room.baseAddress, Int32(left))
                guard result > 0 else { return fail("its bytes could not be read") }
                left -= Int(result)
            }
        }
    }

    private func conclude(_ link: ProxyLink, _ status: Int) {
        guard !isOver else { return }
        guard 200..<300 ~= status else {
            let remedy = status == 407 ? " It wants credentials, or others than it was given." : ""
            return fail("it responds with \(status)", remedy)
        }
        // A TLS server has nothing to say before the client does.
        guard endpoint.scheme == .http || !hasEarlyBytes(link) else { return end(.failed(.earlyBytes(of: endpoint))) }
        end(.open(link))
    }

    /// Whether bytes have come behind the response, in the same TLS record or in another one. They stay where they are.
    private func hasEarlyBytes(_ link: ProxyLink) -> Bool {
        var byte: UInt8 = 0
        pinproxy_clear_errors()
        // Whatever else it says, the handshake with the origin will say once more.
        defer { pinproxy_clear_errors() }
        return SSL_peek(link.ssl, &byte, 1) > 0
    }

    private func wait(_ link: ProxyLink, _ result: Int32, _ code: Int32) {
        switch SSL_get_error(link.ssl, result) {
        case SSL_ERROR_WANT_READ: loop.modify(descriptor, .readable)
        case SSL_ERROR_WANT_WRITE: loop.modify(descriptor, .writable)
        case SSL_ERROR_ZERO_RETURN: fail("it ended the connection without a response")
        default:
            let isAsked = verification?.isClientCertificateMissing ?? false
            let remedy = isAsked ? HandshakeFailure.missingIdentity : ""
            fail("it broke off the connection: \(TLSWords.drain(code))", remedy)
        }
    }

    // MARK: The end

    private func fail(_ why: String, _ remedy: String = "") {
        end(.failed(.noTunnel(to: endpoint, why, remedy)))
    }

    private func end(_ outcome: Outcome) {
        guard !isOver else { return }
        letGo()
        didEnd(outcome)
    }

    private var place: String { "\(proxy.host.authorityText):\(proxy.port)" }
    private var subject: String { "The session's proxy \(place)" }
}
