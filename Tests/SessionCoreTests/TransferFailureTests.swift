import CLibcurl
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("What libcurl's errors mean")
struct TransferFailureTests {
    private func failure(
        _ result: CURLcode,
        details: String = "",
        evaluation: TrustEvaluation? = nil,
        refused: (SocketAddress, DialRefusal)? = nil,
        headReceived: Bool = false
    ) throws -> SessionError {
        TransferFailure(
            result: result,
            details: details,
            endpoint: try TestSession.endpoint(port: 1),
            evaluation: evaluation,
            refusedAddress: refused.map { (address: $0.0, refusal: $0.1) },
            headReceived: headReceived
        ).error
    }

    @Test(
        "each code has its meaning",
        arguments: [
            (CURLE_COULDNT_RESOLVE_HOST, SessionError.Code.dnsFailed), (CURLE_COULDNT_CONNECT, .connectFailed),
            (CURLE_SSL_CONNECT_ERROR, .tlsHandshakeFailed), (CURLE_PEER_FAILED_VERIFICATION, .tlsHandshakeFailed),
            (CURLE_SSL_CIPHER, .tlsHandshakeFailed), (CURLE_PARTIAL_FILE, .responseTruncated),
            (CURLE_GOT_NOTHING, .responseTruncated), (CURLE_RECV_ERROR, .responseTruncated),
            (CURLE_SEND_ERROR, .responseTruncated), (CURLE_HTTP2, .responseTruncated),
            (CURLE_HTTP2_STREAM, .responseTruncated), (CURLE_SEND_FAIL_REWIND, .responseTruncated),
            (CURLE_WEIRD_SERVER_REPLY, .responseInvalid), (CURLE_UNSUPPORTED_PROTOCOL, .responseInvalid),
            (CURLE_FAILED_INIT, .internal), (CURLE_BAD_FUNCTION_ARGUMENT, .internal),
        ]
    )
    func codes(result: CURLcode, code: SessionError.Code) throws {
        let error = try failure(result)
        #expect(error.code == code)
        #expect(!error.details.isEmpty)
        #expect(error.evaluation == nil)
    }

    @Test(
        "a handshake counts as cut by the words for a reset and an end alone, and never behind a chain",
        arguments: [
            ("Recv failure: Connection reset by peer", true), ("Send failure: Broken pipe", true),
            ("OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to api.example.com:443 ", true),
            ("TLS connect error: error:0A000126:SSL routines::unexpected eof while reading", true),
            ("error:0A000410:SSL routines::ssl/tls alert handshake failure", false),
            ("error:0A00010B:SSL routines::wrong version number", false), ("", false),
        ]
    )
    func cutHandshake(words: String, isCut: Bool) throws {
        var failure = TransferFailure(
            result: CURLE_SSL_CONNECT_ERROR,
            details: words,
            endpoint: try TestSession.endpoint(port: 1),
            evaluation: nil,
            refusedAddress: nil,
            headReceived: false
        )
        #expect(failure.error.isHandshakeCut == isCut)
        #expect(failure.error.originFailure == (isCut ? .unreachable : .untrusted))
        failure.hasSeenChain = true
        #expect(!failure.error.isHandshakeCut && failure.error.originFailure == .untrusted)
    }

    @Test("libcurl's own words are passed on, without a doubled full stop")
    func words() throws {
        let error = try failure(CURLE_COULDNT_CONNECT, details: "Connection refused by the moon.\n")
        #expect(error.details == "api.example.com:443 could not be reached: Connection refused by the moon.")
    }

    @Test("an address that the rules refuse is named, with the rule and the remedy")
    func refusedAddress() throws {
        let address = SocketAddress(ipv4: 0xA9FE_A9FE, port: 80)
        let error = try failure(CURLE_COULDNT_CONNECT, refused: (address, DialRefusal(rule: "metadata")))
        #expect(error.code == .addressDenied)
        #expect(error.details.contains("169.254.169.254"))
        #expect(error.details.contains("metadata"))
    }

    @Test("an answer that breaks off and none at all are told apart")
    func brokenOff() throws {
        #expect(try failure(CURLE_RECV_ERROR, headReceived: true).details.contains("broke off its answer"))
        #expect(try failure(CURLE_RECV_ERROR).details.contains("without an answer"))
    }

    @Test("what the security policy found goes before what libcurl says")
    func trust() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let policy = try SecurityPolicy.pinning(.unrelated(7))
        let evaluation = policy.evaluate(
            chain: server.chain,
            host: try Host(TestSession.host),
            anchors: TestPKI.shared.anchors
        )
        #expect(evaluation.verdict == .fail)
        let error = try failure(CURLE_SSL_CONNECT_ERROR, details: "certificate verify failed", evaluation: evaluation)
        #expect(error.code == .pinMismatch)
        #expect(error.evaluation === evaluation)
        #expect(!error.details.contains("certificate verify failed"))
    }

    @Test("every failure of the trust has a code of its own among the session's")
    func trustCodes() {
        for failure in TrustFailure.allCases {
            #expect(SessionError.Code(rawValue: failure.rawValue) != nil, "\(failure)")
        }
    }
}
