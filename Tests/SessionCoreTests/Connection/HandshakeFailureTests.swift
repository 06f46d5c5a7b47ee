import HTTPCaching
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("The meaning of a failed TLS handshake")
struct HandshakeFailureTests {
    private func failure(
        _ words: String,
        evaluation: TrustEvaluation? = nil,
        isChainSeen: Bool = false,
        isClientCertificateMissing: Bool = false
    ) throws -> SessionError {
        HandshakeFailure(
            endpoint: try TestSession.endpoint(port: 1),
            evaluation: evaluation,
            isChainSeen: isChainSeen,
            isClientCertificateMissing: isClientCertificateMissing,
            words: words
        ).error
    }

    @Test(
        "a handshake counts as cut by the words for a reset and an end alone, and never behind a chain",
        arguments: [
            ("Connection reset by peer", true), ("Broken pipe", true), ("unexpected eof while reading", true),
            ("the connection ended without close_notify", true), ("ssl/tls alert handshake failure", false),
            ("wrong version number", false), ("", false),
        ]
    )
    func cut(words: String, isCut: Bool) throws {
        let early = try failure(words)
        #expect(early.code == .tlsHandshakeFailed && early.isHandshakeCut == isCut)
        #expect(early.originFailure == (isCut ? .unreachable : .untrusted))
        let late = try failure(words, isChainSeen: true)
        #expect(!late.isHandshakeCut && late.originFailure == .untrusted)
    }

    @Test(
        "a failure with a known cause names the remedy",
        arguments: [
            ("wrong version number", "check the port"), ("http request", "check the port"),
            ("tlsv1 alert protocol version", "TLS 1.2 is the lowest"),
            ("unsupported protocol", "TLS 1.2 is the lowest"),
        ]
    )
    func remedies(words: String, remedy: String) throws {
        #expect(try failure(words).details.contains(remedy))
        #expect(try failure("", isClientCertificateMissing: true).details.contains("clientCertificate"))
    }

    @Test("the verdict of the security policy goes before OpenSSL's words")
    func verdict() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let evaluation = try SecurityPolicy.pinning(.unrelated(7)).evaluate(
            chain: server.chain,
            host: try Host(TestSession.host),
            anchors: TestPKI.shared.anchors
        )
        #expect(evaluation.verdict == .fail)
        let error = try failure("certificate verify failed", evaluation: evaluation)
        #expect(error.code == .pinMismatch && error.evaluation === evaluation)
        #expect(!error.details.contains("certificate verify failed"))
    }

    @Test("every failure of the trust has a code of its own among the session's")
    func codes() {
        for failure in TrustFailure.allCases {
            #expect(SessionError.Code(rawValue: failure.rawValue) != nil, "\(failure)")
        }
    }
}
