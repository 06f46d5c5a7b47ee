// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
package import IOCore

/// The server's side of TLS for one connection: owns an `SSL`, and has no socket.
///
/// The caller puts bytes from the client into `incoming` and sends the bytes of `outgoing` to the client. They belong
/// to a socket, or to another TLS session that contains this one. For one thread.
package final class TLSServerSession {
    package enum Progress: Equatable {
        /// The number of plaintext bytes that were read or written.
        case bytes(Int)
        /// More bytes from the client are needed.
        case needsInput
        /// The client has sent close_notify: no more data follows.
        case closed
        /// The client's bytes have ended without close_notify: the data may be incomplete.
        case truncated
        /// A protocol error, or a refusal. `outgoing` may hold an alert for the client.
        case failed(OpenSSLError)
    }

    /// Encrypted bytes from the client; the owner of the connection fills it.
    package var incoming = ByteBuffer()
    /// Encrypted bytes for the client; the owner of the connection empties it.
    package var outgoing = ByteBuffer()
    /// Whether no more bytes will be put into `incoming`.
    package var incomingHasEnded = false

    private let pointer: OpaquePointer
    /// The BIO's callbacks use it.
    private let context: TLSServerContext

    init(_ context: TLSServerContext) throws(OpenSSLError) {
        guard let session = SSL_new(context.pointer) else { throw OpenSSLError(draining: "SSL_new") }
        pointer = session
        self.context = context
        guard let method = SessionBIO.method, let bio = BIO_new(method) else {
            throw OpenSSLError(draining: "BIO_new")
        }
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        BIO_set_init(bio, 1)
        // One BIO with one reference serves both directions.
        SSL_set_bio(session, bio, bio)
        SSL_set_accept_state(session)
    }

    deinit { SSL_free(pointer) }

    // MARK: - Bytes

    /// Whether only the client's Finished is missing, which costs a digest (RFC 8446, section 4.4.4). The steps before it have
    /// signatures, key exchange and certificates, and so do not belong on a loop.
    package var awaitsFinished: Bool {
        !context.asksForCertificate && SSL_version(pointer) == TLS1_3_VERSION
            && SSL_get_state(pointer) == TLS_ST_EARLY_DATA
    }

    /// Continues the handshake: `.bytes(0)` when it is complete.
    package func handshake() -> Progress {
        pinproxy_clear_errors()
        let result = SSL_do_handshake(pointer)
        guard result == 1 else { return progress(result) }
        pinproxy_ssl_end_guard(pointer)
        return .bytes(0)
    }

    /// Whether the handshake is complete, and with it the client's authentication.
    package var isEstablished: Bool { SSL_is_init_finished(pointer) == 1 }

    /// Decrypts up to `limit` bytes to the end of `buffer`, at most one record.
    package func read(into buffer: inout ByteBuffer, upTo limit: Int) -> Progress {
        // OpenSSL would say the same, with a thousand instructions.
        if incoming.isEmpty, !incomingHasEnded, SSL_has_pending(pointer) == 0, SSL_get_shutdown(pointer) == 0 {
            return .needsInput
        }
        pinproxy_clear_errors()
        var result: Int32 = 0
        _ = buffer.write(upTo: limit) { room in
            result = SSL_read(pointer, room.baseAddress, Int32(clamping: room.count))
            return Int(max(result, 0))
        }
        return progress(result)
    }

    /// Encrypts from the front of `buffer` and takes that off it, until `outgoing` has reached `limit`.
    package func write(from buffer: inout ByteBuffer, upTo limit: Int) -> Progress {
        var written = 0
        while !buffer.isEmpty, outgoing.count < limit {
            pinproxy_clear_errors()
            let result = buffer.withUnsafeBytes { SSL_write(pointer, $0.baseAddress, Int32(clamping: $0.count)) }
            guard result > 0 else { return written > 0 ? .bytes(written) : progress(result) }
            buffer.consume(Int(result))
            written += Int(result)
        }
        return .bytes(written)
    }

    /// Encrypts from the front of `bytes`, until `outgoing` has reached `limit`.
    package func write(_ bytes: borrowing Span<UInt8>, upTo limit: Int) -> Progress {
        var written = 0
        while written < bytes.count, outgoing.count < limit {
            pinproxy_clear_errors()
            let result = bytes.extracting(written..<bytes.count).withUnsafeBufferPointer {
                SSL_write(pointer, $0.baseAddress, Int32(clamping: $0.count))
            }
            guard result > 0 else { return written > 0 ? .bytes(written) : progress(result) }
            written += Int(result)
        }
        return .bytes(written)
    }

    /// Sends close_notify: no more data follows. The client may still send.
    package func sendCloseNotify() {
        guard isEstablished else { return }
        pinproxy_clear_errors()
        SSL_shutdown(pointer)
        // It fails on a session that an alert has ended; then no close_notify is needed.
        pinproxy_clear_errors()
    }

    private func progress(_ result: Int32) -> Progress {
        if result > 0 { return .bytes(Int(result)) }
        switch SSL_get_error(pointer, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            return .needsInput
        // Behind too many messages of TLS itself OpenSSL reads nothing, as behind close_notify.
        case SSL_ERROR_ZERO_RETURN where pinproxy_ssl_is_flooded(pointer) == 0:
            return .closed
        default:
            let error = OpenSSLError(draining: isEstablished ? "TLS" : "TLS handshake\(clientRefusal)")
            return incomingHasEnded && incoming.isEmpty ? .truncated : .failed(error)
        }
    }

    /// Why the client's certificate was refused, in OpenSSL's words, which its error queue does not have; empty if it was not.
    private var clientRefusal: String {
        let code = SSL_get_verify_result(pointer)
        guard context.asksForCertificate, code != Int(X509_V_OK) else { return "" }
        return ", client certificate (\(String(cString: X509_verify_cert_error_string(code))))"
    }

    // MARK: - Results of the handshake

    /// The host that the client named (SNI, RFC 6066, section 3); empty before the handshake, and without a name.
    package var serverName: String {
        SSL_get_servername(pointer, TLSEXT_NAMETYPE_host_name).map { String(cString: $0) } ?? ""
    }

    /// `TLSv1.3`
    package var version: String { String(cString: SSL_get_version(pointer)) }

    /// `http/1.1`; empty when the client offered none (RFC 7301).
    package var applicationProtocol: String {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(pointer, &name, &count)
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    /// The client's certificate, whose key it has proved to have; `nil` without one.
    package var clientCertificate: Certificate? {
        guard isEstablished, SSL_get_verify_result(pointer) == Int(X509_V_OK),
            let certificate = SSL_get1_peer_certificate(pointer)
        else { return nil }
        return Certificate(owning: certificate)
    }

    // MARK: - OpenSSL's side

    fileprivate func readIncoming(_ room: UnsafeMutableRawBufferPointer) -> Int {
        let count = incoming.withUnsafeBytes { held in
            let count = min(room.count, held.count)
            if count > 0 { room.copyMemory(from: UnsafeRawBufferPointer(rebasing: held[..<count])) }
            return count
        }
        incoming.consume(count)
        return count
    }

    fileprivate func writeOutgoing(_ bytes: UnsafeRawBufferPointer) { outgoing.append(bytes) }
}

/// A BIO over the buffers of a session (BIO_meth_new(3)): OpenSSL's own memory BIO would keep as much memory as it ever
/// held at once.
private enum SessionBIO {
    /// One for the whole process, never freed. (`nonisolated(unsafe)` is safe here: it is only read after this
    /// initialiser.)
    nonisolated(unsafe) static let method: OpaquePointer? = {
        let number = BIO_get_new_index()
        guard number > 0, let method = BIO_meth_new(number | BIO_TYPE_SOURCE_SINK, "session") else { return nil }
        BIO_meth_set_read(method, readSession)
        BIO_meth_set_write(method, writeSession)
        BIO_meth_set_ctrl(method, controlSession)
        return method
    }()

    static func session(_ bio: OpaquePointer?) -> TLSServerSession? {
        BIO_get_data(bio).map { Unmanaged<TLSServerSession>.fromOpaque($0).takeUnretainedValue() }
    }
}

private func readSession(_ bio: OpaquePointer?, _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int32) -> Int32 {
    guard let bytes, count > 0, let session = SessionBIO.session(bio) else { return 0 }
    BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY)
    let taken = session.readIncoming(UnsafeMutableRawBufferPointer(start: bytes, count: Int(count)))
    if taken > 0 { return Int32(taken) }
    if session.incomingHasEnded { return 0 }
    BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
    return -1
}

private func writeSession(_ bio: OpaquePointer?, _ bytes: UnsafePointer<CChar>?, _ count: Int32) -> Int32 {
    guard let bytes, count > 0, let session = SessionBIO.session(bio) else { return 0 }
    BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY)
    session.writeOutgoing(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
    return count
}

private func controlSession(
    _ bio: OpaquePointer?,
    _ command: Int32,
    _ number: Int,
    _ argument: UnsafeMutableRawPointer?
) -> Int {
    switch command {
    case BIO_CTRL_FLUSH: 1
    case BIO_CTRL_EOF: SessionBIO.session(bio).map { $0.incomingHasEnded && $0.incoming.isEmpty } ?? true ? 1 : 0
    default: 0
    }
}
