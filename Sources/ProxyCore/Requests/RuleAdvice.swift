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

    init(_ rules: [RequestRule]) {
        var findings: [Finding] = []
        // Quadratic, for the lists that people write.
        for (index, rule) in rules.prefix(Self.bound).enumerated() {
            if let earlier = rules[..<index].firstIndex(where: { $0.covers(rule) }) {
                findings.append(.hidden(index, by: earlier))
            }
            if rule.action == .report, rule.isForAnyRequest,
                let later = rules[(index + 1)...].prefix(Self.bound).firstIndex(where: {
                    rule.meetsHosts(of: $0) && !rule.covers($0)
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

extension RequestRule {
    /// Whether every request that `other` matches is matched by this rule. False where that is not plain to see.
    func covers(_ other: RequestRule) -> Bool {
        let coversHosts =
            hosts.isEmpty || hosts.contains(.any)
            || !other.hosts.isEmpty && other.hosts.allSatisfy { pattern in hosts.contains { $0.covers(pattern) } }
        guard coversHosts, coversPorts(of: other) else { return false }
        if let methods {
            guard let others = other.methods, others.methods.isSubset(of: methods.methods),
                methods.hasUpgrade || !others.hasUpgrade
            else { return false }
        }
        // What can be read in two ways is matched by the one and not by the other.
        let isAsStrict = action == .deny || other.action != .deny
        if !paths.isEmpty || methods != nil, !isAsStrict { return false }
        if !paths.isEmpty {
            guard !other.paths.isEmpty,
                other.paths.allSatisfy({ path in paths.contains { $0.text == path.text || $0.isPrefix(of: path) } })
            else { return false }
        }
        if !users.isEmpty {
            guard !other.users.isEmpty,
                other.users.allSatisfy({ user in users.contains { $0.text == user.text || $0.text == "*" } })
            else { return false }
        }
        return true
    }

    private func coversPorts(of other: RequestRule) -> Bool {
        // Without ports a deny is for all, and others for the port of the scheme.
        if ports.isEmpty { return action == .deny || other.ports.isEmpty && other.action != .deny }
        return !other.ports.isEmpty && Set(other.ports).isSubset(of: Set(ports))
    }

    /// Whether the rule has a condition on nothing but hosts and ports.
    fileprivate var isForAnyRequest: Bool { methods == nil && paths.isEmpty && users.isEmpty }

    fileprivate func meetsHosts(of other: RequestRule) -> Bool {
        if hosts.isEmpty || hosts.contains(.any) { return true }
        return other.hosts.contains { pattern in hosts.contains { $0.covers(pattern) } }
    }
}

extension HostPattern {
    /// Whether every host of another pattern is one of this.
    fileprivate func covers(_ other: HostPattern) -> Bool {
        switch (self, other) {
        case (.any, _): true
        case (.exactly(let host), .exactly(let other)): host == other
        case (.below(let parent), .exactly(let host)): Self.isBelow(host, parent)
        case (.below(let parent), .below(let other)): parent == other || Self.isBelow(other, parent)
        default: false
        }
    }

    private static func isBelow(_ host: Host, _ parent: Host) -> Bool {
        let (name, end) = (host.bytes, parent.bytes)
        guard host.kind == .name, name.count > end.count + 1 else { return false }
        return name[name.count - end.count - 1] == UInt8(ascii: ".") && name.suffix(end.count).elementsEqual(end)
    }
}
