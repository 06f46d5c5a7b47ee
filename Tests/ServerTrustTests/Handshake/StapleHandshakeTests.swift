// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Required staples inside the TLS handshake")
struct StapleHandshakeTests {
    private let cast: StapleCase.Cast
    private let host: Host
    private static let request = "GET / HTTP/1.1\r\n\r\n"

    init() throws {
        cast = try StapleCase.Cast()
        host = try Host(Scenario.host)
    }

    private func policy(_ pin: PublicKeyPin? = nil) throws -> SecurityPolicy {
        var configuration = SecurityPolicy.Configuration()
        configuration.requiresStaple = true
        if let pin {
            configuration.pinningMode = .publicKey
            configuration.pins = [Pin(pin), Pin(.unrelated())]
        }
        return try SecurityPolicy(configuration)
    }

    private func hold(_ client: InMemoryClient, to policy: SecurityPolicy) throws {
        try client.hold(to: policy, host: host, anchors: cast.pki.anchors, at: Scenario.now)
    }

    @Test("81 a good staple passes, and its age is the verdict's", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func good(version: Int32) throws {
        for (policy, verdict) in [
            (try policy(), TrustEvaluation.Verdict.notPinned), (try policy(cast.server.pin), .pass),
        ] {
            let client = InMemoryClient()
            try hold(client, to: policy)
            let staple = try cast.signed(by: cast.responder).der()
            let handshake = try InMemoryHandshake(
                client,
                InMemoryServer(cast.server, version: version, staple: staple)
            )
            #expect(handshake.isFinished && handshake.verifyResult == X509_V_OK)
            let trust = try #require(TLSVerification.evaluation(of: handshake.client))
            #expect(trust.evaluation.verdict == verdict && trust.evaluation.goodUntil == Scenario.now + 3900)
            #expect(trust.generation == 7 && trust.policy === policy && handshake.verification?.lastTrust === trust)
            #expect(handshake.received(sending: Self.request) == Self.request.utf8.count)
        }
    }

    @Test(
        "81 a refused staple ends the handshake before any request byte",
        arguments: StapleCase.usual,
        [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func refused(variant: StapleCase, version: Int32) throws {
        let client = InMemoryClient()
        try hold(client, to: policy(cast.server.pin))
        let staple = try variant.make(cast, Scenario.now)
        let handshake = try InMemoryHandshake(client, InMemoryServer(cast.server, version: version, staple: staple))
        #expect(!handshake.clientFinished && !handshake.serverFinished)
        let last = try #require(handshake.verification?.lastTrust)
        #expect(last.evaluation.verdict == .fail && last.evaluation.failure == variant.failure)
        #expect(last.evaluation.reason.contains(variant.word))
        #expect(TLSVerification.evaluation(of: handshake.client) === last)
        #expect(handshake.received(sending: Self.request) == 0)
        // The report of a refusal for the staple has the offered and expected keys, too.
        #expect(last.evaluation.isChainValidated && last.evaluation.matchedPin == cast.server.pin)
    }

    @Test("a wrong pin is reported as such, despite a good staple", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func wrongPin(version: Int32) throws {
        let client = InMemoryClient()
        try hold(client, to: policy(.unrelated(9)))
        let staple = try cast.response().der()
        let handshake = try InMemoryHandshake(client, InMemoryServer(cast.server, version: version, staple: staple))
        #expect(!handshake.clientFinished)
        #expect(handshake.verification?.lastTrust?.evaluation.failure == .pinMismatch)
    }

    @Test(
        "a connection whose staple was never checked stays refused",
        arguments: [TLS1_2_VERSION, TLS1_3_VERSION]
    )
    func neverAsked(version: Int32) throws {
        let client = InMemoryClient()
        try hold(client, to: policy())
        let staple = try cast.response().der()
        let server = try InMemoryServer(cast.server, version: version, staple: staple)
        // A caller that removes the status request again (SSL_set_tlsext_status_type(3)): OpenSSL then never calls the
        // callback.
        let handshake = try InMemoryHandshake(client, server) {
            _ = SSL_ctrl($0, SSL_CTRL_SET_TLSEXT_STATUS_REQ_TYPE, -1, nil)
        }
        #expect(handshake.isFinished)
        let trust = try #require(TLSVerification.evaluation(of: handshake.client))
        #expect(!trust.evaluation.isAccepted && trust.evaluation.failure == .stapleMissing)
        #expect(try #require(handshake.verification).lastTrust == nil)
    }

    @Test("no staple is requested unless one is required", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func notAsked(version: Int32) throws {
        let client = InMemoryClient()
        try client.hold(to: .unpinned, host: host, anchors: cast.pki.anchors)
        let server = try InMemoryServer(cast.server, version: version, staple: Array("gibberish".utf8))
        let handshake = InMemoryHandshake(client, server)
        #expect(handshake.isFinished)
        var start: UnsafePointer<UInt8>?
        #expect(pinproxy_ssl_staple(handshake.client, &start) <= 0)
    }
}
