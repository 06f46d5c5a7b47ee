import COpenSSL
import CShims
import HTTPCore
import ServerTrust
import TestSupport

/// A real TLS handshake between two ends in memory (BIO pair): OpenSSL's state machines without a socket.
final class InMemoryHandshake {
    let clientContext: OpaquePointer
    private let serverContext: OpaquePointer
    let client: OpaquePointer
    private let server: OpaquePointer
    private(set) var clientFinished = false
    private(set) var serverFinished = false

    /// Prepares both ends.
    ///
    /// - Parameters:
    ///   - identity: what the server serves with.
    ///   - version: `TLS1_2_VERSION` or `TLS1_3_VERSION`, the only one that the server speaks.
    ///   - prepare: sets up the client's context: installs the policy.
    init(
        _ identity: TestServer,
        version: Int32 = TLS1_3_VERSION,
        prepare: (OpaquePointer) throws -> Void
    ) throws {
        clientContext = SSL_CTX_new(TLS_client_method())
        serverContext = SSL_CTX_new(TLS_server_method())
        try prepare(clientContext)
        // For weak keys to get as far as the client's judgement.
        SSL_CTX_set_security_level(serverContext, 0)
        pinproxy_ssl_ctx_set_min_version(serverContext, version)
        SSL_CTX_ctrl(serverContext, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
        let folder = try TemporaryFolder()
        let files = try identity.write(to: folder, name: "server")
        guard SSL_CTX_use_certificate_chain_file(serverContext, files.certificate) == 1,
            SSL_CTX_use_PrivateKey_file(serverContext, files.key, SSL_FILETYPE_PEM) == 1
        else { throw OpenSSLError(draining: "server identity") }
        client = SSL_new(clientContext)
        server = SSL_new(serverContext)
        var clientEnd: OpaquePointer?
        var serverEnd: OpaquePointer?
        BIO_new_bio_pair(&clientEnd, 0, &serverEnd, 0)
        SSL_set_bio(client, clientEnd, clientEnd)
        SSL_set_bio(server, serverEnd, serverEnd)
        SSL_set_connect_state(client)
        SSL_set_accept_state(server)
    }

    deinit {
        SSL_free(client)
        SSL_free(server)
        SSL_CTX_free(clientContext)
        SSL_CTX_free(serverContext)
    }

    /// Lets both ends talk until nothing moves any more.
    func run() {
        for _ in 0..<50 where !(clientFinished && serverFinished) {
            clientFinished = SSL_do_handshake(client) == 1
            serverFinished = SSL_do_handshake(server) == 1
        }
        ERR_clear_error()
    }

    /// What the server gets to read of what the client tries to send after the handshake.
    func received(sending text: String) -> Int {
        _ = SSL_write(client, text, Int32(text.utf8.count))
        var buffer = [UInt8](repeating: 0, count: 1024)
        let count = SSL_read(server, &buffer, Int32(buffer.count))
        ERR_clear_error()
        return max(0, Int(count))
    }

    var verifyResult: Int { SSL_get_verify_result(client) }
    var version: Int32 { SSL_version(client) }
}
