import HTTPCore
import IOCore

/// A rule in its form for the request path.
package final class CompiledRule: Sendable {
    package let rule: RequestRule
    let tally: RuleTally
    /// The member of a log line.
    let logText: [UInt8]
    /// The methods with a case of their own, as bits: a set would be hashed into for each request.
    private let knownMethods: UInt16

    init(_ rule: RequestRule, _ tally: RuleTally) {
        self.rule = rule
        self.tally = tally
        logText = Array(",\"rule\":\"\(rule.id)\"".utf8)
        knownMethods = rule.methods?.methods.reduce(0) { $0 | $1.bit } ?? 0
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
        if let methods = rule.methods {
            if let cause = reading.method {
                unclear = cause
            } else if isUpgrade || method.bit == 0 {
                guard methods.contains(method, isUpgrade: isUpgrade, isDeny: rule.action == .deny) else { return .no }
            } else if method.bit & knownMethods == 0 {
                return .no
            }
        }
        if !rule.paths.isEmpty {
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
        if rule.action == .deny {
            for path in rule.paths where path.meets(&forms, encodedSlashes: encodedSlashes) { return .yes }
            return rule.paths.contains { encodedSlashes > $0.encodedSlashes } ? .unclear(.encodedSlash) : .no
        }
        if rule.paths.contains(where: { $0.matches(forms, encodedSlashes: encodedSlashes) }) { return .yes }
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
