// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyCore
import ServerTrust
import StrictJSON

/// Which warnings of a configuration concern a command that is about some hosts alone.
struct WarningScope {
    private let hosts: [Host]
    /// The hosts whose entries in pin files decide about `hosts`.
    private let domains: [Host]

    init(hosts: [Host], _ snapshot: PolicySnapshot) {
        self.hosts = hosts
        domains = hosts.compactMap { snapshot.pinnedDomains.domain(governing: $0)?.host }
    }

    /// The warnings about these hosts, and those that are about no host.
    func warnings(_ all: [DocumentIssue]) -> [DocumentIssue] {
        all.filter { warning in
            guard warning.others == 0 else { return false }
            switch Self.subject(warning) {
            case nil: return true
            case .domain(let host): return domains.contains(host)
            case .entry(let host): return hosts.contains { $0 == host || Self.isBelow($0, host) }
            }
        }
    }

    /// The warnings that are about no host.
    static func general(_ all: [DocumentIssue]) -> [DocumentIssue] {
        all.filter { $0.others == 0 && subject($0) == nil }
    }

    private enum Subject {
        /// An entry of a pin file.
        case domain(Host)
        /// An entry of `hosts`.
        case entry(Host)
    }

    private static func subject(_ warning: DocumentIssue) -> Subject? {
        let parts = warning.pointer.split(separator: "/", maxSplits: 2).map(String.init)
        guard parts.count > 1, let host = try? DomainName.host(parts[1]) else { return nil }
        switch parts[0] {
        case "pinnedDomains": return .domain(host)
        case "hosts": return .entry(host)
        default: return nil
        }
    }

    private static func isBelow(_ host: Host, _ parent: Host) -> Bool { host.description.hasSuffix(".\(parent)") }
}
