// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
import IOCore
import ServerTrust

/// The code that uses a connection at the moment. A class to inherit from.
class ConnectionUser {
    /// The socket is ready for something that was wanted, or is over.
    ///
    /// - Parameter isOver: the peer has reset the connection, or both directions have ended.
    func connectionIsReady(isOver: Bool) {}
}

/// A connection to an origin whose verdict is known: the only thing on which the engine sends bytes of a request.
///
/// Over TLS it is made from a handshake that the endpoint's security policy has accepted. Without TLS it is made from a permission
/// that only an endpoint with the scheme `http` has. It owns the socket and the `SSL`, and closes both. Behind an HTTPS proxy
/// there is a second `SSL`, whose verdict ages like the origin's.
final class VerifiedConnection: EventHandler {
    enum Reading {
        case bytes(Int)
        case wouldBlock
        /// The peer has ended, and this is certain: a FIN without TLS, close_notify with it.
        case end
        /// Words for people.
        case broken(String)
    }

    enum Writing {
        case bytes(Int)
        case wouldBlock
        case broken(String)
    }

    let endpoint: Endpoint
    let info: ConnectionInfo
    /// The verdict; nil without TLS.
    let trust: ConnectionTrust?
    /// The protocol that the server has chosen in the handshake (ALPN).
    let applicationProtocol: ApplicationProtocol?
    /// When the connection was made, in nanoseconds of the loop's clock.
    let madeAt: UInt64
    /// The times of dial and handshake, in microseconds from the attempt's start.
    let times: ConnectionTimes
    /// It clears this when it goes.
    unowned(unsafe) var user: ConnectionUser?
    /// Whether the connection has carried a request.
    var isUsed = false
    /// The server has ended the connection because of the client's certificate. Where nothing else has come from it, it has
    /// processed no request.
    private(set) var certificateRefusal: ClientCertificateRefusal?

    /// The verdict is one on `endpoint`, under its policy, anchors and generation.
    private let isVerdictOnEndpoint: Bool
    private let loop: EventLoop
    private let descriptor: Int32
    /// The TLS that bytes are read from and written to: the origin's, or the proxy's where only that has TLS; nil without TLS.
    private let ssl: OpaquePointer?
    /// TLS to the proxy.
    private var link: ProxyLink?
    /// The proxy's `SSL` below the origin's; nil where there is one alone.
    private let outer: OpaquePointer?
    /// Held as long as the socket is, where connections are noted.
    var noted: OwnConnections.Note?
    private var isRegistered = false
    private var isClosed = false
    /// OpenSSL has to write before it can read on, or the reverse (SSL_get_error(3)).
    private var readingAwaitsRoom = false
    private var writingAwaitsBytes = false
    /// OpenSSL has held no bytes since the last reading: it need not be asked again.
    private var isDrained = false

    /// Takes over the socket and the `SSL` of a handshake that the policy has accepted.
    init(_ handshake: consuming AcceptedHandshake, madeAt: UInt64, loop: EventLoop) {
        endpoint = handshake.endpoint
        info = handshake.info
        trust = handshake.trust
        isVerdictOnEndpoint = handshake.trust?.isOn(handshake.endpoint) ?? false
        times = handshake.times
        applicationProtocol = handshake.applicationProtocol
        descriptor = handshake.descriptor
        link = handshake.link
        ssl = handshake.ssl ?? handshake.link?.ssl
        outer = handshake.ssl == nil ? nil : handshake.link?.ssl
        self.madeAt = madeAt
        self.loop = loop
    }

    deinit { close(isWhole: false) }

    // MARK: Verdict

    /// Whether a further request for this endpoint may go out on the connection now: the verdict is one on the same host
    /// under the same policy and generation, it still holds, that on an HTTPS proxy too, and the connection is not too old.
    ///
    /// - Parameter lifetime: in nanoseconds.
    func mayCarry(_ endpoint: Endpoint, lifetime: UInt64) -> Bool {
        guard !isClosed, loop.now &- madeAt <= lifetime, self.endpoint.isSamePlace(as: endpoint) else { return false }
        let now = loop.wallClock / 1_000_000
        if endpoint.proxyEndpoint != nil, link?.mayCarry(endpoint, at: now) != true { return false }
        guard endpoint.scheme == .https else { return true }
        // What the verdict is on does not change, nor does an endpoint: for the connection's own one time alone counts.
        if isVerdictOnEndpoint, endpoint === self.endpoint { return trust?.evaluation.isStillGood(at: now) ?? false }
        return trust?.holds(for: endpoint, at: now) ?? false
    }

    /// Whether the connection is young enough for a further request.
    func isYoung(lifetime: UInt64) -> Bool { loop.now &- madeAt <= lifetime }

    // MARK: Events

    /// Waits for what the user needs; for nothing when both are false.
    func want(reading: Bool, writing: Bool) {
        guard !isClosed else { return }
        var wanted: Readiness = []
        if reading || writing && writingAwaitsBytes { wanted.insert(.readable) }
        if writing || reading && readingAwaitsRoom { wanted.insert(.writable) }
        if wanted.isEmpty {
            // epoll reports the end of a connection without being asked, again and again.
            guard isRegistered else { return }
            isRegistered = false
            loop.unregister(descriptor)
        } else if isRegistered {
            loop.modify(descriptor, wanted)
        } else {
            isRegistered = (try? loop.register(descriptor, wanted, self)) != nil
        }
    }

    override func ready(_ readiness: Readiness) {
        user?.connectionIsReady(isOver: readiness.contains(.failed) || readiness.contains(.hungUp))
    }

    // MARK: Bytes

    /// Whether OpenSSL may hold bytes that the socket does not report.
    @inline(__always)
    var hasBufferedBytes: Bool {
        if isDrained { return false }
        guard let ssl else { return false }
        isDrained = SSL_has_pending(ssl) != 1 && outer.map { SSL_has_pending($0) != 1 } ?? true
        return !isDrained
    }

    /// Whether a proxy has sent bytes behind its response to CONNECT, on a connection to an origin without TLS that has carried
    /// nothing.
    var hasEarlyBytes: Bool {
        guard endpoint.hasHTTPProxy, !endpoint.isForwarded, trust == nil, !isUsed else { return false }
        if ssl != nil { return hasBufferedBytes && hasSomethingToRead() }
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0
    }

    /// Whether the server has asked for another handshake, which was not made.
    var hasDeclinedRenegotiation: Bool {
        guard !isClosed, let ssl else { return false }
        return pinproxy_ssl_has_declined_renegotiation(ssl) == 1
    }

    /// Whether the system has sent bytes again and again without any acknowledgement (TCP_INFO, tcp(7)): the way to the peer is
    /// cut, or its machine stands still. A peer that merely takes nothing acknowledges.
    var isUnacknowledged: Bool {
        guard !isClosed else { return false }
        var info = tcp_info()
        var length = socklen_t(MemoryLayout<tcp_info>.size)
        guard getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_INFO, &info, &length) == 0 else { return false }
        return info.tcpi_unacked > 0 && info.tcpi_retransmits >= 2
    }

    /// Whether the peer's end can be told from a cut.
    var hasSecureEnd: Bool { ssl != nil }

    /// Reads up to `limit` bytes to the end of `buffer`: as much as there is, or one TLS record.
    @inline(__always)
    func read(into buffer: inout ByteBuffer, upTo limit: Int) -> Reading {
        readingAwaitsRoom = false
        var result = 0
        var code: Int32 = 0
        _ = buffer.write(upTo: limit) { room in
            if let ssl {
                isDrained = false
                pinproxy_clear_errors()
                errno = 0
                result = Int(SSL_read(ssl, room.baseAddress, Int32(clamping: room.count)))
                code = errno
            } else {
                result = pinproxy_receive(descriptor, room.baseAddress!, room.count)
            }
            return max(result, 0)
        }
        return result > 0 ? .bytes(result) : unread(result, code)
    }

    /// Reads several TLS records to the end of `buffer`, since each comes by itself.
    ///
    /// - Parameter room: the largest number of bytes, at least one; it shrinks by what was read. A record of a few bytes counts like
    ///   one of 512, since it costs as much.
    func fill(_ buffer: inout ByteBuffer, _ room: inout Int) -> Reading {
        while true {
            let reading = read(into: &buffer, upTo: room)
            guard case .bytes(let count) = reading else { return reading }
            room -= max(count, Self.leastReading)
            guard room > 0, hasBufferedBytes else { return reading }
        }
    }

    static let leastReading = 512

    /// Whether application bytes or the end have come, without taking them. Session tickets are taken in passing.
    func hasSomethingToRead() -> Bool {
        guard !isClosed else { return true }
        var byte: UInt8 = 0
        if !hasBufferedBytes {
            let count = recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
            if count < 0, errno == EAGAIN || errno == EWOULDBLOCK { return false }
        }
        guard let ssl else { return true }
        isDrained = false
        pinproxy_clear_errors()
        errno = 0
        let result = SSL_peek(ssl, &byte, 1)
        if result > 0 { return true }
        if case .wouldBlock = unread(Int(result), errno) { return readingAwaitsRoom }
        return true
    }

    @inline(never)
    private func unread(_ result: Int, _ code: Int32) -> Reading {
        guard let ssl else {
            if result == 0 { return .end }
            return result == -Int(EAGAIN) ? .wouldBlock : .broken(Self.words(Int32(-result)))
        }
        switch SSL_get_error(ssl, Int32(result)) {
        case SSL_ERROR_WANT_READ:
            return .wouldBlock
        case SSL_ERROR_WANT_WRITE:
            readingAwaitsRoom = true
            return .wouldBlock
        case SSL_ERROR_ZERO_RETURN where !isFlooded(ssl):
            return .end
        default:
            return .broken(words(ssl, code))
        }
    }

    /// Whether the peer has sent more messages of TLS itself than one may. OpenSSL then reads nothing, as behind close_notify.
    private func isFlooded(_ ssl: OpaquePointer) -> Bool {
        pinproxy_ssl_is_flooded(ssl) == 1 || outer.map { pinproxy_ssl_is_flooded($0) == 1 } ?? false
    }

    private func words(_ ssl: OpaquePointer, _ code: Int32) -> String {
        if isFlooded(ssl) {
            return "it sends messages of TLS without end: session tickets, changes of keys, or requests to renegotiate"
        }
        let fault = TLSFault(draining: code)
        // The alert may also be one of a proxy, which this `SSL` has not received.
        if trust != nil, SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0 {
            certificateRefusal = certificateRefusal ?? ClientCertificateRefusal(fault.alert, TLSVerification.of(ssl))
        }
        return fault.words
    }

    /// Writes as much as the socket takes; of TLS at most one record.
    func write(_ bytes: borrowing Span<UInt8>) -> Writing {
        writingAwaitsBytes = false
        guard let ssl else {
            let result = bytes.withUnsafeBufferPointer { pinproxy_send(descriptor, $0.baseAddress!, $0.count) }
            if result >= 0 { return .bytes(result) }
            return result == -Int(EAGAIN) ? .wouldBlock : .broken(Self.words(Int32(-result)))
        }
        // A write finishes a handshake that is half way, as a message behind it may be, and reads for that.
        if isDrained, outer != nil || SSL_is_init_finished(ssl) != 1 { isDrained = false }
        pinproxy_clear_errors()
        errno = 0
        let result = bytes.withUnsafeBufferPointer { SSL_write(ssl, $0.baseAddress, Int32(clamping: $0.count)) }
        let code = errno
        return result > 0 ? .bytes(Int(result)) : unwritten(ssl, result, code)
    }

    /// Says that nothing more will be written: a FIN, or close_notify, after which TLS lets the peer go on (RFC 8446,
    /// section 6.1; many a TLS 1.2 peer ends then).
    func closeWrite() -> Writing {
        writingAwaitsBytes = false
        guard let ssl else {
            return shutdown(descriptor, Int32(SHUT_WR)) == 0 ? .bytes(0) : .broken(Self.words(errno))
        }
        isDrained = false
        pinproxy_clear_errors()
        errno = 0
        let result = SSL_shutdown(ssl)
        let code = errno
        return result >= 0 ? .bytes(0) : unwritten(ssl, result, code)
    }

    private func unwritten(_ ssl: OpaquePointer, _ result: Int32, _ code: Int32) -> Writing {
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_WRITE:
            return .wouldBlock
        case SSL_ERROR_WANT_READ:
            writingAwaitsBytes = true
            return .wouldBlock
        default:
            return .broken(words(ssl, code))
        }
    }

    // MARK: The end

    /// Closes the connection.
    ///
    /// - Parameter isWhole: both sides have ended, or nothing is under way: the peer is told by close_notify. Otherwise the peer
    ///   must not take what it has for the whole: it gets a reset, and no close_notify.
    func close(isWhole: Bool) {
        guard !isClosed else { return }
        isClosed = true
        if isRegistered { loop.unregister(descriptor, of: self) }
        if isWhole {
            for ssl in [ssl, outer] {
                guard let ssl else { continue }
                pinproxy_clear_errors()
                if SSL_is_init_finished(ssl) == 1 { SSL_shutdown(ssl) }
                pinproxy_clear_errors()
            }
        }
        // The link owns the proxy's, which is the only one where the origin has none, and goes behind the origin's.
        if let ssl, link == nil || outer != nil { SSL_free(ssl) }
        link = nil
        if !isWhole {
            var setting = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<linger>.size))
        }
        // Before its port is free for another connection, of this process or of a client.
        if noted != nil { noted = nil }
        Glibc.close(descriptor)
    }

    private static func words(_ code: Int32) -> String { String(cString: strerror(code)) }
}
