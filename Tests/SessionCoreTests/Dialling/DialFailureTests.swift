import CLibcurl
import IOCore
import Testing

@testable import SessionCore

@Suite("The meaning of libcurl's errors for a dial")
struct DialFailureTests {
    private func failure(
        _ result: CURLcode,
        details: String = "",
        refused: (SocketAddress, DialRefusal)? = nil
    ) throws -> SessionError {
        DialFailure(
            result: result,
            details: details,
            endpoint: try TestSession.endpoint(port: 1),
            refused: refused.map { (address: $0.0, refusal: $0.1) }
        ).error
    }

    @Test(
        "each code has its meaning",
        arguments: [
            (CURLE_COULDNT_RESOLVE_HOST, SessionError.Code.dnsFailed), (CURLE_COULDNT_RESOLVE_PROXY, .dnsFailed),
            (CURLE_COULDNT_CONNECT, .connectFailed), (CURLE_PROXY, .proxyRefused), (CURLE_RECV_ERROR, .connectFailed),
            (CURLE_OUT_OF_MEMORY, .connectFailed),
        ]
    )
    func codes(result: CURLcode, code: SessionError.Code) throws {
        let error = try failure(result)
        #expect(error.code == code)
        #expect(!error.details.isEmpty && error.evaluation == nil)
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
        #expect(error.details.contains("169.254.169.254") && error.details.contains("metadata"))
    }
}
