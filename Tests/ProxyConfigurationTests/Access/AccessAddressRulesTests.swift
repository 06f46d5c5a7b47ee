// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import ProxyConfiguration

@Suite("address rules")
struct AccessAddressRulesTests {
    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text), "\(text)") }

    private func isDenied(_ text: String, by group: AddressGroup) throws -> Bool {
        AddressRules(denying: [.group(group)]).evaluate(try address(text), port: 443) != .allowed
    }

    @Test(
        "a group begins and ends where its blocks do",
        arguments: [
            (
                AddressGroup.loopback, ["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"],
                ["126.255.255.255", "128.0.0.0", "::2"]
            ),
            (
                .linkLocal, ["169.254.0.0", "169.254.255.255", "fe80::", "fe80::1", "febf:ffff::1"],
                ["169.253.255.255", "169.255.0.0", "fe7f::1", "fec0::1"]
            ),
            (
                .metadata,
                ["169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16"],
                [
                    "169.254.169.253", "169.254.169.255", "fd00:ec2::253", "fd20:ce::253", "100.100.100.201",
                    "168.63.129.15",
                ]
            ),
            (
                .multicast, ["224.0.0.0", "239.255.255.255", "ff00::", "ff02::1"],
                ["223.255.255.255", "240.0.0.0", "feff::1"]
            ),
            (.unspecified, ["0.0.0.0", "0.255.255.255", "::"], ["1.0.0.0", "::1:0:0:0"]),
            (
                .private,
                [
                    "10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255",
                    "fc00::", "fdff::1", "fec0::1",
                ],
                [
                    "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
                    "fbff::1", "fe00::1",
                ]
            ),
            (.cgnat, ["100.64.0.0", "100.127.255.255"], ["100.63.255.255", "100.128.0.0"]),
        ] as [(AddressGroup, [String], [String])]
    )
    func groupEdges(group: AddressGroup, inside: [String], outside: [String]) throws {
        for text in inside { #expect(try isDenied(text, by: group), "\(text) is \(group.rawValue)") }
        for text in outside { #expect(try !isDenied(text, by: group), "\(text) is not \(group.rawValue)") }
    }

    @Test("every group but self has blocks of its own")
    func groupsHaveBlocks() {
        let counts: [AddressGroup: Int] = [
            .own: 0, .loopback: 2, .linkLocal: 2, .metadata: 5, .multicast: 2, .unspecified: 2, .private: 5, .cgnat: 1,
        ]
        for group in AddressGroup.allCases { #expect(group.blocks.count == counts[group], "\(group.rawValue)") }
    }

    @Test(
        "an IPv6 address that embeds an IPv4 address is judged as both",
        arguments: [
            "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2002:7f00:0001:1234::5", "::ffff:0:127.0.0.1", "64:ff9b:1::127.0.0.1", "64:ff9b:1:7f00:0:100::",
            "64:ff9b:1:7f:0:1::", "64:ff9b:1::7f:0:100:0", "2001:0:4136:e378:8000:63bf:80ff:fffe",
            "fe80::5efe:127.0.0.1", "2001:db8::200:5efe:7f00:1",
        ]
    )
    func embeddedIPv4(text: String) throws {
        #expect(try isDenied(text, by: .loopback))
        #expect(try !isDenied(text, by: .private))
    }

    @Test(
        "every group with IPv4 blocks covers embedded addresses",
        arguments: [
            (AddressGroup.linkLocal, "169.254.1.1"), (.metadata, "169.254.169.254"), (.multicast, "224.0.0.1"),
            (.unspecified, "0.0.0.0"), (.private, "10.1.2.3"), (.cgnat, "100.64.1.1"),
        ]
    )
    func embeddedGroups(group: AddressGroup, text: String) throws {
        #expect(try isDenied(text, by: group))
        #expect(try isDenied("::ffff:\(text)", by: group))
        for prefix in ["64:ff9b::", "::ffff:0:", "2001:db8::5efe:", "2001:db8::200:5efe:"] {
            #expect(try isDenied("\(prefix)\(text)", by: group), "\(prefix)")
        }
    }

    @Test("a public address in an embedding form is allowed")
    func embeddedPublicAddress() throws {
        let rules = AddressRules(denying: AddressGroup.allCases.map(AddressRule.group))
        for text in [
            "192.0.2.1", "::ffff:192.0.2.1", "64:ff9b::192.0.2.1", "2002:c000:201::1", "2001:db8::1",
            "64:ff9b:1::192.0.2.1", "64:ff9b:1:fffe::192.0.2.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:db8::5efe:192.0.2.1", "::ffff:0:192.0.2.1",
        ] {
            #expect(rules.evaluate(try address(text), port: 443) == .allowed, "\(text)")
        }
    }

    @Test("an IPv6 block holds for an embedding address as it stands")
    func blockOfTheEmbeddingForm() throws {
        let rules = AddressRules(denying: [.block(try AddressBlock(parsing: "2002::/16"))])
        #expect(rules.evaluate(try address("2002:c000:201::1"), port: 443) == .denied(rule: 0))
        #expect(rules.evaluate(try address("192.0.2.1"), port: 443) == .allowed)
    }

    @Test(
        "a block contains its first and last address and no neighbour",
        arguments: [
            (
                "198.51.100.64/26", ["198.51.100.64", "198.51.100.127"],
                ["198.51.100.63", "198.51.100.128", "2001:db8::1"]
            ),
            ("198.51.100.7", ["198.51.100.7"], ["198.51.100.6", "198.51.100.8"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["2001:db8::1"]),
            ("::/0", ["2001:db8::1", "::"], ["192.0.2.1"]),
            ("2001:db8::/33", ["2001:db8::", "2001:db8:7fff:ffff::1"], ["2001:db8:8000::", "2001:db7:ffff::"]),
            ("2001:db8::/64", ["2001:db8::ffff:0:0:1"], ["2001:db8:0:1::"]),
            ("2001:db8::8000:0:0:0/65", ["2001:db8::8000:0:0:1"], ["2001:db8::7fff:ffff:ffff:ffff"]),
            ("2001:db8::1", ["2001:db8::1"], ["2001:db8::2", "2001:db8:0:1::1"]),
        ] as [(String, [String], [String])]
    )
    func blocks(text: String, inside: [String], outside: [String]) throws {
        let block = try AddressBlock(parsing: text)
        for text in inside { #expect(block.contains(try address(text)), "\(text)") }
        for text in outside { #expect(!block.contains(try address(text)), "\(text)") }
    }

    @Test(
        "an invalid block is refused with its reason",
        arguments: [
            ("", AddressBlock.Fault.notAnAddress), ("loopbak", .notAnAddress), ("10.0.0/8", .notAnAddress),
            ("10.0.0.0/", .prefixInvalid), ("10.0.0.0/33", .prefixInvalid), ("10.0.0.0/08", .prefixInvalid),
            ("10.0.0.0/+8", .prefixInvalid), ("10.0.0.0/8/8", .prefixInvalid), ("2001:db8::/129", .prefixInvalid),
            ("10.0.0.1/8", .hostBitsSet("10.0.0.0/8")), ("2001:db8::1/64", .hostBitsSet("2001:db8::/64")),
            ("::ffff:10.0.0.0/104", .mappedIPv4),
        ]
    )
    func badBlocks(text: String, fault: AddressBlock.Fault) {
        #expect(throws: fault) { try AddressBlock(parsing: text) }
    }

    @Test("the verdict names the rule that denied")
    func verdictNamesTheRule() throws {
        var configuration = AccessConfiguration()
        configuration.denyAddresses = [.group(.loopback), .block(try AddressBlock(parsing: "198.51.100.0/24"))]
        let rules = AccessRules(configuration)
        let verdict = rules.evaluate(try address("198.51.100.9"), port: 443)
        #expect(verdict == .denied(rule: 1))
        #expect(rules.describe(verdict) == "access.denyAddresses has \"198.51.100.0/24\"")
        #expect(rules.describe(rules.evaluate(try address("::1"), port: 1)) == "access.denyAddresses has \"loopback\"")
    }

    @Test("a resolve's exact address and port is allowed, and nothing beside it")
    func exemption() throws {
        let rules = AddressRules(denying: [.group(.loopback)])
        let resolve = AddressAndPort(try address("127.0.0.1"), 8443)
        #expect(rules.evaluate(try address("127.0.0.1"), port: 8443, exempting: resolve) == .allowed)
        #expect(rules.evaluate(try address("::ffff:127.0.0.1"), port: 8443, exempting: resolve) == .allowed)
        #expect(rules.evaluate(try address("127.0.0.1"), port: 8443) == .denied(rule: 0))
        #expect(rules.evaluate(try address("127.0.0.1"), port: 8444, exempting: resolve) == .denied(rule: 0))
        #expect(rules.evaluate(try address("127.0.0.2"), port: 8443, exempting: resolve) == .denied(rule: 0))
        #expect(rules.evaluate(try address("::1"), port: 8443, exempting: resolve) == .denied(rule: 0))
    }

    @Test("our own listeners are denied whatever the rules and exemptions say")
    func ownListeners() throws {
        let own = AddressAndPort(try address("127.0.0.1"), 8080)
        let rules = AddressRules(denying: [], ownListeners: [own])
        for text in ["127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "::", "64:ff9b::127.0.0.1"] {
            #expect(rules.evaluate(try address(text), port: 8080) == .deniedOwnListener, "\(text)")
        }
        #expect(rules.evaluate(try address("127.0.0.1"), port: 8080, exempting: own) == .deniedOwnListener)
        #expect(rules.evaluate(try address("127.0.0.1"), port: 8081) == .allowed)
        #expect(rules.evaluate(try address("192.0.2.1"), port: 8080) == .allowed)
    }

    @Test("a wildcard listener is denied at every address of this machine")
    func wildcardListener() throws {
        for wildcard in ["0.0.0.0", "::"] {
            let rules = AddressRules(
                denying: [],
                ownListeners: [AddressAndPort(try address(wildcard), 8080)],
                destination: try machine("192.0.2.7", "2001:db8::7")
            )
            for text in [
                "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7",
                "64:ff9b::192.0.2.7", "2002:c000:207::", "64:ff9b::127.0.0.1",
            ] {
                #expect(rules.evaluate(try address(text), port: 8080) == .deniedOwnListener, "\(text)")
            }
            #expect(rules.evaluate(try address("192.0.2.8"), port: 8080) == .allowed)
            #expect(rules.evaluate(try address("192.0.2.7"), port: 8081) == .allowed)
        }
    }

    /// A machine with these addresses, in place of the kernel.
    private func machine(_ texts: String...) throws -> AddressRules.Destination {
        let own = try texts.map { try address($0) }
        return { own.contains($0) ? .thisMachine : .elsewhere }
    }

    @Test("the group self has this machine's addresses, embedded ones too")
    func ownAddresses() throws {
        let rules = AddressRules(
            denying: [.group(.metadata), .group(.own)],
            destination: try machine("192.0.2.7", "2001:db8::7")
        )
        for text in ["192.0.2.7", "2001:db8::7", "2002:c000:207::1", "64:ff9b::192.0.2.7", "::ffff:192.0.2.7"] {
            #expect(rules.evaluate(try address(text), port: 443) == .denied(rule: 1), "\(text)")
        }
        for text in ["192.0.2.8", "2001:db8::8", "2002:c000:208::1"] {
            #expect(rules.evaluate(try address(text), port: 443) == .allowed, "\(text)")
        }
        let resolve = AddressAndPort(try address("192.0.2.7"), 8443)
        #expect(rules.evaluate(resolve.address, port: 8443, exempting: resolve) == .allowed)
        #expect(rules.evaluate(resolve.address, port: 8444, exempting: resolve) == .denied(rule: 1))
        let without = AddressRules(denying: [.group(.metadata)], destination: try machine("192.0.2.7"))
        #expect(without.evaluate(resolve.address, port: 443) == .allowed)
    }

    @Test("without the kernel's help, addresses that it would decide are not dialled")
    func undecided() throws {
        let failure = IOFailure(code: 1, during: "netlink route")
        let wildcard = AddressAndPort(try address("0.0.0.0"), 8080)
        let rules = AddressRules(
            denying: [.group(.own)],
            ownListeners: [wildcard],
            destination: { _ in .unknown(failure) }
        )
        #expect(rules.evaluate(try address("192.0.2.7"), port: 443) == .undecided(failure))
        #expect(rules.evaluate(try address("127.0.0.1"), port: 8080) == .deniedOwnListener)
        let text = AccessRules(AccessConfiguration()).describe(.undecided(failure))
        #expect(text.contains("netlink") && text.contains("Operation not permitted"), "\(text)")
        let open = AddressRules(denying: [], ownListeners: [wildcard], destination: { _ in .unknown(failure) })
        #expect(open.evaluate(try address("192.0.2.7"), port: 443) == .allowed)
        #expect(open.evaluate(try address("192.0.2.7"), port: 8080) == .undecided(failure))
    }

    @Test("the kernel distinguishes this machine's own addresses")
    func kernel() throws {
        for (text, response) in [
            ("127.0.0.1", RouteLookup.Destination.thisMachine), ("127.9.9.9", .thisMachine), ("192.0.2.1", .elsewhere),
            ("2001:db8::1", .elsewhere),
        ] {
            let place = AddressAndPort(try address(text), 0).socketAddress
            #expect(RouteLookup.destination(of: place) == response, "\(text)")
        }
    }
}
