// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import pinproxy

@Suite("The rules of a redirection", .onOwnThreads)
struct RedirectTableTests {
    @Test("pinproxy's user and loopback are exempt, and what would pass by is rejected")
    func table() {
        let text = RedirectTable(exemption: .user(65532)).text
        #expect(
            text == """
                table inet pinproxy
                delete table inet pinproxy
                table inet pinproxy {
                    # What programs of this machine connect to, but for pinproxy itself and loopback.
                    chain output {
                        type nat hook output priority -100; policy accept;
                        meta skuid 65532 accept
                        ip daddr 127.0.0.0/8 accept
                        ip6 daddr ::1 accept
                        meta nfproto ipv4 tcp dport { 80, 443 } redirect to :15001
                    }
                    # HTTP/3 would pass by, and without a redirection IPv6.
                    chain refused {
                        type filter hook output priority 0; policy accept;
                        meta skuid 65532 accept
                        oifname "lo" accept
                        udp dport { 80, 443 } reject
                        meta nfproto ipv6 tcp dport { 80, 443 } reject with tcp reset
                    }
                }

                """
        )
    }

    @Test("IPv6, other ports, a group and connections of others have rules of their own")
    func choices() {
        var table = RedirectTable(exemption: .group("system.slice/pinproxy.service"))
        table.ports = [8080]
        table.listener = 3129
        table.redirectsIPv6 = true
        table.redirectsForwarded = true
        let text = table.text
        #expect(text.contains("socket cgroupv2 level 2 \"system.slice/pinproxy.service\" accept\n"))
        #expect(text.contains("        tcp dport { 8080 } redirect to :3129\n"))
        #expect(text.contains("type nat hook prerouting priority -100"))
        #expect(!text.contains("tcp reset"))
    }

    @Test("ports and groups that nftables would read in another way are refused")
    func values() {
        #expect(RedirectTable.ports("80,443,8443") == [80, 443, 8443])
        for text in ["", "80,", "80,80", "0", "65536", "+1", "80 443", "８０", "http"] {
            #expect(RedirectTable.ports(text) == nil, "\(text)")
        }
        #expect(RedirectTable.group("/sys/fs/cgroup/a.slice/b/") == .group("a.slice/b"))
        for text in ["", "/", "a/../b", "a\" accept", "a b", "a\nb", "a\\"] {
            #expect(RedirectTable.group(text) == nil, "\(text)")
        }
    }

    @Test("the command prints the rules, and needs an exempt user or group")
    func command() throws {
        let table = RedirectTable(exemption: .user(0))
        #expect(try pinproxy("redirect", "--user", "root").output == table.text)
        #expect(try pinproxy("redirect", "--user", "0", "--ports", "80,443", "--to", "15001").output == table.text)
        #expect(try pinproxy("redirect", "--remove").output == RedirectTable.removal)
        for words in [[], ["--user", "0", "--cgroup", "a"], ["--user", "0", "--ports", "x"], ["--cgroup", "a b"]] {
            #expect(try pinproxy(["redirect"] + words).exitCode == 64, "\(words)")
        }
        for name in ["no-such-user", "+5", "007"] {
            let unknown = try pinproxy("redirect", "--user", name)
            #expect(unknown.exitCode == 1 && unknown.errors.contains("number of the user"), "\(name)")
        }
    }

    @Test("the command fails when nft ends without reading the rules")
    func brokenProgram() throws {
        let folder = try TemporaryFolder()
        _ = try folder.writeProgram("#!/bin/sh\nexec 0<&-\necho no library >&2\nexit 127\n", as: "nft")
        // More than a pipe holds: the writing is still under way when the program ends.
        let ports = (1...20_000).map(String.init).joined(separator: ",")
        let run = try pinproxy(
            "redirect",
            "--user",
            "5",
            "--ports",
            ports,
            "--apply",
            environment: ["PATH": "\(folder.path):/usr/bin:/bin"]
        )
        #expect(run.exitCode == 1 && run.errors.contains("nft has refused the rules: no library"), "\(run.errors)")
    }
}
