// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Connections that are made to a transparent listener itself")
struct RedirectionRuleTests {
    /// The machine has 192.0.2.1.
    private func rules(_ listeners: String...) throws -> AddressRules {
        AddressRules(
            denying: [.group(.own), .group(.loopback)],
            ownListeners: try listeners.map { try AddressAndPort(parsing: $0) },
            destination: { $0 == IPAddress(ipv4: 0xC000_0201) ? .thisMachine : .elsewhere }
        )
    }

    private func code(_ original: String, _ rules: AddressRules) throws -> Problem.Code? {
        RedirectionRule.refusal(to: try AddressAndPort(parsing: original), under: rules)?.code
    }

    @Test("an own listener's address is refused, in each spelling, and no other address")
    func ownListener() throws {
        let rules = try rules("127.0.0.1:15001", "[::1]:15001")
        for original in ["127.0.0.1:15001", "[::1]:15001", "[::ffff:127.0.0.1]:15001"] {
            #expect(try code(original, rules) == .misdirectedRequest, "\(original)")
        }
        // Whether these may be dialled is asked when the route is known.
        for original in ["127.0.0.1:443", "192.0.2.1:15001", "192.0.2.9:15001", "[2001:db8::1]:443"] {
            #expect(try code(original, rules) == nil, "\(original)")
        }
    }

    @Test("a listener at all addresses is this machine's own at each of them")
    func everyAddress() throws {
        let rules = try rules("0.0.0.0:15001")
        #expect(try code("192.0.2.1:15001", rules) == .misdirectedRequest)
        #expect(try code("127.0.0.1:15001", rules) == .misdirectedRequest)
        #expect(try code("192.0.2.9:15001", rules) == nil)
        #expect(try code("192.0.2.1:443", rules) == nil)
    }

    @Test(
        "each reason has an alert of TLS",
        arguments: [(403, 49), (508, 49), (421, 112), (502, 80), (504, 80), (503, 80)]
    )
    func alerts(status: Int, alert: UInt8) {
        #expect(RedirectionRule.alert(ofStatus: status) == alert)
    }
}
