// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyCore
import ServerTrust
import SessionCore

/// A host and port with pins, as a configuration has them.
struct PinnedServer {
    var address: ServerAddress
    var policy: SecurityPolicy
    /// Whether the policy also applies to subdomains.
    var includesSubdomains: Bool

    private init(_ domain: PinnedDomains.Domain, _ policy: SecurityPolicy, _ address: ServerAddress) {
        self.address = address
        self.policy = policy
        includesSubdomains = domain.includeSubdomains
    }

    /// Every server in the pin files: each domain by its own name, on each of its ports (443 without `ports`).
    static func all(of snapshot: PolicySnapshot) -> [PinnedServer] {
        snapshot.pinnedDomains.domains.flatMap { domain -> [PinnedServer] in
            guard let policy = domain.policy else { return [] }
            return (domain.ports ?? [443]).map {
                PinnedServer(domain, policy, ServerAddress(domain.host, port: $0))
            }
        }
    }

    /// The servers for a word of the command line: `HOST:PORT`, or `HOST` on each port of its domain.
    static func named(_ word: String, in snapshot: PolicySnapshot) throws(CommandFailure) -> [PinnedServer] {
        let address = try ServerAddress(word)
        let pinned = snapshot.pinnedDomains
        if pinned.domains.contains(where: { $0.host == address.host && $0.policy == nil }) {
            throw CommandFailure(
                .usage,
                "\(address.host) is excluded from its parent's policy: there is no pin to verify",
                remedy: "pinproxy check tells which policy a host has"
            )
        }
        guard let name = pinned.policy(host: address.host, port: address.port)?.domain,
            let domain = pinned.domains.first(where: { $0.host == name }), let policy = domain.policy
        else {
            throw CommandFailure(
                .usage,
                "no pin file of the configuration names \(address.host)",
                remedy: "pinproxy check lists the hosts; pinproxy pins show --pin-file=FILE \(address) makes a pin file"
            )
        }
        guard address.hasPort else {
            return (domain.ports ?? [443]).map {
                PinnedServer(domain, policy, ServerAddress(address.host, port: $0))
            }
        }
        if let ports = domain.ports, !ports.contains(address.port) {
            let list = ports.map(String.init).joined(separator: ", ")
            throw CommandFailure(
                .usage,
                "the pins of \(domain.host) do not hold on port \(address.port)",
                remedy: "its \"ports\" are \(list)"
            )
        }
        return [PinnedServer(domain, policy, address)]
    }

    /// The endpoint of a connection as the proxy would make it: with the host's `resolve`, version of HTTP and
    /// timeouts, the policy with its anchors, and the address rules.
    ///
    /// - Returns: the endpoint, or the reason why the proxy would not connect.
    func endpoint(_ snapshot: PolicySnapshot) -> Result<Endpoint, PinCheck.Unreached> {
        Router(snapshot: snapshot).endpoint(host: address.host, port: address.port).mapError { problem in
            PinCheck.Unreached(code: problem.code.rawValue, reason: problem.details)
        }
    }
}
