// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import HTTPCore
import IOCore
import ServerTrust

/// The `SSL_CTX` of a session's connections: one for all hosts of a profile, because all that belongs to a host or to a handshake
/// hangs on the `SSL` (an `SSL_CTX` costs 13 KB and most of what a handshake costs beside its cryptography).
final class TLSClientContext {
    /// In the order of the profiles; made when a connection first needs it.
    private var contexts: [OpaquePointer?] = Array(repeating: nil, count: TLSProfile.allCases.count)

    /// Room for what one recv(2) may bring: four of the largest records of TLS 1.3 (RFC 8446, section 5.2: 16,384 bytes of data,
    /// a type, a tag of 16, a head of 5), and the 3 bytes that OpenSSL leaves out to align them. One byte less would take a
    /// second recv(2) for each four.
    private static let readAhead = 4 * (16_384 + 1 + 16 + 5) + 3

    /// Where the steps of handshakes are made.
    let threads: FairThreads
    /// What fetches revocation lists; nil for none.
    let lists: RevocationListSource?

    /// - Throws: `internal` when OpenSSL refuses a setting.
    init(threads: FairThreads, lists: RevocationListSource? = nil) throws(SessionError) {
        self.threads = threads
        self.lists = lists
        // What is wrong with OpenSSL shows at the start.
        _ = try context(.modern)
    }

    deinit {
        for case let context? in contexts { SSL_CTX_free(context) }
    }

    private func context(_ profile: TLSProfile) throws(SessionError) -> OpaquePointer {
        let index = TLSProfile.allCases.firstIndex(of: profile) ?? 0
        if let context = contexts[index] { return context }
        guard let context = SSL_CTX_new(TLS_client_method()) else {
            throw SessionError(.internal, "OpenSSL has no memory for a context.")
        }
        contexts[index] = context
        do {
            try TLSVerification.prepare(context, profile)
        } catch {
            SSL_CTX_free(context)
            contexts[index] = nil
            throw SessionError(.internal, "The TLS settings could not be made: \(error).")
        }
        pinproxy_ssl_ctx_read_ahead(context, Self.readAhead)
        return context
    }

    /// The layer below a connection's records: a socket, or TLS to a proxy.
    enum Transport {
        /// A connected socket.
        case socket(Int32)
        /// TLS to a proxy, which has to live longer than the connection.
        case proxy(ProxyLink)
    }

    /// Makes the client's side of a connection to an endpoint, with the endpoint's policy in charge.
    ///
    /// - Parameters:
    ///   - trial: offered in place of the endpoint's profile, and no server is accepted; nil for a connection.
    ///   - identity: called within the handshake when the server asks for a client certificate and the policy names none.
    func makeConnection(
        to endpoint: Endpoint,
        through transport: Transport,
        offering protocols: [ApplicationProtocol],
        trial: TLSProfile? = nil,
        identity: @escaping @Sendable () -> HandshakeIdentity
    ) throws(SessionError) -> (ssl: OpaquePointer, verification: TLSVerification) {
        let profile = trial ?? endpoint.tls.profile
        guard let ssl = SSL_new(try context(profile)) else {
            throw SessionError(.internal, "OpenSSL has no memory for a connection.")
        }
        do {
            let verification = try TLSVerification.attach(
                to: ssl,
                policy: endpoint.policy,
                host: endpoint.serverName,
                anchors: endpoint.anchors,
                generation: endpoint.generation,
                profile: profile,
                isTrial: trial != nil,
                lists: lists?.store,
                identity: identity
            )
            // Server names are for DNS names alone, without the trailing dot (RFC 6066, section 3).
            let isNamed =
                endpoint.serverName.address != nil
                || pinproxy_ssl_set_server_name(ssl, endpoint.serverName.description) == 1
            let names = protocols.flatMap { name in [UInt8(name.rawValue.utf8.count)] + Array(name.rawValue.utf8) }
            // 0 is success (SSL_set_alpn_protos(3)).
            guard isNamed, protocols.isEmpty || SSL_set_alpn_protos(ssl, names, UInt32(names.count)) == 0,
                Self.adopt(transport, for: ssl)
            else { throw OpenSSLError(draining: "SSL_set_alpn_protos") }
            SSL_set_connect_state(ssl)
            return (ssl, verification)
        } catch {
            SSL_free(ssl)
            throw SessionError(.internal, "The security policy could not be installed: \(error).")
        }
    }

    private static func adopt(_ transport: Transport, for ssl: OpaquePointer) -> Bool {
        switch transport {
        case .socket(let descriptor): pinproxy_ssl_adopt_socket(ssl, descriptor) == 1
        case .proxy(let link): pinproxy_ssl_adopt_outer(ssl, link.ssl) == 1
        }
    }
}
