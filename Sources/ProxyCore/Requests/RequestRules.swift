// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
package import ProxyConfiguration

/// The compiled `requests` of a policy, shared by all threads.
package final class RequestRules: Sendable {
    package let configuration: RequestsConfiguration
    private let rules: [CompiledRule]
    /// For requests that no rule matches.
    private let unmatched: RuleTally
    /// The rules by the hosts that they name; each list is in the order of the configuration.
    private let exact: [Host: [Int]]
    private let below: [Host: [Int]]
    private let any: [Int]
    /// The rules that deny and name hosts.
    let denials: [CompiledRule]

    /// - Parameter former: the rules before a reload. Those that still exist go on counting.
    package init(_ configuration: RequestsConfiguration, following former: RequestRules? = nil) {
        self.configuration = configuration
        var tallies: [String: RuleTally] = [:]
        for rule in former?.rules ?? [] { tallies[rule.tally.key] = rule.tally }
        if let former { tallies[former.unmatched.key] = former.unmatched }
        func tally(_ id: String, _ then: String) -> RuleTally {
            let fresh = RuleTally(id, then)
            return tallies[fresh.key] ?? fresh
        }
        rules = configuration.rules.enumerated().map { index, rule in
            CompiledRule(rule, at: index, tally(rule.id, rule.action.rawValue))
        }
        denials = rules.filter { $0.action == .deny && $0.rule.namesHosts }
        unmatched = tally("", configuration.policy.rawValue)
        var (exact, below, any) = ([Host: [Int]](), [Host: [Int]](), [Int]())
        for (index, rule) in configuration.rules.enumerated() {
            for pattern in rule.hosts.isEmpty ? [.any] : rule.hosts {
                switch pattern {
                case .any: any.append(index)
                case .exactly(let host): exact[host, default: []].append(index)
                case .below(let host): below[host, default: []].append(index)
                }
            }
        }
        (self.exact, self.below, self.any) = (exact, below, any)
    }

    /// How often each rule has decided, in the order of the configuration; requests that no rule matches come last.
    package var tallies: [RuleTally] { rules.map(\.tally) + [unmatched] }

    /// The rules for the requests to one origin.
    ///
    /// - Parameters:
    ///   - port: the port that is connected to.
    ///   - defaultPort: the port for rules that let requests through and name none.
    func rules(for host: Host, port: UInt16, defaultPort: UInt16) -> HostRules {
        let found = rules(about: host).filter { $0.covers(port: port, defaultPort: defaultPort) }
        let origin = HostRules.Origin(host: host, port: port, defaultPort: defaultPort)
        return HostRules(found, of: self, for: origin, unmatched)
    }

    /// The rules for a host on any port, in the order of the configuration.
    func rules(about host: Host) -> [CompiledRule] {
        var indices = Set(any)
        indices.formUnion(exact[host] ?? [])
        if host.kind == .name, !below.isEmpty {
            var name = host.bytes[...]
            while let dot = name.firstIndex(of: UInt8(ascii: ".")) {
                name = name[(dot + 1)...]
                let parent = Array(name)
                if let parent = try? Host(normalizing: parent.span) { indices.formUnion(below[parent] ?? []) }
            }
        }
        return indices.sorted().map { rules[$0] }
    }
}
