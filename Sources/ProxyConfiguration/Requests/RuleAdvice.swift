// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// Mistakes in a list of rules that are no errors, as values: for warnings at load.
struct RuleAdvice {
    enum Finding: Equatable {
        /// Every request that this rule matches is decided by the earlier one.
        case hidden(Int, by: Int)
        /// Rules behind this `report` are about requests that it lets through already.
        case reportAbove(Int, Int)
    }

    let findings: [Finding]

    /// - Parameter effort: how many hosts, paths and users are looked up at most; no more findings come afterwards.
    init(_ rules: [RequestRule], effort: Int = 4_000_000) {
        var findings: [Finding] = []
        let scopes = rules.prefix(2 * Self.bound).map { RuleScope($0) }
        var effort = effort
        // Quadratic, for the lists that people write.
        for (index, scope) in scopes.prefix(Self.bound).enumerated() where effort > 0 {
            if let earlier = scopes[..<index].firstIndex(where: { $0.covers(scope, &effort) }) {
                findings.append(.hidden(index, by: earlier))
            }
            if scope.rule.action == .report, scope.isForAnyRequest,
                let later = scopes[(index + 1)...].prefix(Self.bound).firstIndex(where: {
                    scope.meetsHosts(of: $0, &effort) && !scope.covers($0, &effort)
                })
            {
                findings.append(.reportAbove(index, later))
            }
        }
        self.findings = findings
    }

    /// Of longer lists, which programs write, the beginning is looked at.
    private static let bound = 1000
}

/// What a rule is about, as sets: rules that programs write share lists of thousands of hosts.
package struct RuleScope {
    let rule: RequestRule
    private var isForAnyHost: Bool { !rule.namesHosts }
    private var exact: Set<Host> = []
    private var below: Set<Host> = []
    private let ports: Set<UInt16>
    private let paths: Set<String>
    /// Those with their only star at the end.
    private let openPaths: [RulePath]
    private let users: Set<String>

    package init(_ rule: RequestRule) {
        self.rule = rule
        for pattern in rule.hosts {
            switch pattern {
            case .any: break
            case .exactly(let host): exact.insert(host)
            case .below(let host): below.insert(host)
            }
        }
        ports = Set(rule.ports)
        paths = Set(rule.paths.map(\.text))
        openPaths = rule.paths.filter(\.isOpen)
        users = Set(rule.users.map(\.text))
    }

    /// Whether the rule has a condition on nothing but hosts and ports.
    var isForAnyRequest: Bool { rule.methods == nil && rule.paths.isEmpty && rule.users.isEmpty }

    /// Whether every request that `other` matches is matched by this rule. False where that is not plain to see, and when the effort
    /// is used up.
    package func covers(_ other: RuleScope, _ effort: inout Int) -> Bool {
        guard effort > 0 else { return false }
        effort -= 1
        guard coversPorts(of: other) else { return false }
        if let methods = rule.methods {
            guard let others = other.rule.methods, others.methods.isSubset(of: methods.methods),
                methods.hasUpgrade || !others.hasUpgrade
            else { return false }
        }
        // What can be read in two ways is matched by the one and not by the other.
        let isAsStrict = rule.action == .deny || other.rule.action != .deny
        if !isAsStrict, rule.methods != nil || !rule.paths.isEmpty { return false }
        // Lists of hosts are the longest.
        return coversUsers(of: other, &effort) && coversPaths(of: other, &effort) && coversHosts(of: other, &effort)
    }

    private func coversPorts(of other: RuleScope) -> Bool {
        // Without ports a deny is for all, and others for the port of the scheme.
        if ports.isEmpty { return rule.action == .deny || other.ports.isEmpty && other.rule.action != .deny }
        return !other.ports.isEmpty && other.ports.isSubset(of: ports)
    }

    private func coversHosts(of other: RuleScope, _ effort: inout Int) -> Bool {
        if isForAnyHost { return true }
        return !other.isForAnyHost && all(other.rule.hosts, &effort) { coversHost($0) }
    }

    private func coversPaths(of other: RuleScope, _ effort: inout Int) -> Bool {
        if rule.paths.isEmpty { return true }
        guard !other.rule.paths.isEmpty else { return false }
        for path in other.rule.paths {
            effort -= 1 + openPaths.count
            guard effort > 0, paths.contains(path.text) || openPaths.contains(where: { $0.isPrefix(of: path) }) else {
                return false
            }
        }
        return true
    }

    private func coversUsers(of other: RuleScope, _ effort: inout Int) -> Bool {
        if rule.users.isEmpty { return true }
        return !other.rule.users.isEmpty
            && all(other.rule.users, &effort) { users.contains($0.text) || users.contains("*") }
    }

    private func all<T>(_ values: [T], _ effort: inout Int, _ holds: (T) -> Bool) -> Bool {
        for value in values {
            effort -= 1
            guard effort > 0, holds(value) else { return false }
        }
        return true
    }

    func meetsHosts(of other: RuleScope, _ effort: inout Int) -> Bool {
        if isForAnyHost { return true }
        for pattern in other.rule.hosts where effort > 0 {
            effort -= 1
            if coversHost(pattern) { return true }
        }
        return false
    }

    /// Whether every host of a pattern is one of this rule, which names hosts.
    private func coversHost(_ pattern: HostPattern) -> Bool {
        switch pattern {
        case .any: false
        case .exactly(let host): exact.contains(host) || isBelow(host)
        case .below(let host): below.contains(host) || isBelow(host)
        }
    }

    private func isBelow(_ host: Host) -> Bool {
        guard host.kind == .name, !below.isEmpty else { return false }
        var name = host.bytes[...]
        while let dot = name.firstIndex(of: UInt8(ascii: ".")) {
            name = name[(dot + 1)...]
            let parent = Array(name)
            if let parent = try? Host(normalizing: parent.span), below.contains(parent) { return true }
        }
        return false
    }
}
