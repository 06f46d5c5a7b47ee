// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@Suite("Hosts in their normal form")
struct HostTests {
    @Test(
        "a name is lower case and loses one trailing dot",
        arguments: [
            ("EXAMPLE.com", "example.com"), ("example.com.", "example.com"),
            ("xn--BCHER-kva.example", "xn--bcher-kva.example"),
            ("a_b-c.example", "a_b-c.example"), ("localhost", "localhost"), ("1.example", "1.example"),
            ("0x7f.example", "0x7f.example"), ("3com", "3com"),
        ]
    )
    func namesAreNormalized(written: String, normal: String) throws {
        let host = try Host(written)
        #expect(host.kind == .name)
        #expect(host.description == normal)
        #expect(host.address == nil)
    }

    @Test(
        "an IPv4 address is four decimal numbers",
        arguments: [("127.0.0.1", "127.0.0.1"), ("255.255.255.255.", "255.255.255.255"), ("0.0.0.0", "0.0.0.0")]
    )
    func ipv4Literals(written: String, normal: String) throws {
        let host = try Host(written)
        #expect(host.kind == .ipv4)
        #expect(host.description == normal)
        #expect(host.address?.isIPv4 == true)
    }

    @Test(
        "an IPv6 address is compared by value in any spelling",
        arguments: [
            ("[::1]", "::1"), ("[0:0:0:0:0:0:0:1]", "::1"), ("[2001:DB8::0:1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"), ("[64:ff9b::7f00:1]", "64:ff9b::7f00:1"),
            ("[::ffff:0:127.0.0.1]", "::ffff:0:7f00:1"), ("[::127.0.0.1]", "::7f00:1"),
        ]
    )
    func ipv6Literals(written: String, normal: String) throws {
        let host = try Host(written)
        #expect(host.kind == .ipv6)
        #expect(host.description == normal)
        #expect(host.authorityText == "[\(normal)]")
        #expect(try host == Host("[\(normal)]"))
    }

    @Test(
        "an IPv4-mapped IPv6 literal is its IPv4 address in any spelling",
        arguments: [
            "[::ffff:127.0.0.1]", "::ffff:127.0.0.1", "[::FFFF:7F00:1]", "[0:0:0:0:0:ffff:7f00:0001]",
            "[0::ffff:127.0.0.1]", "[0000:0000:0000:0000:0000:ffff:127.0.0.1]",
        ]
    )
    func mappedLiterals(written: String) throws {
        let host = try Host(written)
        #expect(host.kind == .ipv4 && host.description == "127.0.0.1" && host.authorityText == "127.0.0.1")
        let plain = try Host("127.0.0.1")
        #expect(host == plain && host.hashValue == plain.hashValue)
        #expect(host.address == IPAddress("127.0.0.1"))
    }

    @Test(
        "a legacy numeric form is refused",
        arguments: [
            "2130706433", "127.1", "0x7f.1", "0x7f000001", "127.0.0.0x1", "0177.0.0.1", "127.0.0.01", "256.0.0.1",
            "1.2.3.4.5", "0x", "1.2.3", "example.1",
        ]
    )
    func legacyNumbers(written: String) {
        #expect(throws: HostFault.ambiguousNumber) { try Host(written) }
    }

    @Test(
        "text that is no host is refused with the reason",
        arguments: [
            ("", HostFault.empty), (".", .emptyLabel), ("a..b", .emptyLabel), (".a", .emptyLabel), ("a..", .emptyLabel),
            (String(repeating: "a", count: 64), .labelTooLong),
            (String(repeating: "a", count: 64) + ".b", .labelTooLong),
            (String(repeating: "a.", count: 127) + "b", .tooLong), ("a b", .invalidCharacter(0x20)),
            ("a/b", .invalidCharacter(0x2F)), ("a@b", .invalidCharacter(0x40)),
            ("bücher.example", .invalidCharacter(0xC3)),
            ("a\0b", .invalidCharacter(0)), ("*.example.com", .invalidCharacter(0x2A)), ("[::1", .invalidIPv6),
            ("[]", .invalidIPv6), ("[", .invalidIPv6), ("[127.0.0.1]", .invalidIPv6), ("[fe80::1%eth0]", .invalidIPv6),
            ("a:80", .invalidIPv6),
        ]
    )
    func refusals(written: String, fault: HostFault) {
        #expect(throws: fault) { try Host(written) }
        #expect(!fault.description.isEmpty)
    }

    @Test("a name of exactly 253 bytes and labels of exactly 63 are accepted")
    func longestNames() throws {
        let label = String(repeating: "a", count: 63)
        let name = [label, label, label, String(repeating: "b", count: 61)].joined(separator: ".")
        #expect(name.utf8.count == 253)
        #expect(try Host(name).description == name)
        #expect(try Host(name + ".").description == name)
    }
}
