// SPDX-License-Identifier: Apache-2.0

/// The rules of nftables that redirect connections to a transparent listener, as text for `nft -f`.
///
/// They are in a table of their own, which the text replaces as a whole, in one transaction: to give it again changes nothing.
struct RedirectTable: Equatable, Sendable {
    /// Whose own connections are not redirected: pinproxy's.
    enum Exemption: Equatable, Sendable {
        case user(UInt32)
        /// A group of cgroup v2, by its path below the root of the hierarchy, without a slash at its ends.
        case group(String)
    }

    static let name = "pinproxy"

    var exemption: Exemption
    var ports: [UInt16] = [80, 443]
    /// The port of the listener.
    var listener: UInt16 = 15001
    /// IPv6 is redirected too, to a listener at `::1`; otherwise it is refused, so that nothing passes by.
    var redirectsIPv6 = false
    /// Connections of others that come through this machine are redirected too.
    var redirectsForwarded = false

    var text: String {
        let ports = "{ \(ports.map(String.init).joined(separator: ", ")) }"
        // In IPv4 alone where IPv6 is refused.
        let family = redirectsIPv6 ? "" : "meta nfproto ipv4 "
        let redirect = "\(family)tcp dport \(ports) redirect to :\(listener)"
        var lines = [
            "    # What programs of this machine connect to, but for pinproxy itself and loopback.",
            "    chain output {",
            "        type nat hook output priority -100; policy accept;",
            "        \(exempt)",
            "        ip daddr 127.0.0.0/8 accept",
            "        ip6 daddr ::1 accept",
            "        \(redirect)",
            "    }",
            "    # HTTP/3 would pass by, and without a redirection IPv6.",
            "    chain refused {",
            "        type filter hook output priority 0; policy accept;",
            "        \(exempt)",
            "        oifname \"lo\" accept",
            "        udp dport \(ports) reject",
        ]
        if !redirectsIPv6 { lines.append("        meta nfproto ipv6 tcp dport \(ports) reject with tcp reset") }
        lines.append("    }")
        if redirectsForwarded {
            lines += [
                "    # What containers and machines behind this one connect to.",
                "    chain prerouting {",
                "        type nat hook prerouting priority -100; policy accept;",
                "        fib daddr type local accept",
                "        \(redirect)",
                "    }",
                "    chain forward {",
                "        type filter hook forward priority 0; policy accept;",
                "        udp dport \(ports) reject",
            ]
            if !redirectsIPv6 { lines.append("        meta nfproto ipv6 tcp dport \(ports) reject with tcp reset") }
            lines.append("    }")
        }
        return Self.removal + "table inet \(Self.name) {\n" + lines.joined(separator: "\n") + "\n}\n"
    }

    /// Removes the table, whether it is there or not.
    static var removal: String { "table inet \(name)\ndelete table inet \(name)\n" }

    private var exempt: String {
        switch exemption {
        case .user(let number): "meta skuid \(number) accept"
        case .group(let path):
            "socket cgroupv2 level \(path.split(separator: "/").count) \"\(path)\" accept"
        }
    }
}

extension RedirectTable {
    /// Reads the path of a group, with or without slashes at its ends; nil for what nftables would not take as one.
    static func group(_ text: String) -> Exemption? {
        var path = Substring(text)
        if path.hasPrefix("/sys/fs/cgroup/") { path = path.dropFirst("/sys/fs/cgroup/".count) }
        let parts = path.split(separator: "/")
        let isPlain = path.unicodeScalars.allSatisfy { $0.value > 0x20 && $0.value < 0x7F && $0 != "\"" && $0 != "\\" }
        guard !parts.isEmpty, isPlain, !parts.contains(where: { $0 == "." || $0 == ".." }) else { return nil }
        return .group(parts.joined(separator: "/"))
    }

    /// Reads a list of ports, as in `80,443`; nil for anything else, and for a port that is named twice.
    static func ports(_ text: String) -> [UInt16]? {
        var ports: [UInt16] = []
        var known: Set<UInt16> = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let port = port(word), known.insert(port).inserted else { return nil }
            ports.append(port)
        }
        return ports
    }

    static func port(_ text: some StringProtocol) -> UInt16? {
        guard text.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }), let port = UInt16(text),
            port > 0
        else { return nil }
        return port
    }
}
