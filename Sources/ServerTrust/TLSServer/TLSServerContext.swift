// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
package import HTTPCore
import IOCore

/// The server's side of TLS under one identity: owns an `SSL_CTX`.
///
/// TLS 1.2 and 1.3, with forward secrecy and authenticated encryption only; no renegotiation, no compression, and a
/// full handshake for each connection: changes by a reload (certificate, client authorities) hold for every new
/// connection.
///
/// - Note: `Sendable` because the context is set up in the initialiser and only handed to SSL_new(3) afterwards, which
///   OpenSSL allows from any thread; the callbacks read constants.
package final class TLSServerContext: @unchecked Sendable {
    package struct Settings: Sendable {
        /// The server's application protocols (RFC 7301), the preferred one first. A client that offers only others is
        /// refused.
        package var applicationProtocols = ["http/1.1"]
        /// The authorities for client certificates; empty requests no certificate.
        package var clientAuthorities: [Certificate] = []
        /// Lists of these authorities: a client's certificate without a current list is refused. nil checks none.
        package var revocationLists: RevocationLists?
        /// Whether clients without a certificate are refused, when one is requested.
        package var requiresClientCertificate = true
        /// The only host that clients may name (SNI); `nil` allows any.
        package var host: Host?

        package init() {}
    }

    let pointer: OpaquePointer
    let asksForCertificate: Bool
    private let protocols: UnsafeMutableBufferPointer<UInt8>
    private let hostName: [UInt8]?
    private let revocationLists: RevocationLists?

    package init(_ identity: ServerIdentity, _ settings: Settings = Settings()) throws(OpenSSLError) {
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw OpenSSLError(draining: "SSL_CTX_new") }
        pointer = context
        asksForCertificate = !settings.clientAuthorities.isEmpty
        revocationLists = settings.revocationLists
        // OpenSSL keeps a pointer to them, which is valid as long as the context.
        let names = settings.applicationProtocols.flatMap { [UInt8(clamping: $0.utf8.count)] + Array($0.utf8) }
        protocols = .allocate(capacity: names.count)
        _ = protocols.initialize(from: names)
        hostName = settings.host.flatMap { $0.kind == .name ? Array(copying: $0.bytes.span) : nil }
        try configure(identity)
        try demand(settings)
        let record = Unmanaged.passUnretained(self).toOpaque()
        if !protocols.isEmpty { SSL_CTX_set_alpn_select_cb(context, selectProtocol, record) }
        if hostName != nil {
            guard pinproxy_ssl_ctx_on_server_name(context, checkServerName, record) == 1 else {
                throw OpenSSLError(draining: "SSL_CTX_set_tlsext_servername_callback")
            }
        }
    }

    deinit {
        SSL_CTX_free(pointer)
        protocols.deallocate()
    }

    private func configure(_ identity: ServerIdentity) throws(OpenSSLError) {
        SSL_CTX_set_security_level(pointer, 2)
        pinproxy_ssl_ctx_full_handshakes_only(pointer)
        CertificateMessage.guardHandshakes(of: pointer)
        // TLS 1.3 has other tickets, which the option for TLS 1.2 does not disable.
        guard SSL_CTX_set_num_tickets(pointer, 0) == 1,
            pinproxy_ssl_ctx_set_min_version(pointer, TLS1_2_VERSION) == 1,
            pinproxy_ssl_ctx_set_groups(pointer) == 1,
            SSL_CTX_set_cipher_list(pointer, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1
        else { throw OpenSSLError(draining: "SSL_CTX_set_cipher_list") }
        // The buffer of a partial write may have moved by the next call; an idle session holds no buffers; only the
        // certificates of the identity are sent.
        let modes =
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE) | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
            | Int(SSL_MODE_RELEASE_BUFFERS) | Int(SSL_MODE_NO_AUTO_CHAIN)
        SSL_CTX_ctrl(pointer, SSL_CTRL_MODE, modes, nil)
        let leaf = identity.certificates[0].pointer
        guard SSL_CTX_use_cert_and_key(pointer, leaf, identity.key.pointer, identity.intermediates.pointer, 1) == 1
        else { throw OpenSSLError(draining: "SSL_CTX_use_cert_and_key") }
    }

    private func demand(_ settings: Settings) throws(OpenSSLError) {
        guard !settings.clientAuthorities.isEmpty else { return }
        let anchors = TrustAnchors(certificates: settings.clientAuthorities)
        // OpenSSL takes a reference of its own.
        guard withExtendedLifetime(anchors, { pinproxy_ssl_ctx_verify_with(pointer, anchors.store) }) == 1 else {
            throw OpenSSLError(draining: "SSL_CTX_set1_verify_cert_store")
        }
        for authority in settings.clientAuthorities {
            guard SSL_CTX_add_client_CA(pointer, authority.pointer) == 1 else {
                throw OpenSSLError(draining: "SSL_CTX_add_client_CA")
            }
        }
        let isRequired = settings.requiresClientCertificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | isRequired, nil)
        if revocationLists != nil {
            SSL_CTX_set_cert_verify_callback(pointer, verifyClient, Unmanaged.passUnretained(self).toOpaque())
        }
    }

    /// A session for a connection that has just been accepted.
    package func session() throws(OpenSSLError) -> TLSServerSession { try TLSServerSession(self) }

    // MARK: - Inside the handshake

    fileprivate func select(
        _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
        _ chosenCount: UnsafeMutablePointer<UInt8>?,
        _ offered: UnsafePointer<UInt8>?,
        _ offeredCount: UInt32
    ) -> Bool {
        var cursor: UnsafeMutablePointer<UInt8>?
        let result = SSL_select_next_proto(
            &cursor,
            chosenCount,
            protocols.baseAddress,
            UInt32(protocols.count),
            offered,
            offeredCount
        )
        chosen?.pointee = UnsafePointer(cursor)
        return result == OPENSSL_NPN_NEGOTIATED
    }

    /// Verifies a client's chain as OpenSSL does by itself, and then looks its certificate up in the lists.
    fileprivate func verify(_ context: OpaquePointer) -> Bool {
        guard X509_verify_cert(context) == 1, X509_STORE_CTX_get_error(context) == X509_V_OK else { return false }
        let path = CertificateStack.certificates(in: X509_STORE_CTX_get0_chain(context))
        guard !path.isEmpty, let revocationLists else { return false }
        let check = RevocationCheck(files: revocationLists, scope: .leaf, now: Clock.seconds)
        guard let (code, depth) = check.objection(in: path) else { return true }
        X509_STORE_CTX_set_error_depth(context, Int32(depth))
        X509_STORE_CTX_set_error(context, code)
        return false
    }

    /// A client that sends no name checks the certificate by itself.
    fileprivate func mayServe(_ ssl: OpaquePointer) -> Bool {
        guard let hostName, let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) else { return true }
        return hostName.span.equalsIgnoringCase(Array(String(cString: name).utf8).span)
    }
}

/// OpenSSL calls this instead of X509_verify_cert(3) for a client's chain (SSL_CTX_set_cert_verify_callback(3)).
private func verifyClient(_ context: OpaquePointer?, _ record: UnsafeMutableRawPointer?) -> Int32 {
    guard let context else { return 0 }
    guard let record else {
        X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION)
        return 0
    }
    // The session keeps the context alive while its SSL lives.
    let server = Unmanaged<TLSServerContext>.fromOpaque(record).takeUnretainedValue()
    if OpenSSLError.keepingQueueClean({ server.verify(context) }) { return 1 }
    if X509_STORE_CTX_get_error(context) == X509_V_OK {
        X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION)
    }
    return 0
}

/// Selects a protocol from a client's list (SSL_CTX_set_alpn_select_cb(3)).
private func selectProtocol(
    _ ssl: OpaquePointer?,
    _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ chosenCount: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?,
    _ offeredCount: UInt32,
    _ record: UnsafeMutableRawPointer?
) -> Int32 {
    guard let record else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    // The session keeps the context alive while its SSL lives.
    let context = Unmanaged<TLSServerContext>.fromOpaque(record).takeUnretainedValue()
    let isChosen = context.select(chosen, chosenCount, offered, offeredCount)
    return isChosen ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL
}

/// OpenSSL calls this when the client's server name is known, or known to be missing.
private func checkServerName(
    _ ssl: OpaquePointer?,
    _ alert: UnsafeMutablePointer<Int32>?,
    _ record: UnsafeMutableRawPointer?
) -> Int32 {
    guard let ssl, let record else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    let context = Unmanaged<TLSServerContext>.fromOpaque(record).takeUnretainedValue()
    if context.mayServe(ssl) { return SSL_TLSEXT_ERR_OK }
    alert?.pointee = SSL_AD_UNRECOGNIZED_NAME
    return SSL_TLSEXT_ERR_ALERT_FATAL
}
