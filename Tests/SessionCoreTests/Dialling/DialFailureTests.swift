// SPDX-License-Identifier: Apache-2.0
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

    @Test("up to four addresses' failures are reported, refusals by rules first")
    func several() throws {
        func outcome(_ count: Int, changing change: (inout DialFailure) -> Void = { _ in }) throws -> Dial.Outcome {
            let endpoint = try TestSession.endpoint(port: 1)
            var failures = (1...count).map {
                DialFailure(result: CURLE_COULDNT_CONNECT, details: "failure \($0)", endpoint: endpoint)
            }
            change(&failures[0])
            return DialFailure.outcome(of: failures)
        }
        func details(_ outcome: Dial.Outcome) -> String {
            switch outcome {
            case .failed(let error), .failedWithoutDescriptor(let error): error.details
            case .connected: ""
            }
        }
        let prefix = "api.example.com:443 could not be reached: "
        #expect(details(try outcome(1)) == prefix + "failure 1.")
        #expect(details(try outcome(3)) == prefix + "failure 1; failure 2; failure 3.")
        #expect(
            details(try outcome(6)) == prefix + "failure 1; failure 2; failure 3; failure 4; and 2 addresses more."
        )
        let missing = try outcome(2) { $0.isDescriptorMissing = true }
        guard case .failedWithoutDescriptor = missing else { throw TestFailure() }
        let refused = try outcome(2) { $0.refused = (.loopback(port: 1), DialRefusal(rule: "loopback")) }
        guard case .failed(let error) = refused else { throw TestFailure() }
        #expect(error.code == .addressDenied)
    }

    private struct TestFailure: Error {}

    @Test("a limit or rule of this process is no failure of the address")
    func itsOwn() throws {
        let endpoint = try TestSession.endpoint(port: 1)
        var failure = DialFailure(result: CURLE_COULDNT_CONNECT, details: "", endpoint: endpoint)
        #expect(failure.isItsOwn)
        failure.isDescriptorMissing = true
        #expect(!failure.isItsOwn)
        failure.isDescriptorMissing = false
        failure.refused = (.loopback(port: 1), DialRefusal(rule: "loopback"))
        #expect(!failure.isItsOwn)
        #expect(!DialFailure.withoutMemory(endpoint).isItsOwn)
    }
}
