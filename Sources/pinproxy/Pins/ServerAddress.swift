// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// `HOST[:PORT]` of the command line, with an optional `https://` before it.
struct ServerAddress {
    var host: Host
    var port: UInt16
    /// Whether the port was written, and is not the default.
    private(set) var hasPort = true

    init(_ host: Host, port: UInt16) {
        self.host = host
        self.port = port
    }

    init(_ text: String) throws(CommandFailure) {
        var rest = text[...]
        if rest.hasPrefix("https://") { rest = rest.dropFirst("https://".count) }
        if rest.hasPrefix("http://") {
            throw CommandFailure(
                .usage,
                "\(Arguments.shown(text)): a server that is reached without TLS has no certificate",
                remedy: "name the host, or its https:// URL; its TLS port is 443 unless you give another"
            )
        }
        if let slash = rest.firstIndex(of: "/") {
            guard rest[slash...] == "/" else {
                throw CommandFailure(
                    .usage,
                    "\(Arguments.shown(text)) has a path, and a chain belongs to a host",
                    remedy: "leave away what stands behind the host"
                )
            }
            rest = rest[..<slash]
        }
        port = 443
        // More than one colon outside of brackets means an IPv6 address without brackets.
        let end = rest.lastIndex(of: "]").map { rest.index(after: $0) } ?? rest.startIndex
        if rest[end...].filter({ $0 == ":" }).count == 1, let colon = rest[end...].firstIndex(of: ":") {
            let digits = rest[rest.index(after: colon)...]
            guard digits.utf8.allSatisfy({ (48...57).contains($0) }), let number = UInt16(digits), number > 0 else {
                throw CommandFailure(.usage, "\(Arguments.shown(text)) has no port from 1 to 65535")
            }
            port = number
            rest = rest[..<colon]
        } else {
            hasPort = false
        }
        do throws(DomainName.Fault) {
            host = try DomainName.host(String(rest))
        } catch {
            throw CommandFailure(.usage, "\(Arguments.shown(text)): \(error.message)", remedy: error.remedy)
        }
    }
}

extension ServerAddress: CustomStringConvertible {
    /// `api.example.com:8443`
    var description: String { host.authorityText(port: port) }
}
