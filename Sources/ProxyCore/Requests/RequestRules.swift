import HTTPCore
import IOCore
import Synchronization

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
        rules = configuration.rules.map { CompiledRule($0, tally($0.id, $0.action.rawValue)) }
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
        let found = indices.sorted().map { rules[$0] }.filter { $0.covers(port: port, defaultPort: defaultPort) }
        return HostRules(found, configuration.policy, unmatched)
    }
}

/// A rule in its form for the request path.
package final class CompiledRule: Sendable {
    package let rule: RequestRule
    let tally: RuleTally
    /// The member of a log line.
    let logText: [UInt8]

    init(_ rule: RequestRule, _ tally: RuleTally) {
        self.rule = rule
        self.tally = tally
        logText = Array(",\"rule\":\"\(rule.id)\"".utf8)
    }

    /// Whether any method and path is meant.
    var isUnconditional: Bool { rule.methods == nil && rule.paths.isEmpty }

    /// A rule that denies and names no port is about every port.
    func covers(port: UInt16, defaultPort: UInt16) -> Bool {
        if rule.ports.isEmpty { return rule.action == .deny || port == defaultPort }
        return rule.ports.contains(port)
    }

    /// - Parameter user: nil when no user is known, who could be any to a rule that denies.
    func covers(user: [UInt8]?) -> Bool {
        if rule.users.isEmpty { return true }
        guard let user else { return rule.action == .deny }
        return rule.users.contains { $0.matches(user) }
    }
}

/// How often a rule has decided. Every thread may count and read.
package final class RuleTally: Sendable {
    /// Empty for requests that no rule matches.
    package let id: String
    package let then: String
    private let counted = Atomic<Int>(0)

    init(_ id: String, _ then: String) {
        self.id = id
        self.then = then
    }

    var key: String { "\(id) \(then)" }

    func add() { counted.wrappingAdd(1, ordering: .relaxed) }

    package var count: Int { counted.load(ordering: .relaxed) }
}
