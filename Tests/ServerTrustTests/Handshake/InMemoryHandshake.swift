// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// A TLS server's side for handshakes in memory.
final class InMemoryServer {
    let context: OpaquePointer
    private let staple: ServedStaple?

    /// - Parameters:
    ///   - version: `TLS1_2_VERSION` or `TLS1_3_VERSION`, the only version that the server supports.
    ///   - staple: an OCSP response (DER) for clients that ask for one.
    ///   - clientAnchors: requests a client certificate and verifies it with these.
    init(
        _ identity: TestServer,
        version: Int32 = TLS1_3_VERSION,
        staple: [UInt8]? = nil,
        clientAnchors: Certificate? = nil
    ) throws {
        let context: OpaquePointer = SSL_CTX_new(TLS_server_method())
        self.context = context
        self.staple = staple.map { ServedStaple($0, on: context) }
        // For weak keys to get as far as the client's judgement.
        SSL_CTX_set_security_level(context, 0)
        pinproxy_ssl_ctx_set_min_version(context, version)
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
        let folder = try TemporaryFolder()
        let files = try identity.write(to: folder, name: "server")
        guard SSL_CTX_use_certificate_chain_file(context, files.certificate) == 1,
            SSL_CTX_use_PrivateKey_file(context, files.key, SSL_FILETYPE_PEM) == 1
        else { throw OpenSSLError(draining: "server identity") }
        if let clientAnchors {
            let path = try folder.write(clientAnchors.pem, as: "anchors.pem")
            SSL_CTX_load_verify_locations(context, path, nil)
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
            SSL_CTX_set_session_id_context(context, [1], 1)
        }
    }

    deinit { SSL_CTX_free(context) }
}

/// A client's `SSL_CTX`.
final class InMemoryClient {
    let context: OpaquePointer
    private var attach: ((OpaquePointer) throws -> TLSVerification)?

    init() { context = SSL_CTX_new(TLS_client_method()) }

    deinit { SSL_CTX_free(context) }

    /// Holds the connections that are made from now on to a policy.
    func hold(
        to policy: SecurityPolicy,
        host: Host,
        anchors: TrustAnchors,
        generation: UInt64 = 7,
        at time: Int64? = nil,
        profile: TLSProfile = .modern
    ) throws {
        try TLSVerification.prepare(context, profile)
        attach = { ssl in
            try TLSVerification.attach(
                to: ssl,
                policy: policy,
                host: host,
                anchors: anchors,
                generation: generation,
                profile: profile,
                at: time,
                identity: nil
            )
        }
    }

    func makeConnection() -> OpaquePointer {
        let ssl: OpaquePointer = SSL_new(context)
        #expect(throws: Never.self) { _ = try attach?(ssl) }
        return ssl
    }
}

/// A real TLS handshake between two ends in memory (BIO pair): OpenSSL's state machines without a socket.
final class InMemoryHandshake {
    let client: OpaquePointer
    private(set) var server: OpaquePointer
    private(set) var clientFinished = false
    private(set) var serverFinished = false
    /// OpenSSL's words for the first failure of the client.
    private(set) var clientError = ""

    /// Runs the handshake as far as possible.
    ///
    /// - Parameter session: the session that the client tries to resume.
    init(_ clientSide: InMemoryClient, _ serverSide: InMemoryServer, resuming session: OpaquePointer? = nil) {
        client = clientSide.makeConnection()
        server = SSL_new(serverSide.context)
        run(resuming: session)
    }

    /// - Parameters:
    ///   - session: the session that the client tries to resume.
    ///   - prepare: gets the client's `SSL` before the handshake.
    init(
        _ clientSide: InMemoryClient,
        _ serverSide: InMemoryServer,
        resuming session: OpaquePointer? = nil,
        prepare: (OpaquePointer) throws -> Void
    ) throws {
        client = clientSide.makeConnection()
        server = SSL_new(serverSide.context)
        try prepare(client)
        run(resuming: session)
    }

    /// Runs the handshake of a connection that was made already, and takes it over.
    init(ofConnection ssl: OpaquePointer, _ serverSide: InMemoryServer) {
        client = ssl
        server = SSL_new(serverSide.context)
        run(resuming: nil)
    }

    /// The client's verification; nil without a policy.
    var verification: TLSVerification? { TLSVerification.of(client) }

    /// Resets the client's `SSL` (SSL_clear(3)) and connects it once more.
    func reconnect(to serverSide: InMemoryServer, resuming session: OpaquePointer?) {
        SSL_free(server)
        server = SSL_new(serverSide.context)
        // As after a proper end: otherwise SSL_clear would invalidate the session.
        SSL_set_shutdown(client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_clear(client)
        (clientFinished, serverFinished) = (false, false)
        run(resuming: session)
    }

    private func run(resuming session: OpaquePointer?) {
        var clientEnd: OpaquePointer?
        var serverEnd: OpaquePointer?
        BIO_new_bio_pair(&clientEnd, 0, &serverEnd, 0)
        SSL_set_bio(client, clientEnd, clientEnd)
        SSL_set_bio(server, serverEnd, serverEnd)
        SSL_set_connect_state(client)
        SSL_set_accept_state(server)
        if let session { SSL_set_session(client, session) }
        for _ in 0..<50 where !(clientFinished && serverFinished) {
            clientFinished = SSL_do_handshake(client) == 1
            if !clientFinished, clientError.isEmpty {
                let error = ERR_get_error()
                if error != 0 { clientError = ERR_reason_error_string(error).map { String(cString: $0) } ?? "\(error)" }
            }
            serverFinished = SSL_do_handshake(server) == 1
        }
        ERR_clear_error()
    }

    deinit {
        SSL_free(client)
        SSL_free(server)
    }

    /// The number of bytes that the server receives when the client tries to send after the handshake.
    func received(sending text: String) -> Int {
        _ = SSL_write(client, text, Int32(text.utf8.count))
        var buffer = [UInt8](repeating: 0, count: 1024)
        let count = SSL_read(server, &buffer, Int32(buffer.count))
        ERR_clear_error()
        return max(0, Int(count))
    }

    /// Lets the client read the messages after a handshake (session tickets of TLS 1.3).
    func readTickets() {
        var buffer = [UInt8](repeating: 0, count: 64)
        SSL_read(client, &buffer, Int32(buffer.count))
        ERR_clear_error()
    }

    var isFinished: Bool { clientFinished && serverFinished }
    var verifyResult: Int32 { Int32(SSL_get_verify_result(client)) }
}
