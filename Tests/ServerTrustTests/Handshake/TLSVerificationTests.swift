// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Evaluation inside the TLS handshake")
struct TLSVerificationTests {
    private let pki: TestPKI
    private let server: TestServer
    private let host: Host
    private static let request = "GET / HTTP/1.1\r\n\r\n"

    init() throws {
        pki = try TestPKI()
        server = try pki.server("api.example.com")
        host = try Host("api.example.com")
    }

    private func hold(
        _ client: InMemoryClient,
        to policy: SecurityPolicy,
        host: String? = nil,
        at time: Int64? = nil
    ) throws {
        let host = try host.map { try Host($0) } ?? self.host
        try client.hold(to: policy, host: host, anchors: pki.anchors, at: time)
    }

    private func policy(_ change: (inout SecurityPolicy.Configuration) -> Void) throws -> SecurityPolicy {
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(server.pin), Pin(.unrelated())]
        change(&configuration)
        return try SecurityPolicy(configuration)
    }

    @Test("the right pin passes and the request arrives", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func rightPin(version: Int32) throws {
        let client = InMemoryClient()
        try hold(client, to: .pinning(server.pin))
        let handshake = try InMemoryHandshake(client, InMemoryServer(server, version: version))
        #expect(handshake.isFinished && SSL_version(handshake.client) == version)
        #expect(handshake.verifyResult == X509_V_OK)
        let trust = try #require(TLSVerification.evaluation(of: handshake.client))
        #expect(trust.evaluation.verdict == .pass && trust.evaluation.matchedPin == server.pin)
        #expect(trust.generation == 7 && trust.host == host)
        #expect(handshake.verification?.lastTrust === trust)
        #expect(handshake.received(sending: Self.request) == Self.request.utf8.count)
    }

    @Test("a wrong pin ends the handshake, and no request byte arrives", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func wrongPin(version: Int32) throws {
        let client = InMemoryClient()
        try hold(client, to: .pinning(.unrelated(9)))
        let handshake = try InMemoryHandshake(client, InMemoryServer(server, version: version))
        #expect(!handshake.clientFinished)
        #expect(handshake.verifyResult == X509_V_ERR_APPLICATION_VERIFICATION)
        #expect(handshake.verification?.lastTrust?.evaluation.failure == .pinMismatch)
        #expect(TLSVerification.evaluation(of: handshake.client)?.evaluation.isAccepted == false)
        #expect(handshake.received(sending: Self.request) == 0)
    }

    @Test("a refusal gives OpenSSL its reason", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func verifyErrors(version: Int32) throws {
        func result(_ server: TestServer, host: String = "api.example.com", at time: Int64? = nil) throws -> Int32 {
            let client = InMemoryClient()
            try hold(client, to: .unpinned, host: host, at: time)
            let handshake = try InMemoryHandshake(client, InMemoryServer(server, version: version))
            #expect(handshake.clientFinished == (handshake.verifyResult == X509_V_OK))
            return handshake.verifyResult
        }
        var short = server
        short.chain.removeLast()
        #expect(try result(server) == X509_V_OK)
        #expect(try result(short) == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY)
        #expect(try result(server, host: "b.example.com") == X509_V_ERR_HOSTNAME_MISMATCH)
        #expect(try result(server, host: "192.0.2.1") == X509_V_ERR_IP_ADDRESS_MISMATCH)
        #expect(try result(server, at: TestPKI.validity.upperBound + 1) == X509_V_ERR_CERT_HAS_EXPIRED)
        #expect(try result(pki.server("api.example.com", key: .rsa(bits: 1024))) == X509_V_ERR_EE_KEY_TOO_SMALL)
    }

    @Test("a pinned self-signed server is accepted with X509_V_OK", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func selfSigned(version: Int32) throws {
        let identity = try CertificateBuilder.server(hosts: ["api.example.com"], validity: TestPKI.validity).identity()
        let selfSigned = TestServer(identity: identity, chain: [identity.certificate])
        let waiving = try policy {
            $0.pins[0] = Pin(identity.key.pin)
            $0.allowInvalidCertificates = true
        }
        let certificate = try policy {
            $0.pinningMode = .certificate
            $0.pins = []
            $0.pinnedCertificates = [identity.certificate]
            $0.allowInvalidCertificates = true
        }
        let open = try policy {
            $0.pinningMode = .none
            $0.pins = []
            $0.allowInvalidCertificates = true
            $0.validatesDomainName = false
        }
        for policy in [waiving, certificate, open] {
            let client = InMemoryClient()
            try hold(client, to: policy)
            let handshake = try InMemoryHandshake(client, InMemoryServer(selfSigned, version: version))
            #expect(handshake.isFinished && handshake.verifyResult == X509_V_OK)
            #expect(handshake.verification?.lastTrust?.evaluation.isAccepted == true)
            #expect(handshake.received(sending: Self.request) > 0)
        }
        let client = InMemoryClient()
        try hold(client, to: policy { $0.pins[0] = Pin(identity.key.pin) })
        #expect(try !InMemoryHandshake(client, InMemoryServer(selfSigned, version: version)).clientFinished)
    }

    @Test("the caller's own stores do not count")
    func callersStore() throws {
        let rogue = try TestPKI("rogue")
        let client = InMemoryClient()
        try hold(client, to: .unpinned)
        let folder = try TemporaryFolder()
        let path = try folder.write(rogue.root.certificate.pem, as: "rogue.pem")
        let store = X509_STORE_new()
        X509_STORE_load_locations(store, path, nil)
        // OpenSSL prefers this store to its own. (SSL_CTX_set0_verify_cert_store is a macro.)
        SSL_CTX_ctrl(client.context, SSL_CTRL_SET_VERIFY_CERT_STORE, 0, UnsafeMutableRawPointer(store))
        let handshake = try InMemoryHandshake(client, InMemoryServer(rogue.server("api.example.com")))
        #expect(!handshake.clientFinished)
        #expect(handshake.verification?.lastTrust?.evaluation.failure == .certificateUntrusted)
    }

    @Test("the lowest TLS version of the policy holds")
    func minimumVersion() throws {
        for version in [TLS1_2_VERSION, TLS1_3_VERSION] {
            let client = InMemoryClient()
            try hold(client, to: policy { $0.minTLSVersion = .tls13 })
            let handshake = try InMemoryHandshake(client, InMemoryServer(server, version: version))
            #expect(handshake.isFinished == (version == TLS1_3_VERSION))
            #expect((TLSVerification.evaluation(of: handshake.client) != nil) == (version == TLS1_3_VERSION))
        }
    }

    @Test("66 and 67 a resumed session has no verdict", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func resumption(version: Int32) throws {
        let serverSide = try InMemoryServer(server, version: version)
        let lax = InMemoryClient()
        // A program that violates the rules of attach(): it keeps sessions and reuses them.
        try hold(lax, to: .unpinned)
        SSL_CTX_clear_options(lax.context, UInt64(1) << 14)
        let first = InMemoryHandshake(lax, serverSide)
        first.readTickets()
        #expect(TLSVerification.evaluation(of: first.client) != nil)
        let session = SSL_get1_session(first.client)
        defer { SSL_SESSION_free(session) }

        let strict = InMemoryClient()
        try hold(strict, to: .pinning(.unrelated(9)))
        SSL_CTX_clear_options(strict.context, UInt64(1) << 14)
        let second = InMemoryHandshake(strict, serverSide, resuming: session)
        #expect(second.clientFinished && SSL_session_reused(second.client) == 1)
        #expect(TLSVerification.evaluation(of: second.client) == nil)
        #expect(try #require(second.verification).lastTrust == nil)

        // A reset SSL must not have the verdict of the previous connection either.
        first.reconnect(to: serverSide, resuming: session)
        #expect(first.clientFinished && SSL_session_reused(first.client) == 1)
        #expect(TLSVerification.evaluation(of: first.client) == nil)
    }

    @Test("by default no connection with a policy is resumed", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func noTickets(version: Int32) throws {
        let client = InMemoryClient()
        try hold(client, to: .unpinned)
        let options = SSL_CTX_get_options(client.context)
        #expect(options & (1 << 14) != 0, "SSL_OP_NO_TICKET")
        #expect(options & (1 << 30) != 0, "SSL_OP_NO_RENEGOTIATION")
        #expect(SSL_CTX_ctrl(client.context, SSL_CTRL_GET_SESS_CACHE_MODE, 0, nil) == SSL_SESS_CACHE_OFF)
        #expect(SSL_CTX_get_security_level(client.context) == 2)
        let serverSide = try InMemoryServer(server, version: version)
        for _ in 0..<2 {
            let handshake = InMemoryHandshake(client, serverSide)
            handshake.readTickets()
            #expect(SSL_session_reused(handshake.client) == 0)
            #expect(TLSVerification.evaluation(of: handshake.client) != nil)
        }
    }

    @Test("a duplicated SSL owns its record as well")
    func duplicated() throws {
        weak var trust: ConnectionTrust?
        do {
            let client = InMemoryClient()
            try hold(client, to: .unpinned)
            let handshake = try InMemoryHandshake(client, InMemoryServer(server))
            trust = TLSVerification.evaluation(of: handshake.client)
            let copy = SSL_dup(handshake.client)
            SSL_free(copy)
            #expect(TLSVerification.evaluation(of: handshake.client) === trust)
        }
        #expect(trust == nil)
    }

    @Test("an SSL without a policy has no evaluation")
    func foreign() throws {
        let client = InMemoryClient()
        let handshake = try InMemoryHandshake(client, InMemoryServer(server))
        #expect(handshake.isFinished)
        #expect(TLSVerification.evaluation(of: handshake.client) == nil)
    }

    @Test("the records are freed with the objects of OpenSSL that own them")
    func ownership() throws {
        weak var verification: TLSVerification?
        weak var trust: ConnectionTrust?
        do {
            let client = InMemoryClient()
            try hold(client, to: .unpinned)
            let handshake = try InMemoryHandshake(client, InMemoryServer(server))
            verification = handshake.verification
            trust = TLSVerification.evaluation(of: handshake.client)
            #expect(verification != nil && trust != nil)
        }
        #expect(verification == nil && trust == nil)
    }

    @Test("the policy's client certificate is shown with its chain", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func clientCertificate(version: Int32) throws {
        var builder = CertificateBuilder.server(hosts: ["client"], validity: TestPKI.validity)
        builder.extendedKeyUsage = ["clientAuth"]
        let identity = try pki.server(builder)
        let client = InMemoryClient()
        let policy = try policy {
            $0.clientCertificate = try? ClientIdentity(
                certificate: Array(identity.chainPEM.utf8),
                privateKey: Array(identity.privateKeyPEM.utf8)
            )
        }
        try hold(client, to: policy)
        let serverSide = try InMemoryServer(server, version: version, clientAnchors: pki.root.certificate)
        let handshake = InMemoryHandshake(client, serverSide)
        #expect(handshake.isFinished)
        let shown = SSL_get0_peer_certificate(handshake.server)
        #expect(shown != nil)
        // Without a certificate the same server refuses.
        let bare = InMemoryClient()
        try hold(bare, to: .unpinned)
        #expect(!InMemoryHandshake(bare, serverSide).serverFinished)
    }

    @Test("evaluations leave OpenSSL's error queue as it was")
    func errorQueue() throws {
        ERR_clear_error()
        let waiving = try policy { $0.allowInvalidCertificates = true }
        let rogue = try TestPKI("rogue").server("api.example.com")
        for chain in [server.chain, rogue.chain, [rogue.certificate]] {
            for policy in [waiving, .unpinned] {
                _ = policy.evaluate(chain: chain, host: host, anchors: pki.anchors)
                #expect(ERR_peek_error() == 0)
            }
        }
    }

    @Test("one policy evaluates on several threads at a time")
    func concurrent() async throws {
        let policy = try policy { _ in }
        let anchors = pki.anchors
        let chain = server.chain
        let host = host
        let verdicts = await withTaskGroup(of: TrustEvaluation.Verdict.self) { group in
            for _ in 0..<64 {
                group.addTask { policy.evaluate(chain: chain, host: host, anchors: anchors).verdict }
            }
            return await group.reduce(into: [TrustEvaluation.Verdict]()) { $0.append($1) }
        }
        #expect(verdicts.count == 64 && verdicts.allSatisfy { $0 == .pass })
    }
}
