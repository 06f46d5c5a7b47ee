import Foundation
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("/etc/hosts")
struct HostsFileTests {
    private func addresses(_ text: String, _ name: String) -> [String] {
        HostsFile(Array(text.utf8)).addresses(of: name).map(\.description)
    }

    @Test("a name has the addresses of all its lines, in their order, and those of no other name")
    func own() {
        // c-ares 1.34 gives all three names all addresses.
        let text = "192.0.2.1 a.test\n192.0.2.2 a.test\n192.0.2.1 b.test\n::1 b.test c.test\n192.0.2.2 a.test\n"
        #expect(addresses(text, "a.test") == ["192.0.2.1:0", "192.0.2.2:0"])
        #expect(addresses(text, "b.test") == ["192.0.2.1:0", "[::1]:0"])
        #expect(addresses(text, "c.test") == ["[::1]:0"])
        #expect(addresses(text, "d.test") == [])
    }

    @Test("names have no case; comments, other white space and lines that cannot be read do no harm")
    func form() {
        let text =
            "# 192.0.2.9 a.test\n\t192.0.2.1\tA.Test  other.test # b.test\r\n\n   \n192.0.2.2\n127.1 c.test\nfe80::1%lo d.test\n"
            + "::ffff:192.0.2.3 e.test\n\u{1}\u{2} f.test\n192.0.2.4 last.test"
        #expect(addresses(text, "a.test") == ["192.0.2.1:0"])
        #expect(addresses(text, "other.test") == ["192.0.2.1:0"])
        for name in ["b.test", "c.test", "d.test", "f.test", "#", ""] {
            #expect(addresses(text, name) == [], "\(name)")
        }
        #expect(addresses(text, "e.test") == ["192.0.2.3:0"])
        #expect(addresses(text, "last.test") == ["192.0.2.4:0"])
        #expect(addresses("", "a.test") == [])
    }

    @Test("a file that changes, comes or goes is followed")
    func followed() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/hosts"
        var hosts = SystemHosts(path: path)
        #expect(hosts.addresses(of: "a.test").isEmpty)
        try folder.write("192.0.2.1 a.test", as: "hosts")
        #expect(hosts.addresses(of: "a.test") == [SocketAddress(ipv4: 0xC000_0201, port: 0)])
        try folder.write("192.0.2.33 a.test", as: "hosts")
        #expect(hosts.addresses(of: "a.test") == [SocketAddress(ipv4: 0xC000_0221, port: 0)])
        try FileManager.default.removeItem(atPath: path)
        #expect(hosts.addresses(of: "a.test").isEmpty)
    }
}
