// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Which evaluator applies to a host")
struct TrustManagerTests {
    private let pki: TestPKI
    private let server: TestServer

    init() throws {
        pki = try TestPKI()
        server = try pki.server(Scenario.host, "b.example.com")
    }

    private var trust: PresentedTrust {
        PresentedTrust(chain: server.chain, anchors: pki.anchors, time: Scenario.now)
    }

    @Test("a host has its own evaluator, in any spelling")
    func named() throws {
        let manager = try ServerTrustManager(evaluators: [
            "API.example.com.": PublicKeysTrustEvaluator(keys: [server.pin, .unrelated()]),
            "b.example.com": PublicKeysTrustEvaluator(keys: [.unrelated(1), .unrelated(2)]),
        ])
        let reports = try manager.evaluate(trust, forHost: Host(Scenario.host))
        #expect(reports.map(\.verdict) == [.pass])
        let error = #expect(throws: ServerTrustError.self) {
            try manager.evaluate(trust, forHost: Host("b.example.com"))
        }
        guard case .refused(let report) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(report.failure == .pinMismatch)
    }

    @Test("a host that is not named is refused by default")
    func allHostsMustBeEvaluated() throws {
        let manager = try ServerTrustManager(evaluators: ["example.com": DisabledTrustEvaluator()])
        let host = try Host(Scenario.host)
        let error = #expect(throws: ServerTrustError.self) { try manager.evaluate(trust, forHost: host) }
        guard case .noRequiredEvaluator(host) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(throws: ServerTrustError.self) { try manager.serverTrustEvaluator(forHost: host) }
    }

    @Test("where not all hosts need a policy, chain and host are checked for others")
    func others() throws {
        let manager = try ServerTrustManager(allHostsMustBeEvaluated: false, evaluators: [:])
        let host = try Host(Scenario.host)
        #expect(try manager.serverTrustEvaluator(forHost: host) == nil)
        #expect(try manager.evaluate(trust, forHost: host).map(\.verdict) == [.notPinned])
        let stranger = try TestPKI("unknown").server(Scenario.host)
        let untrusted = PresentedTrust(chain: stranger.chain, anchors: pki.anchors, time: Scenario.now)
        for (trust, name) in [(untrusted, Scenario.host), (trust, "c.example.com")] {
            #expect(throws: ServerTrustError.self) { try manager.evaluate(trust, forHost: Host(name)) }
        }
    }

    @Test(
        "a key that is no host name is refused, since it would pin nothing",
        arguments: ["https://api.example.com", "api.example.com:443", "*.example.com", "", "2130706433"]
    )
    func badName(name: String) {
        let fault = #expect(throws: ServerTrustManager.HostNameFault.self) {
            try ServerTrustManager(evaluators: [name: DefaultTrustEvaluator()])
        }
        #expect(fault?.name == name && fault?.message.isEmpty == false && fault?.remedy.isEmpty == false)
    }

    @Test("a host in two spellings is refused")
    func twice() {
        let fault = #expect(throws: ServerTrustManager.HostNameFault.self) {
            try ServerTrustManager(evaluators: [
                "api.example.com": DefaultTrustEvaluator(), "api.example.com.": DisabledTrustEvaluator(),
            ])
        }
        #expect(fault?.name == "api.example.com.")
    }
}
