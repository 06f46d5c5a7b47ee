// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

// `requests`: which user may send which request where.

extension ConfigurationReader {
    mutating func readRequests(_ object: DocumentObject) {
        comment(object)
        var requests = RequestsConfiguration()
        if let policy = object["policy"]?.choice(RequestsConfiguration.Policy.self) { requests.policy = policy }
        if let element = object["rules"], let elements = element.elements() {
            if elements.isEmpty {
                element.report(
                    "an empty list, in which no request finds a rule",
                    remedy: "write rules, or take the key out: the policy then holds for every request"
                )
            }
            var places: [String: String] = [:]
            for element in elements {
                guard let object = element.object(), let (rule, names) = readRequestRule(object) else { continue }
                if let first = places.updateValue(element.pointer, forKey: rule.id) {
                    object["id"]?.report(
                        "the rule \(first) has this id already",
                        remedy: "give each rule its own: log and metrics name rules by it"
                    )
                }
                requests.rules.append(rule)
                let placed = Placed(value: rule, element: element)
                requestRules.append(placed)
                if !names.isEmpty { credentialUses.append(CredentialUse(rule: placed, names: names)) }
            }
        }
        object.finish()
        configuration.requests = requests
    }

    /// - Returns: the rule, and the names of its credentials.
    private func readRequestRule(_ object: DocumentObject) -> (RequestRule, [Placed<String>])? {
        comment(object)
        let id = object.required("id").flatMap { readRuleID($0) }
        let action = object.required("then")?.choice(RequestRule.Action.self)
        var rule = RequestRule(id: id ?? "", action ?? .deny)
        if let element = object["host"] { rule.hosts = element.oneOrMore().compactMap { $0.hostPattern() } }
        if let element = object["port"] {
            rule.ports = element.oneOrMore().compactMap { $0.int(in: 1...65_535) }.map { UInt16($0) }
        }
        if let element = object["method"] { rule.methods = readRuleMethods(element) }
        if let element = object["path"] { rule.paths = element.oneOrMore().compactMap { readRulePath($0) } }
        if let element = object["user"] {
            rule.users = element.oneOrMore().compactMap { element in
                guard let text = element.string() else { return nil }
                if let pattern = UserPattern(text) { return pattern }
                element.report(
                    "not the name of a user",
                    remedy: "write a name as the log has it, with * for any characters"
                )
                return nil
            }
        }
        let names = object["credential"].map { readRuleCredentials($0, rule) } ?? []
        rule.credentials = names.map(\.value)
        object.finish { key in
            key == "credentials"
                ? "did you mean \"credential\"? The credentials themselves are at the top of the file" : nil
        }
        return id == nil || action == nil ? nil : (rule, names)
    }

    private func readRuleID(_ element: DocumentElement) -> String? {
        guard let text = element.string() else { return nil }
        if Self.isIdentifier(text) { return text }
        element.report(
            "not an id",
            remedy: "write 1 to 64 letters, digits, \"-\", \".\" or \"_\": log and metrics show it"
        )
        return nil
    }

    private func readRuleMethods(_ element: DocumentElement) -> RuleMethods {
        var methods = RuleMethods()
        for element in element.oneOrMore() {
            guard let text = element.string() else { continue }
            methods.words.append(text)
            switch text {
            case "read": methods.methods.formUnion(RuleMethods.read)
            case "UPGRADE": methods.hasUpgrade = true
            case "CONNECT":
                element.report(
                    "a CONNECT is judged by host, port and user",
                    remedy: "take it out; a rule without method and path lets tunnels through"
                )
            default:
                guard text == text.uppercased(), let method = HTTPMethod(text) else {
                    element.report(
                        "not a method",
                        remedy:
                            "write \"\(HTTPMethod(text.uppercased()) == nil ? "GET" : text.uppercased())\", or \"read\" for GET, "
                            + "HEAD and OPTIONS; methods are in capital letters"
                    )
                    continue
                }
                methods.methods.insert(method)
            }
        }
        return methods
    }

    private func readRulePath(_ element: DocumentElement) -> RulePath? {
        guard let pattern = element.pathPattern(), let path = RulePath(pattern.text) else { return nil }
        if path.starCount > RulePath.starLimit {
            element.report("more than \(RulePath.starLimit) stars", remedy: "write fewer, or several patterns")
        }
        if let ambiguity = path.ambiguity {
            element.report(
                "no request has such a path for a rule: \(ambiguity.explanation)",
                remedy:
                    "write the pattern without; such requests are refused by every rule that denies and let through by none"
            )
        }
        return path
    }

    /// Checks rules together with the hosts that they name.
    func checkRequests() {
        warnOfRules()
        for placed in requestRules where !placed.value.paths.isEmpty {
            for case .exactly(let host) in placed.value.hosts
            where configuration.hosts.contains(where: { $0.host == host && $0.connect == .tunnel }) {
                placed.element.report(
                    "the paths of \(host) are not seen: its entry says \"connect\": \"tunnel\"",
                    remedy: "write \"intercept\" there, or take \"path\" out of the rule"
                )
            }
        }
    }
    private func warnOfRules() {
        for finding in RuleAdvice(requestRules.map(\.value)).findings {
            switch finding {
            case .hidden(let rule, let earlier):
                requestRules[rule].element.warn(
                    "the rule \"\(requestRules[rule].value.id)\" never decides: \"\(requestRules[earlier].value.id)\" matches all its requests "
                        + "before",
                    remedy: "move it up, or take it out"
                )
            case .reportAbove(let rule, let later):
                requestRules[rule].element.warn(
                    "the rule \"\(requestRules[rule].value.id)\" lets through what rules behind it are about, as "
                        + "\"\(requestRules[later].value.id)\"",
                    remedy: "move it down; to try the whole list, write \"policy\": \"report\""
                )
            }
        }
        let isOpen = configuration.listeners.contains { configuration.authentication(of: $0) == nil }
        for placed in requestRules where isOpen && !placed.value.users.isEmpty {
            placed.element.warn(
                "there is a listener at which no client has to say who it is, and no user is known there",
                remedy: "let it have \"authentication\""
            )
            break
        }
    }
}
