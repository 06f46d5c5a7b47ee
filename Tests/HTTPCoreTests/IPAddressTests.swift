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
        "what is no address is refused",
        arguments: [
            "", ":", ":::", "1:", ":1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "g::", "::1%lo",
            "1.2.3",
            "1.2.3.4.", "01.2.3.4", "1.2.3.256", "::1.2.3", "1.2.3.4::", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:6:7::8",
            "::1:2:3:4:5:6:7:8", " ::1", "1:2:3:4:5:6:7:8:",
        ]
    )
    func refused(text: String) {
        // Eight groups with `::` between them leave nothing for it to stand for.
        #expect(IPAddress(text) == nil)
    }

    @Test(
        "an IPv6 address that embeds an IPv4 address says which",
        arguments: [
            ("::ffff:127.0.0.1", "127.0.0.1"), ("64:ff9b::10.0.0.1", "10.0.0.1"), ("2002:7f00:1::", "127.0.0.1"),
            ("::127.0.0.1", "127.0.0.1"),
        ]
    )
    func embedded(text: String, inner: String) throws {
        #expect(try #require(IPAddress(text)).embeddedIPv4 == IPAddress(inner))
    }

    @Test("other addresses embed none", arguments: ["::", "::1", "2001:db8::1", "127.0.0.1", "64:ff9b:1::1.2.3.4"])
    func notEmbedded(text: String) throws {
        #expect(try #require(IPAddress(text)).embeddedIPv4 == nil)
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
