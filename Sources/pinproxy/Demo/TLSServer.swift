import COpenSSL
import CShims
import IOCore
import ServerTrust

/// The server's side of TLS with one certificate: owns an `SSL_CTX`.
///
/// `@unchecked Sendable` because the context is set up in the initialiser and only handed to SSL_new(3) afterwards,
/// which OpenSSL allows from any thread.
final class TLSServerContext: @unchecked Sendable {
    private let pointer: OpaquePointer

    init(_ identity: Identity) throws(OpenSSLError) {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw OpenSSLError(draining: "SSL_CTX_new") }
        let certificate = identity.certificate.derBytes
        let key = identity.key.privateKeyDER
        guard SSL_CTX_use_certificate_ASN1(context, Int32(certificate.count), certificate) == 1,
            SSL_CTX_use_PrivateKey_ASN1(EVP_PKEY_EC, context, key, key.count) == 1,
            SSL_CTX_check_private_key(context) == 1,
            pinproxy_ssl_ctx_set_min_version(context, TLS1_2_VERSION) == 1
        else {
            SSL_CTX_free(context)
            throw OpenSSLError(draining: "SSL_CTX_use_PrivateKey_ASN1")
        }
        pinproxy_ssl_ctx_full_handshakes_only(context)
        // What could not be written at once may have moved by the next try.
        _ = SSL_CTX_ctrl(
            context,
            SSL_CTRL_MODE,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE) | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER),
            nil
        )
        pointer = context
    }

    deinit { SSL_CTX_free(pointer) }

    /// A session for a connected, non-blocking socket, which stays the caller's.
    func session(on descriptor: Int32) -> TLSServerSession? {
        guard let session = SSL_new(pointer) else { return nil }
        guard SSL_set_fd(session, descriptor) == 1 else {
            SSL_free(session)
            return nil
        }
        SSL_set_accept_state(session)
        return TLSServerSession(owning: session)
    }
}

/// One connection's TLS: owns an `SSL`. For one thread.
final class TLSServerSession {
    enum Progress: Equatable {
        case bytes(Int)
        case wantsRead
        case wantsWrite
        /// The peer has gone, or broke the protocol.
        case ended
    }

    private let pointer: OpaquePointer

    fileprivate init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { SSL_free(pointer) }

    /// Reads to the end of `buffer`, the handshake first.
    func read(into buffer: inout ByteBuffer) -> Progress {
        ERR_clear_error()
        var result: Int32 = 0
        _ = buffer.write(upTo: 16 << 10) { room in
            result = SSL_read(pointer, room.baseAddress, Int32(room.count))
            return Int(max(result, 0))
        }
        return progress(result)
    }

    /// Writes from the front of `buffer` and takes that off it.
    func write(from buffer: inout ByteBuffer) -> Progress {
        ERR_clear_error()
        let result = buffer.withUnsafeBytes { SSL_write(pointer, $0.baseAddress, Int32(clamping: $0.count)) }
        if result > 0 { buffer.consume(Int(result)) }
        return progress(result)
    }

    private func progress(_ result: Int32) -> Progress {
        if result > 0 { return .bytes(Int(result)) }
        return switch SSL_get_error(pointer, result) {
        case SSL_ERROR_WANT_READ: .wantsRead
        case SSL_ERROR_WANT_WRITE: .wantsWrite
        default: .ended
        }
    }

    /// Says that nothing more follows (close_notify).
    func sendClose() {
        ERR_clear_error()
        _ = SSL_shutdown(pointer)
    }

    /// The host that the client named in its hello (SNI, RFC 6066, section 3); empty before, and when it named none.
    var serverName: String {
        SSL_get_servername(pointer, TLSEXT_NAMETYPE_host_name).map { String(cString: $0) } ?? ""
    }

    /// `TLSv1.3`
    var version: String { String(cString: SSL_get_version(pointer)) }
}
