// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import ServerTrust
@testable import SessionCore

@Suite("A refusal is final", .onOwnThreads)
struct FinalRefusalTests {
    /// The addresses that were about to be dialled, in order.
    private final class Dialled: Sendable {
        private let all = Monitor<[SocketAddress]>([])

        func note(_ address: SocketAddress) { all.with { $0.append(address) } }

        var addresses: [SocketAddress] { all.with { $0 } }
    }

    /// The host at `localhost`, which is 127.0.0.1 and ::1 without a name lookup; the system's routes decide which of them comes
    /// first.
    private func endpoint(
        port: UInt16,
        policy: SecurityPolicy,
        _ dialled: Dialled,
        refusing refused: SocketAddress? = nil
    ) throws -> Endpoint {
        Endpoint(
            scheme: .https,
            host: try Host(TestSession.host),
            port: 443,
            resolve: (host: try Host("localhost"), port: port),
            policy: policy,
            anchors: TestPKI.shared.anchors,
            generation: 1,
            dialRule: { address in
                dialled.note(address)
                return address == refused ? DialRefusal(rule: "test") : nil
            }
        )
    }

    @Test("a failed pin ends the request: no address is dialled again")
    func otherAddress() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let (ipv4, ipv6, port) = try TestSocket.listenOnBoth()
        let origins = try [ipv4, ipv6].map { descriptor in
            try ScriptedOrigin(server, on: (descriptor, port)) { connection in
                while let request = try connection.readRequest() {
                    try connection.write(OriginResponse.text(request.target))
                }
            }
        }
        let addresses = [SocketAddress.loopback(port: port), SocketAddress(ipv6Upper: 0, lower: 1, port: port)]
        func records() -> [ScriptedOrigin.Record] { origins.flatMap(\.connections) }

        // With a wrong pin one of the two is asked, once, although the other one would answer as well.
        let refused = Dialled()
        let delegate = try TestSession().get(endpoint(port: port, policy: .pinning(.unrelated(2)), refused))
        #expect(delegate.error?.code == .pinMismatch)
        let first = try #require(refused.addresses.first)
        #expect(refused.addresses == [first])
        let asked = try #require(addresses.firstIndex(of: first))
        #expect(try origins[asked].waitForClosed().count == 1)
        #expect(records().count == 1 && records().allSatisfy { $0.applicationBytes == 0 })

        // With the right one the same address serves.
        let passed = Dialled()
        #expect(try TestSession().get(endpoint(port: port, policy: .pinning(server.pin), passed)).text == "/")
        #expect(passed.addresses == [first])

        // The name does have another address, which serves where the first one is no address to go to.
        let moved = Dialled()
        let other = try endpoint(port: port, policy: .pinning(server.pin), moved, refusing: first)
        #expect(try TestSession().get(other).text == "/")
        #expect(moved.addresses == [first, addresses[1 - asked]])
    }

    @Test("73 a refusal is not remembered: the next request is evaluated anew")
    func nextRequest() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let origin = try ScriptedOrigin(server) { request in OriginResponse.text(request.target) }
        let session = try TestSession()
        let wrong = try TestSession.endpoint(port: origin.port, policy: .pinning(.unrelated(2)))
        for _ in 0..<3 { #expect(try session.get(wrong).error?.code == .pinMismatch) }
        #expect(try origin.waitForClosed(3).count == 3)
        let right = try TestSession.endpoint(port: origin.port, policy: .pinning(server.pin))
        #expect(try session.get(right).error == nil)
        #expect(origin.requests.count == 1)
    }

    @Test("a verdict holds for one host, policy, generation and time")
    func otherEndpoint() throws {
        let host = TestSession.host
        let server = try TestPKI.shared.server(host, "other.example.com")
        let policy = try SecurityPolicy.pinning(server.pin)
        let evaluation = policy.evaluate(
            chain: server.chain,
            host: try Host(host),
            anchors: TestPKI.shared.anchors
        )
        #expect(evaluation.verdict == .pass)
        let trust = ConnectionTrust(
            policy: policy,
            anchors: TestPKI.shared.anchors,
            generation: 1,
            evaluation: evaluation
        )
        let now = evaluation.goodUntil - 1
        #expect(try trust.holds(for: TestSession.endpoint(port: 1, policy: policy), at: now))
        #expect(try !trust.holds(for: TestSession.endpoint("other.example.com", port: 1, policy: policy), at: now))
        #expect(try !trust.holds(for: TestSession.endpoint(port: 1, policy: policy, generation: 2), at: now))
        #expect(try !trust.holds(for: TestSession.endpoint(port: 1, policy: .pinning(server.pin)), at: now))
        #expect(try !trust.holds(for: TestSession.endpoint(port: 1, policy: policy), at: now + 1))

        let wrong = try SecurityPolicy.pinning(.unrelated(2))
        let refusal = wrong.evaluate(chain: server.chain, host: try Host(host), anchors: TestPKI.shared.anchors)
        let refused = ConnectionTrust(
            policy: wrong,
            anchors: TestPKI.shared.anchors,
            generation: 1,
            evaluation: refusal
        )
        #expect(try !refused.holds(for: TestSession.endpoint(port: 1, policy: wrong), at: now))
    }
}
