import COpenSSL
import CShims
import Glibc
import IOCore

/// The connection of a stream, which libcurl has made and keeps as one in use: read, written and ended without libcurl,
/// whose own calls look through all connections of the pool for each piece of bytes.
///
/// The socket, and the `SSL` on it, stay libcurl's: `detach` comes before the transfer goes back to it.
final class StreamConnection: EventHandler {
    enum Reading {
        case bytes(Int)
        case wouldBlock
        /// The peer has said all, and that is sure: a FIN without TLS, close_notify with it.
        case end
        /// Words for people.
        case broken(String)
    }

    enum Writing {
        case bytes(Int)
        case wouldBlock
        case broken(String)
    }

    private let descriptor: Int32
    private let ssl: OpaquePointer?
    private let record: ConnectionRecord?
    private let loop: EventLoop
    private unowned let owner: LoopStreamTask
    private var isRegistered = false
    /// OpenSSL has to write before it can read on, or the other way round (SSL_get_error(3)).
    private var readingAwaitsRoom = false
    private var writingAwaitsBytes = false

    /// - Parameters:
    ///   - descriptor: connected and non-blocking, and no longer registered at the loop.
    ///   - tls: the connection's `SSL` with its record; nil without TLS.
    init?(
        descriptor: Int32,
        tls: (ssl: OpaquePointer, record: ConnectionRecord)?,
        loop: EventLoop,
        owner: LoopStreamTask
    ) {
        if let tls, pinproxy_ssl_adopt_socket(tls.ssl, descriptor) != 1 { return nil }
        self.descriptor = descriptor
        ssl = tls?.ssl
        record = tls?.record
        self.loop = loop
        self.owner = owner
    }

    /// Whether bytes may be there that the socket does not tell of.
    var holdsBytes: Bool { ssl.map { SSL_has_pending($0) == 1 } ?? false }

    /// Whether the end of what the peer sends is told apart from a cut.
    var hasSecureEnd: Bool { ssl != nil }

    /// Whether the peer has ended properly: what a first read through libcurl does not tell.
    var endedCleanly: Bool { record?.receivedCloseNotify ?? true }

    // MARK: Events

    func want(reading: Bool, writing: Bool) {
        var wanted: Readiness = []
        if reading || writing && writingAwaitsBytes { wanted.insert(.readable) }
        if writing || reading && readingAwaitsRoom { wanted.insert(.writable) }
        if isRegistered {
            loop.modify(descriptor, wanted)
        } else if !wanted.isEmpty {
            isRegistered = (try? loop.register(descriptor, wanted, self)) != nil
        }
    }

    /// Hears nothing more: of a connection that has ended while it is not read, epoll would tell again and again.
    func ignoreEvents() {
        guard isRegistered else { return }
        isRegistered = false
        loop.unregister(descriptor)
    }

    override func ready(_ readiness: Readiness) {
        owner.connectionIsReady(isOver: readiness.contains(.failed) || readiness.contains(.hungUp))
    }

    // MARK: Bytes

    /// Reads up to `limit` bytes to the end of `buffer`: as much as there is, or one record.
    func read(into buffer: inout ByteBuffer, upTo limit: Int) -> Reading {
        readingAwaitsRoom = false
        var result = 0
        var code: Int32 = 0
        _ = buffer.write(upTo: limit) { room in
            if let ssl {
                ERR_clear_error()
                errno = 0
                result = Int(SSL_read(ssl, room.baseAddress, Int32(clamping: room.count)))
                code = errno
            } else {
                result = pinproxy_receive(descriptor, room.baseAddress!, room.count)
            }
            return max(result, 0)
        }
        if result > 0 { return .bytes(result) }
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
        case SSL_ERROR_ZERO_RETURN where endedCleanly:
            return .end
        default:
            return .broken(Self.tlsWords(code))
        }
    }

    /// Writes as much as the socket takes; of TLS at most one record.
    func write(_ bytes: borrowing Span<UInt8>) -> Writing {
        writingAwaitsBytes = false
        guard let ssl else {
            let result = bytes.withUnsafeBufferPointer { pinproxy_send(descriptor, $0.baseAddress!, $0.count) }
            if result >= 0 { return .bytes(result) }
            return result == -Int(EAGAIN) ? .wouldBlock : .broken(Self.words(Int32(-result)))
        }
        ERR_clear_error()
        errno = 0
        let result = bytes.withUnsafeBufferPointer { SSL_write(ssl, $0.baseAddress, Int32(clamping: $0.count)) }
        let code = errno
        return result > 0 ? .bytes(Int(result)) : unwritten(ssl, result, code)
    }

    /// Says that nothing more will be written: with a FIN, or with close_notify, after which TLS lets the other side go
    /// on (RFC 8446, section 6.1; many a TLS 1.2 peer ends then).
    func closeWrite() -> Writing {
        writingAwaitsBytes = false
        guard let ssl else {
            return shutdown(descriptor, Int32(SHUT_WR)) == 0 ? .bytes(0) : .broken(Self.words(errno))
        }
        ERR_clear_error()
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
            return .broken(Self.tlsWords(code))
        }
    }

    // MARK: The end

    /// Leaves the connection to libcurl, which closes it.
    ///
    /// - Parameter isWhole: both sides have said all. Otherwise the peer must not take what it has for the whole: it
    ///   gets a reset, and no close_notify.
    func detach(isWhole: Bool) {
        ignoreEvents()
        guard !isWhole else { return }
        if let ssl { SSL_set_quiet_shutdown(ssl, 1) }
        var setting = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<linger>.size))
    }

    private static func words(_ code: Int32) -> String { String(cString: strerror(code)) }

    private static func tlsWords(_ code: Int32) -> String {
        let error = ERR_get_error()
        ERR_clear_error()
        // Of SSL_R_UNEXPECTED_EOF_WHILE_READING OpenSSL's words are "unexpected eof while reading".
        if let reason = ERR_reason_error_string(error) { return String(cString: reason) }
        return code == 0 ? "the connection ended without close_notify" : words(code)
    }
}
