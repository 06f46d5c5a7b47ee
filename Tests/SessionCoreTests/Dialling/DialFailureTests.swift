// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore
import Testing

@testable import SessionCore

@Suite("The failure of a dial")
struct DialFailureTests {
    private func failure(
        _ cause: DialFailure.Cause,
        details: String = "some reason",
        refused: (SocketAddress, DialRefusal)? = nil
    ) throws -> SessionError {
        DialFailure(
            cause: cause,
            details: details,
            endpoint: try TestSession.endpoint(port: 1),
            refused: refused.map { (address: $0.0, refusal: $0.1) }
        ).error
    }

    @Test(
        "each of libcurl's results has its meaning (libcurl-errors(3))",
        arguments: [
            (6, DialFailure.Cause.unknownHost, SessionError.Code.dnsFailed), (5, .unknownProxy, .dnsFailed),
            (7, .noConnection, .connectFailed), (97, .refusedByProxy, .proxyRefused), (56, .other, .connectFailed),
            (27, .noMemory, .connectFailed),
        ] as [(Int32, DialFailure.Cause, SessionError.Code)]
    )
    func codes(result: Int32, cause: DialFailure.Cause, code: SessionError.Code) throws {
        #expect(DialFailure.Cause(pinproxy_socks_end_of(result)) == cause)
        let error = try failure(cause)
        #expect(error.code == code)
        #expect(error.details.contains("some reason") && error.evaluation == nil)
        #expect(pinproxy_socks_end_of(0) == PINPROXY_SOCKS_CONNECTED)
    }

    @Test("libcurl is loaded once, and says its version")
    func library() {
        #expect(SOCKSLibrary.load() == nil && SOCKSLibrary.load() == nil)
        #expect(SOCKSLibrary.version?.contains(".") == true)
    }

    @Test("the words are passed on, without a doubled full stop")
    func words() throws {
        let error = try failure(.noConnection, details: "Connection refused by the moon.\n")
        #expect(error.details == "api.example.com:443 could not be reached: Connection refused by the moon.")
    }

    @Test("an address that the rules refuse is named, with the rule and the remedy")
    func refusedAddress() throws {
        let address = SocketAddress(ipv4: 0xA9FE_A9FE, port: 80)
        let error = try failure(.noConnection, refused: (address, DialRefusal(rule: "metadata")))
        #expect(error.code == .addressDenied)
        #expect(error.details.contains("169.254.169.254") && error.details.contains("metadata"))
    }

    @Test("up to four addresses' failures are reported, refusals by rules first")
    func several() throws {
        func outcome(_ count: Int, changing change: (inout DialFailure) -> Void = { _ in }) throws -> Dial.Outcome {
            let endpoint = try TestSession.endpoint(port: 1)
            var failures = (1...count).map {
                DialFailure(cause: .noConnection, details: "failure \($0)", endpoint: endpoint)
            }
            change(&failures[0])
            return Dial.Outcome(failures)
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

    @Test(
        "the error's code tells what this machine lacks from the address's failures",
        arguments: [
            (EMFILE, true), (ENFILE, true), (ENOBUFS, true), (ENOMEM, true), (ENOSPC, true), (EADDRNOTAVAIL, false),
            (ECONNREFUSED, false), (ETIMEDOUT, false), (ENETUNREACH, false), (EHOSTUNREACH, false), (EACCES, false),
            (EAFNOSUPPORT, false),
        ] as [(Int32, Bool)]
    )
    func lacks(code: Int32, isOfDescriptors: Bool) throws {
        // As a dial tells it.
        let loop = try EventLoop()
        let dial = TCPDial(.loopback(port: 1), for: try TestSession.endpoint(port: 1), loop: loop) { _, _ in }
        let failure = dial.failure(code)
        #expect(failure.isDescriptorMissing == isOfDescriptors && failure.isItsOwn == !isOfDescriptors)
        #expect(failure.cause == .noConnection && failure.details.hasSuffix(String(cString: strerror(code))))
    }

    @Test("a limit or rule of this process is no failure of the address")
    func itsOwn() throws {
        let endpoint = try TestSession.endpoint(port: 1)
        var failure = DialFailure(cause: .noConnection, details: "", endpoint: endpoint)
        #expect(failure.isItsOwn)
        failure.isDescriptorMissing = true
        #expect(!failure.isItsOwn)
        failure.isDescriptorMissing = false
        failure.refused = (.loopback(port: 1), DialRefusal(rule: "loopback"))
        #expect(!failure.isItsOwn)
        #expect(!DialFailure.withoutMemory(endpoint).isItsOwn)
        #expect(!DialFailure(cause: .noLibrary, details: "", endpoint: endpoint).isItsOwn)
    }
}
