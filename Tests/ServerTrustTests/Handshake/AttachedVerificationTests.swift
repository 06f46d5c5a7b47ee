// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import ServerTrust
import TestSupport
import Testing

/// One `SSL_CTX` serves many hosts: each connection has a policy of its own.
@Suite("A policy for each connection of a context")
struct AttachedVerificationTests {
    private let pki: TestPKI
    private let server: TestServer
    private static let host = "api.example.com"

    init() throws {
        pki = try TestPKI()
        server = try pki.server(Self.host, "b.example.com")
    }

    private func client() throws -> InMemoryClient {
        let client = InMemoryClient()
        try TLSVerification.prepare(client.context)
        return client
    }

    @discardableResult
    private func attach(
        _ policy: SecurityPolicy,
        to ssl: OpaquePointer,
        host: String = host,
        anchors: TrustAnchors? = nil,
        generation: UInt64 = 7,
        identity: (@Sendable () -> HandshakeIdentity)? = nil
    ) throws -> TLSVerification {
        try TLSVerification.attach(
            to: ssl,
            policy: policy,
            host: Host(host),
            anchors: anchors ?? pki.anchors,
            generation: generation,
            identity: identity
        )
    }

    @Test(
        "a connection without a policy refuses every server, and its request does not leave",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func noPolicy(version: Int32) throws {
        let client = try client()
        // OpenSSL itself would trust the server; it is not asked.
        let folder = try TemporaryFolder()
        let anchors = try folder.write(pki.root.certificate.pem, as: "anchors.pem")
        #expect(SSL_CTX_load_verify_locations(client.context, anchors, nil) == 1)
        let handshake = try InMemoryHandshake(client, InMemoryServer(server, version: version))
        #expect(!handshake.clientFinished)
        #expect(handshake.verifyResult != X509_V_OK)
        #expect(TLSVerification.of(handshake.client) == nil)
        #expect(TLSVerification.evaluation(of: handshake.client) == nil)
        #expect(handshake.received(sending: "GET / HTTP/1.1\r\n\r\n") == 0)
    }

    @Test(
        "a connection without a policy refuses after an accepted one of its context",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func noPolicyLater(version: Int32) throws {
        let client = try client()
        let peer = try InMemoryServer(server, version: version)
        let accepted = try InMemoryHandshake(client, peer) { _ = try attach(.pinning(server.pin), to: $0) }
        #expect(accepted.isFinished)
        accepted.readTickets()
        let refused = InMemoryHandshake(client, peer)
        #expect(!refused.clientFinished)
        #expect(refused.received(sending: "x") == 0)
    }

    @Test("two connections of one context share nothing", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func apart(version: Int32) throws {
        let client = try client()
        let peer = try InMemoryServer(server, version: version)
        var verifications: [TLSVerification] = []
        let first = try InMemoryHandshake(client, peer) {
            verifications.append(try attach(.pinning(server.pin), to: $0))
        }
        let second = try InMemoryHandshake(client, peer) {
            verifications.append(try attach(.pinning(.unrelated(9)), to: $0, host: "b.example.com", generation: 8))
        }
        let third = try InMemoryHandshake(client, peer) {
            verifications.append(try attach(.unpinned, to: $0, host: "c.example.com", generation: 9))
        }
        #expect(first.isFinished && !second.clientFinished && !third.clientFinished)
        #expect(second.received(sending: "x") == 0 && third.received(sending: "x") == 0)
        let trusts = verifications.map(\.lastTrust)
        #expect(trusts.map { $0?.evaluation.failure } == [nil, .pinMismatch, .certificateHostMismatch])
        #expect(trusts.map { $0?.generation } == [7, 8, 9])
        #expect(trusts.map { $0?.host.description } == [Self.host, "b.example.com", "c.example.com"])
        for (handshake, trust) in zip([first, second, third], trusts) {
            #expect(TLSVerification.evaluation(of: handshake.client) === trust)
        }
        #expect(TLSVerification.of(first.client) === verifications[0])
        #expect(TLSVerification.of(second.client) === verifications[1])
    }

    @Test("anchors hold for their connection alone", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func anchors(version: Int32) throws {
        let client = try client()
        let other = try TestPKI()
        let peer = try InMemoryServer(server, version: version)
        let own = try InMemoryHandshake(client, peer) { _ = try attach(.unpinned, to: $0) }
        let foreign = try InMemoryHandshake(client, peer) {
            _ = try attach(.unpinned, to: $0, anchors: other.anchors)
        }
        #expect(own.isFinished && !foreign.clientFinished)
    }

    @Test("a session of one connection is not resumed by another", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func noResumption(version: Int32) throws {
        let client = try client()
        let peer = try InMemoryServer(server, version: version)
        let first = try InMemoryHandshake(client, peer) { _ = try attach(.unpinned, to: $0) }
        first.readTickets()
        let session = SSL_get1_session(first.client)
        defer { SSL_SESSION_free(session) }
        // Even where it is handed over, the server of a pinned host has to show its chain.
        let second = try InMemoryHandshake(client, peer, resuming: session) {
            _ = try attach(.pinning(.unrelated(9)), to: $0)
        }
        #expect(!second.clientFinished || TLSVerification.evaluation(of: second.client) == nil)
    }

    @Test("a program's connection has its policy, and others of its context have none")
    func forPrograms() throws {
        let client = InMemoryClient()
        let peer = try InMemoryServer(server, version: TLS1_3_VERSION)
        func connect(_ policy: SecurityPolicy) throws -> InMemoryHandshake {
            let (ssl, verification) = try TLSVerification.attach(
                toConnectionOf: client.context,
                policy: policy,
                host: Host(Self.host),
                anchors: pki.anchors,
                generation: 3
            )
            #expect(TLSVerification.of(ssl) === verification)
            return InMemoryHandshake(ofConnection: ssl, peer)
        }
        let (good, bad) = (try connect(.pinning(server.pin)), try connect(.pinning(.unrelated(9))))
        #expect(good.isFinished && TLSVerification.evaluation(of: good.client)?.generation == 3)
        #expect(!bad.clientFinished && bad.received(sending: "x") == 0)
        #expect(bad.verification?.lastTrust?.evaluation.failure == .pinMismatch)
        #expect(SSL_CTX_get_security_level(client.context) == 2)
        #expect(!InMemoryHandshake(client, peer).clientFinished)
    }

    @Test("a second policy for a connection is an error")
    func twice() throws {
        let client = try client()
        let ssl: OpaquePointer = SSL_new(client.context)
        defer { SSL_free(ssl) }
        try attach(.pinning(server.pin), to: ssl)
        #expect(throws: OpenSSLError.self) { try attach(.unpinned, to: ssl) }
    }

    @Test("the lowest version of a policy holds for its connection alone")
    func lowestVersion() throws {
        let client = try client()
        let peer = try InMemoryServer(server, version: TLS1_2_VERSION)
        var configuration = SecurityPolicy.Configuration()
        configuration.minTLSVersion = .tls13
        let strict = try SecurityPolicy(configuration)
        let refused = try InMemoryHandshake(client, peer) { _ = try attach(strict, to: $0) }
        let accepted = try InMemoryHandshake(client, peer) { _ = try attach(.unpinned, to: $0) }
        #expect(!refused.clientFinished && accepted.isFinished)
    }

    @Test("a client certificate is shown on its own connection alone", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func identities(version: Int32) throws {
        var builder = CertificateBuilder.server(hosts: ["client"], validity: TestPKI.validity)
        builder.extendedKeyUsage = ["clientAuth"]
        let certificate = try pki.server(builder)
        let identity = try ClientIdentity(
            certificate: Array(certificate.chainPEM.utf8),
            privateKey: Array(certificate.privateKeyPEM.utf8)
        )
        var configuration = SecurityPolicy.Configuration()
        configuration.clientCertificate = identity
        let policy = try SecurityPolicy(configuration)
        let client = try client()
        let peer = try InMemoryServer(server, version: version, clientAnchors: pki.root.certificate)
        let byPolicy = try InMemoryHandshake(client, peer) { _ = try attach(policy, to: $0) }
        let byProgram = try InMemoryHandshake(client, peer) {
            _ = try attach(.unpinned, to: $0, identity: { .show(identity) })
        }
        let none = try InMemoryHandshake(client, peer) { _ = try attach(.unpinned, to: $0) }
        #expect(byPolicy.isFinished && byProgram.isFinished && !none.serverFinished)
    }
}
