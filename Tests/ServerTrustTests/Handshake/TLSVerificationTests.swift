import COpenSSL
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Judging inside the TLS handshake")
struct TLSVerificationTests {
    private let pki: TestPKI
    private let server: TestServer
    private let host: Host

    init() throws {
        pki = try TestPKI()
        server = try pki.server("api.example.com")
        host = try Host("api.example.com")
    }

    private func handshake(
        _ policy: SecurityPolicy,
        server: TestServer? = nil,
        version: Int32 = TLS1_3_VERSION,
        generation: UInt64 = 7
    ) throws -> (InMemoryHandshake, TLSVerification) {
        var verification: TLSVerification?
        let handshake = try InMemoryHandshake(server ?? self.server, version: version) { context in
            verification = try TLSVerification.install(
                on: context,
                policy: policy,
                host: host,
                anchors: pki.anchors,
                generation: generation
            )
        }
        handshake.run()
        return (handshake, try #require(verification))
    }

    @Test("the right pin passes and the request arrives", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func rightPin(version: Int32) throws {
        let (handshake, verification) = try handshake(.pinning(server.pin), version: version)
        #expect(handshake.clientFinished && handshake.serverFinished)
        #expect(handshake.version == version)
        #expect(handshake.verifyResult == Int(X509_V_OK))
        let trust = try #require(TLSVerification.evaluation(of: handshake.client))
        #expect(trust.evaluation.verdict == .pass)
        #expect(trust.evaluation.matchedPin == server.pin)
        #expect(trust.generation == 7)
        #expect(trust.host == host)
        #expect(verification.lastTrust === trust)
        #expect(handshake.received(sending: "GET / HTTP/1.1\r\n\r\n") == 18)
    }

    @Test("a wrong pin ends the handshake, and no request byte arrives", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func wrongPin(version: Int32) throws {
        let (handshake, verification) = try handshake(.pinning(.unrelated(9)), version: version)
        #expect(!handshake.clientFinished)
        #expect(handshake.verifyResult == Int(X509_V_ERR_APPLICATION_VERIFICATION))
        #expect(verification.lastTrust?.evaluation.failure == .pinMismatch)
        #expect(verification.lastTrust?.evaluation.isAccepted == false)
        #expect(handshake.received(sending: "GET / HTTP/1.1\r\n\r\n") == 0)
    }
}
