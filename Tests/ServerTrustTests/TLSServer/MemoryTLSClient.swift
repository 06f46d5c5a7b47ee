// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import IOCore
import ServerTrust

/// A TLS client in memory for a `TLSServerSession`: each side gets the bytes of the other.
final class MemoryTLSClient {
    let server: TLSServerSession
    private let context: OpaquePointer
    let pointer: OpaquePointer
    private let fromServer: OpaquePointer
    private let toServer: OpaquePointer
    private var alertText = ""

    struct Options {
        var host: String?
        var protocols: [String] = []
        var identity: Identity?
        var greatestVersion: Int32 = TLS1_3_VERSION
        var ciphers: String?
        var groups: String?
        /// Sent behind the certificate of `identity`.
        var intermediates: [Certificate] = []
        /// Verifies the server with these, and `host` with them.
        var anchors: Certificate?
    }

    init(_ serverContext: TLSServerContext, _ options: Options = Options()) throws {
        server = try serverContext.session()
        context = SSL_CTX_new(TLS_client_method())
        SSL_CTX_set_security_level(context, 0)
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(options.greatestVersion), nil)
        if let ciphers = options.ciphers { SSL_CTX_set_cipher_list(context, ciphers) }
        if let groups = options.groups {
            var text = Array(groups.utf8CString)
            SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, &text)
        }
        if let identity = options.identity {
            let certificate = identity.certificate.derBytes
            let key = identity.key.privateKeyDER
            SSL_CTX_use_certificate_ASN1(context, Int32(certificate.count), certificate)
            SSL_CTX_use_PrivateKey_ASN1(EVP_PKEY_EC, context, key, key.count)
            for intermediate in options.intermediates {
                let der = intermediate.derBytes
                let copy = der.withUnsafeBufferPointer { bytes in
                    var place = bytes.baseAddress
                    return d2i_X509(nil, &place, bytes.count)
                }
                // The context takes the reference over (SSL_CTX_add_extra_chain_cert(3)).
                SSL_CTX_ctrl(context, SSL_CTRL_EXTRA_CHAIN_CERT, 0, copy.map { UnsafeMutableRawPointer($0) })
            }
        }
        if let anchors = options.anchors {
            let der = anchors.derBytes
            let certificate = der.withUnsafeBufferPointer { bytes in
                var place = bytes.baseAddress
                return d2i_X509(nil, &place, bytes.count)
            }
            X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate)
            X509_free(certificate)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        }
        pointer = SSL_new(context)
        fromServer = BIO_new(BIO_s_mem())
        toServer = BIO_new(BIO_s_mem())
        SSL_set_bio(pointer, fromServer, toServer)
        if let host = options.host {
            let kind = Int(TLSEXT_NAMETYPE_host_name)
            // OpenSSL makes a copy of it.
            _ = host.withCString {
                SSL_ctrl(pointer, SSL_CTRL_SET_TLSEXT_HOSTNAME, kind, UnsafeMutableRawPointer(mutating: $0))
            }
            if options.anchors != nil { SSL_set1_host(pointer, host) }
        }
        let names = options.protocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        if !names.isEmpty { SSL_set_alpn_protos(pointer, names, UInt32(names.count)) }
        SSL_set_connect_state(pointer)
    }

    /// Runs both sides until neither has bytes to send.
    ///
    /// - Returns: the final progress of the server's side.
    @discardableResult
    func shakeHands() -> TLSServerSession.Progress {
        var progress = TLSServerSession.Progress.needsInput
        for _ in 0..<20 {
            ERR_clear_error()
            if SSL_do_handshake(pointer) != 1 { note() }
            carryToServer()
            if !server.isEstablished, case .needsInput = progress { progress = server.handshake() }
            carryToClient()
        }
        return progress
    }

    private func note() {
        let error = OpenSSLError(draining: "SSL_do_handshake")
        if !error.entries.isEmpty { alertText = error.description }
    }

    var isConnected: Bool { SSL_is_init_finished(pointer) == 1 }

    func carryToServer() {
        while BIO_ctrl_pending(toServer) > 0 {
            _ = server.incoming.write(upTo: 4096) { Int(max(0, BIO_read(toServer, $0.baseAddress, 4096))) }
        }
    }

    func carryToClient() {
        server.outgoing.withUnsafeBytes { _ = BIO_write(fromServer, $0.baseAddress, Int32($0.count)) }
        server.outgoing.consume(server.outgoing.count)
    }

    func send(_ text: String) { send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) {
        SSL_write(pointer, bytes, Int32(bytes.count))
        carryToServer()
    }

    /// The client's bytes, which are not passed to the server.
    func takenFromClient() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(BIO_ctrl_pending(toServer)))
        BIO_read(toServer, &bytes, Int32(bytes.count))
        return bytes
    }

    /// Gives the client bytes from another source.
    func give(_ bytes: [UInt8]) { BIO_write(fromServer, bytes, Int32(bytes.count)) }

    /// The bytes that the client can read now, at most `limit`.
    func received(limit: Int = 1 << 20) -> [UInt8] {
        carryToClient()
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < limit {
            let count = SSL_read(pointer, &chunk, Int32(chunk.count))
            guard count > 0 else { break }
            bytes += chunk[..<Int(count)]
        }
        return bytes
    }

    /// The alert that has ended the client's side, as OpenSSL's text; empty without one.
    func alert() -> String {
        if !alertText.isEmpty { return alertText }
        carryToClient()
        ERR_clear_error()
        var byte: UInt8 = 0
        SSL_read(pointer, &byte, 1)
        return OpenSSLError(draining: "SSL_read").description
    }

    deinit {
        SSL_free(pointer)
        SSL_CTX_free(context)
    }
}
