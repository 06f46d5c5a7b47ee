// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@Suite("Authorities that a head has seen before")
struct KnownAuthorityTests {
    private static let targets = [
        "http://a.example/x", "http://a.example/y", "https://a.example/", "http://a.example:8080/",
        "http://a.example.:8080/", "http://A.example/", "http://a.example", "http://127.0.0.1:1/", "http://127.1/",
        "http://[::1]:2/", "http://[::1]:2/", "http://a.example:/", "http://a.example:70000/", "http://u@a.example/",
        "http://a..b/", "http://b.example/",
    ]

    private struct Facts: Equatable {
        var outcome: RequestParser.Outcome
        var host = ""
        var rawHost = ""
        var target = ""
        var port: UInt16?
        var explicitPort: UInt16?
        var kind: Host.Kind?
    }

    /// Parses into a head that was used before, or into a fresh one.
    private func facts(_ target: String, _ head: inout RequestHead) -> Facts {
        var parser = RequestParser()
        let text = "GET \(target) HTTP/1.1\r\nHost: a.example\r\n\r\n"
        let outcome = parser.parse(Array(text.utf8).span, into: &head).outcome
        guard outcome == .complete else { return Facts(outcome: outcome) }
        return Facts(
            outcome: outcome,
            host: String(copying: head.hostBytes),
            rawHost: String(copying: head.rawHost),
            target: String(copying: head.target),
            port: head.port,
            explicitPort: head.explicitPort,
            kind: head.hostKind
        )
    }

    @Test("a used head finds the same as a fresh one, whatever came before")
    func same() {
        var used = RequestHead()
        for first in Self.targets {
            for second in Self.targets {
                _ = facts(first, &used)
                var fresh = RequestHead()
                #expect(facts(second, &used) == facts(second, &fresh), "\(second) behind \(first)")
            }
        }
    }
}
