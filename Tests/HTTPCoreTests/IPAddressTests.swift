// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@Suite("IP addresses as values")
struct IPAddressTests {
    @Test(
        "text goes in and comes out in the canonical form of RFC 5952",
        arguments: [
            ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
            ("2001:0db8:0000:0000:0001:0000:0000:0001", "2001:db8::1:0:0:1"), ("1:0:2:0:3:0:4:0", "1:0:2:0:3:0:4:0"),
            ("1::2:3:4:5:6:7", "1:0:2:3:4:5:6:7"), ("::ffff:1.2.3.4", "1.2.3.4"), ("::FFFF:0102:0304", "1.2.3.4"),
            ("::fffe:1.2.3.4", "::fffe:102:304"), ("::1:ffff:1.2.3.4", "::1:ffff:102:304"),
            ("64:ff9b::192.0.2.1", "64:ff9b::c000:201"), ("0:0:1::", "0:0:1::"), ("1.2.3.4", "1.2.3.4"),
            ("fe80::aBcD", "fe80::abcd"), ("0:0:0:1:0:0:0:0", "0:0:0:1::"),
            ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
        ]
    )
    func canonicalText(written: String, canonical: String) throws {
        let address = try #require(IPAddress(written))
        #expect(address.description == canonical)
        #expect(IPAddress(canonical) == address)
        let bytes = address.networkOrder
        #expect(IPAddress(networkOrder: bytes.span) == address)
    }

    @Test(
        "text that is no address is refused",
        arguments: [
            "", ":", ":::", "1:", ":1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::", "::1%lo",
            "1.2.3",
            "1.2.3.4.", "01.2.3.4", "1.2.3.256", "::1.2.3", "1.2.3.4::", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:6:7::8",
            "::1:2:3:4:5:6:7:8", " ::1", "1:2:3:4:5:6:7:8:",
        ]
    )
    func refused(text: String) {
        // With eight groups `::` represents no group.
        #expect(IPAddress(text) == nil)
    }

    @Test("an IPv4-mapped IPv6 address is always the IPv4 address")
    func mapped() throws {
        let address = try #require(IPAddress("192.0.2.1"))
        #expect(IPAddress(ipv6High: 0, low: 0xFFFF_C000_0201) == address)
        let bytes: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1]
        #expect(IPAddress(networkOrder: bytes.span) == address)
        #expect(IPAddress("::ffff:c000:201") == address && address.isIPv4)
    }

    /// All IPv4 addresses that an address may embed.
    private func embedded(_ text: String) throws -> [String] {
        var found: [String] = []
        let isFound = try #require(IPAddress(text)).embedsIPv4 { address in
            found.append("\(address)")
            return false
        }
        #expect(!isFound)
        return found
    }

    @Test(
        "an IPv6 address that embeds an IPv4 address says which",
        arguments: [
            ("64:ff9b::10.0.0.1", ["10.0.0.1"]), ("2002:7f00:1::", ["127.0.0.1"]),
            ("2002:7f00:1:1234::5", ["127.0.0.1"]), ("::127.0.0.1", ["127.0.0.1"]),
            ("::ffff:0:127.0.0.1", ["127.0.0.1"]),
            // RFC 6052, section 2.4, with the prefix of RFC 8215.
            ("64:ff9b:1:c000:2:2100::", ["192.0.2.33", "2.33.0.0"]),
            ("64:ff9b:1:1c0:0:221::", ["1.192.0.2", "192.0.2.33"]),
            ("64:ff9b:1:100:c0:2:2100::", ["1.0.192.0", "192.0.2.33", "33.0.0.0"]),
            ("64:ff9b:1::192.0.2.33", ["192.0.2.33"]), ("64:ff9b:1:7f00:ff:1::", ["127.0.255.0", "255.0.1.0"]),
            // RFC 4380, section 4: the client is 192.0.2.45.
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", ["192.0.2.45"]),
            ("fe80::5efe:192.0.2.143", ["192.0.2.143"]), ("2001:db8::200:5efe:127.0.0.1", ["127.0.0.1"]),
            ("fd00:1:2:3:0:5efe:7f00:1", ["127.0.0.1"]),
        ] as [(String, [String])]
    )
    func embedded(text: String, inner: [String]) throws {
        #expect(try embedded(text) == inner)
        for one in inner {
            let isFound = try #require(IPAddress(text)).embedsIPv4 { $0 == IPAddress(one) }
            #expect(isFound, "\(one)")
        }
    }

    @Test(
        "other addresses embed none",
        arguments: [
            "::", "::1", "2001:db8::1", "127.0.0.1", "64:ff9b:2::1.2.3.4", "2001:1::1.2.3.4", "2003:7f00:1::",
            "2001:db8::100:5efe:127.0.0.1", "2001:db8::5eff:127.0.0.1", "::fffe:0:127.0.0.1", "64:ff9b:1::",
        ]
    )
    func notEmbedded(text: String) throws {
        #expect(try embedded(text) == [])
    }

    @Test("a prefix covers its block and nothing of the other family")
    func prefixes() throws {
        let network = try #require(IPAddress("10.0.0.0"))
        #expect(try #require(IPAddress("10.255.0.1")).hasPrefix(of: network, length: 8))
        #expect(try !#require(IPAddress("11.0.0.1")).hasPrefix(of: network, length: 8))
        #expect(try #require(IPAddress("192.0.2.1")).hasPrefix(of: network, length: 0))
        #expect(try !#require(IPAddress("::1")).hasPrefix(of: network, length: 0))
        let block = try #require(IPAddress("fd00:ec2::254"))
        #expect(block.hasPrefix(of: block, length: 128))
        #expect(try #require(IPAddress("fd00:ec2::1")).hasPrefix(of: block, length: 64))
        #expect(try #require(IPAddress("fd00:ec2::1")).hasPrefix(of: block, length: 100))
        #expect(try !#require(IPAddress("fd00:ec2::1")).hasPrefix(of: block, length: 127))
        #expect(try !#require(IPAddress("fd01::1")).hasPrefix(of: block, length: 16))
    }
}
