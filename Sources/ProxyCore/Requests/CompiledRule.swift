// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
package import ProxyConfiguration

/// A rule in its form for the request path.
package final class CompiledRule: Sendable {
    package let rule: RequestRule
    /// Its place in the configuration.
    let position: Int
    let tally: RuleTally
    /// The member of a log line.
    let logText: [UInt8]
    let action: RequestRule.Action
    // The conditions again, so that a look at one of them does not retain what the others hold.
    private let hasUsers: Bool
    private let hasMethods: Bool
    private let namesHosts: Bool
    private let paths: [CompiledPath]
    /// The methods with a case of their own, as bits: a set would be hashed into for each request.
    private let knownMethods: UInt16

    init(_ rule: RequestRule, at position: Int, _ tally: RuleTally) {
        self.rule = rule
        self.position = position
        self.tally = tally
        logText = Array(",\"rule\":\"\(rule.id)\"".utf8)
        action = rule.action
        hasUsers = !rule.users.isEmpty
        hasMethods = rule.methods != nil
        namesHosts = rule.namesHosts
        paths = rule.paths.map { CompiledPath($0) }
        knownMethods = rule.methods?.methods.reduce(0) { $0 | $1.bit } ?? 0
    }

    /// Whether any method and path is meant.
    var isUnconditional: Bool { rule.methods == nil && rule.paths.isEmpty }

    /// A rule that denies and names no port is about every port.
    func covers(port: UInt16, defaultPort: UInt16) -> Bool {
        if rule.ports.isEmpty { return action == .deny || port == defaultPort }
        return rule.ports.contains(port)
    }

    /// - Parameter user: nil when no user is known, who could be any to a rule that denies.
    func covers(user: [UInt8]?) -> Bool {
        if !hasUsers { return true }
        guard let user else { return action == .deny }
        return rule.users.contains { $0.matches(user) }
    }
}

/// A path of a rule in an object of its own: a copy of the pattern would retain each of its parts.
private final class CompiledPath: Sendable {
    let pattern: RulePath

    init(_ pattern: RulePath) { self.pattern = pattern }
}

extension CompiledRule {
    enum Match {
        case yes
        case no
        /// What the rule has a condition on can be read in two ways, and its other conditions hold.
        case unclear(RequestAmbiguity)
    }

    /// - Parameter forms: the path, where its reading is clear.
    func matches(
        _ method: HTTPMethod,
        _ reading: RequestReading,
        _ forms: inout PathForms,
        isUpgrade: Bool
    ) -> Match {
        var unclear: RequestAmbiguity?
        if let cause = reading.host, namesHosts { unclear = cause }
        if hasMethods {
            if let cause = reading.method {
                unclear = unclear ?? cause
            } else if isUpgrade || method.bit == 0 {
                guard rule.methods?.contains(method, isUpgrade: isUpgrade, isDeny: action == .deny) == true else {
                    return .no
                }
            } else if method.bit & knownMethods == 0 {
                return .no
            }
        }
        if !paths.isEmpty {
            if let cause = reading.path {
                unclear = unclear ?? cause
            } else {
                switch matchPath(reading.encodedSlashes, &forms) {
                case .no: return .no
                case .yes: break
                case .unclear(let cause): unclear = unclear ?? cause
                }
            }
        }
        if let unclear { return .unclear(unclear) }
        return .yes
    }

    private func matchPath(_ encodedSlashes: Int, _ forms: inout PathForms) -> Match {
        if action == .deny {
            for path in paths where path.pattern.meets(&forms, encodedSlashes: encodedSlashes) { return .yes }
            return paths.contains { encodedSlashes > $0.pattern.encodedSlashes } ? .unclear(.encodedSlash) : .no
        }
        for path in paths where path.pattern.matches(&forms, encodedSlashes: encodedSlashes) { return .yes }
        return encodedSlashes == 0 ? .no : .unclear(.encodedSlash)
    }
}

extension HTTPMethod {
    /// A bit of its own for each method that has a case, and none for others.
    fileprivate var bit: UInt16 {
        switch self {
        case .get: 1
        case .head: 2
        case .post: 4
        case .put: 8
        case .delete: 16
        case .options: 32
        case .patch: 64
        case .connect: 128
        case .trace: 256
        case .other: 0
        }
    }
}
