// SPDX-License-Identifier: Apache-2.0
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
        alert: UInt8? = nil,
        reason: Int32? = nil,
        evaluation: TrustEvaluation? = nil,
        isChainSeen: Bool = false,
        isClientCertificateMissing: Bool = false
    ) throws -> SessionError {
        HandshakeFailure(
            endpoint: try TestSession.endpoint(port: 1),
            evaluation: evaluation,
            isChainSeen: isChainSeen,
            isClientCertificateMissing: isClientCertificateMissing,
            fault: TLSFault(words: words, alert: alert.map { TLSAlert($0) }, reason: reason.map { Int($0) })
        ).error
    }

    @Test(
        "a handshake is cut only by a reset or an end before a chain",
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

    /// The number of an alert or of a reason in <openssl/sslerr.h>, what is said instead, and what can be done.
    private static let causes: [(alert: UInt8?, reason: Int32?, cause: String, remedy: String)] = [
        (nil, 267, "is no TLS", "check the port"), (nil, 156, "is no TLS", "check the port"),
        (nil, 313, "is no TLS", "check the port"), (nil, 258, "no version of TLS", "TLS 1.2 is the lowest"),
        (70, nil, "no version of TLS", "TLS 1.2 is the lowest"),
        (nil, 338, "secure renegotiation (RFC 5746)", "TLS software updated"),
        (nil, 394, "Diffie-Hellman is too small", "ECDHE"), (40, nil, "accepts nothing", "ECDHE"),
        (71, nil, "too weak for it", "ECDHE"), (80, nil, "failed itself", "its log"),
        (112, nil, "does not know the name", "certificate for the name"), (120, nil, "versions of HTTP", "httpVersion"),
        (nil, 333, "too weak", "SHA-256"),
        (nil, 306, "key exchange is broken", "updated"), (nil, 261, "not offered", "ECDHE"),
        (nil, 294, "ended the connection within", "load balancer"),
    ]

    @Test(
        "a failure with a known cause names it in plain words, with the remedy",
        arguments: causes.indices
    )
    func remedies(index: Int) throws {
        let known = Self.causes[index]
        let details = try failure("OPENSSL SAYS", alert: known.alert, reason: known.reason).details
        #expect(details.contains(known.cause) && details.contains(known.remedy), "\(details)")
        #expect(details.contains("(OpenSSL: OPENSSL SAYS). "))
    }

    @Test("an unknown cause has OpenSSL's words; a missing client certificate comes first")
    func otherCauses() throws {
        #expect(try failure("certificate unknown", alert: 46).details.hasSuffix("failed: certificate unknown."))
        #expect(try failure("no route", reason: 1).details.hasSuffix("failed: no route."))
        let missing = try failure("handshake failure", alert: 40, isClientCertificateMissing: true)
        #expect(missing.details.contains("clientCertificate") && !missing.details.contains("ECDHE"))
    }

    @Test("a declined renegotiation says no more about the server than a refused connection")
    func renegotiation() throws {
        let error = HandshakeFailure.declinedRenegotiation(by: try TestSession.endpoint(port: 1))
        #expect(error.code == .tlsHandshakeFailed && error.originFailure == .unreachable)
    }

    @Test("the security policy's verdict comes before OpenSSL's words")
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

    @Test("every trust failure has its own code among the session's")
    func codes() {
        for failure in TrustFailure.allCases {
            #expect(SessionError.Code(rawValue: failure.rawValue) != nil, "\(failure)")
        }
    }
}
