// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

extension ConfigurationReader {
    func readRedirects(_ object: DocumentObject) -> RedirectRules {
        comment(object)
        var redirects = RedirectRules()
        if let policy = object.required("policy")?.choice(RedirectRules.Policy.self) { redirects.policy = policy }
        if let max = object.int("max", in: 1...100) { redirects.max = max }
        for element in object.elements("rules") ?? [] {
            if let object = element.object(), let rule = readRedirectRule(object) { redirects.rules.append(rule) }
        }
        object.finish()
        return redirects
    }

    /// The words of `then`.
    enum RedirectWord: String, CaseIterable {
        case follow, `return`, deny, rewrite
    }

    private func readRedirectRule(_ object: DocumentObject) -> RedirectRule? {
        comment(object)
        var rule = RedirectRule(.return)
        if let element = object["status"] { rule.statuses = redirectStatuses(element) }
        if let element = object["to"] { rule.to = HostPatternSet(element.oneOrMore().compactMap { $0.hostPattern() }) }
        let scheme = object["scheme"]?.scheme()
        rule.path = object["path"]?.pathPattern()
        let word = object.required("then")?.choice(RedirectWord.self)
        let rewrite = readRewrite(object, rule, scheme, isWanted: word == .rewrite)
        // With "rewrite" the scheme is the new value, not a condition.
        if word != .rewrite { rule.scheme = scheme }
        object.finish()
        switch word {
        case nil: return nil
        case .follow: rule.action = .follow
        case .return: rule.action = .return
        case .deny: rule.action = .deny
        case .rewrite: rule.action = .rewrite(rewrite)
        }
        return rule
    }

    private func redirectStatuses(_ element: DocumentElement) -> Set<Int> {
        let known: Set = [301, 302, 303, 307, 308]
        var statuses: Set<Int> = []
        for element in element.oneOrMore() {
            guard let status = element.int(in: 100...599) else { continue }
            if known.contains(status) {
                statuses.insert(status)
            } else {
                element.report("\(status) is no redirect", remedy: "write 301, 302, 303, 307 or 308")
            }
        }
        return statuses
    }

    private static let rewriteKeys = ["host", "port", "pathPrefix", "addHeaders", "removeHeaders"]

    private func readRewrite(
        _ object: DocumentObject,
        _ rule: RedirectRule,
        _ scheme: RequestHead.Scheme?,
        isWanted: Bool
    ) -> RedirectRewrite {
        var rewrite = RedirectRewrite()
        let present = Self.rewriteKeys.filter { object.has($0) }
        guard isWanted else {
            for key in present {
                object[key]?.report(
                    "\"\(key)\" belongs to \"then\": \"rewrite\"",
                    remedy: "take it out, or write \"rewrite\""
                )
            }
            return rewrite
        }
        if present.isEmpty, !object.has("scheme") {
            object.element.report(
                "nothing is rewritten",
                remedy: "say what changes (\"scheme\", \"host\", \"pathPrefix\" and others), or write \"follow\""
            )
        }
        rewrite.scheme = scheme
        if let element = object["host"], let text = element.string() { rewrite.host = HostName.read(text, on: element) }
        rewrite.port = object.int("port", in: 1...65_535).map { UInt16($0) }
        if let element = object["pathPrefix"], let prefix = element.string() {
            if PathPattern(prefix) != nil, prefix.hasPrefix("/"), !prefix.contains("*") {
                rewrite.pathPrefix = prefix
            } else {
                element.report("not a path", remedy: "begin it with / and percent-encode what no path holds")
            }
        }
        if let object = object.object("addHeaders") {
            readFields(object, into: &rewrite.fields, adds: true)
            let isNamed = rewrite.host != nil || (rule.to.map { !$0.patterns.contains(.any) } ?? false)
            if rewrite.fields.givesCredentials, !isNamed {
                object.element.report(
                    "every host that a redirect leads to would be sent these credentials",
                    remedy: "name the hosts in \"to\", or the one in \"host\""
                )
            }
        }
        for element in object.elements("removeHeaders") ?? [] { readRemoval(element, into: &rewrite.fields) }
        return rewrite
    }
}

extension DocumentElement {
    /// The elements of an array, or a single value.
    func oneOrMore() -> [DocumentElement] {
        guard case .array = value.content else { return [self] }
        let elements = elements() ?? []
        if elements.isEmpty { report("nothing would match", remedy: "name what is to match, or take it out") }
        return elements
    }

    func scheme() -> RequestHead.Scheme? {
        guard let text = string() else { return nil }
        switch text {
        case "http": return .http
        case "https": return .https
        default:
            report("unknown scheme", remedy: "write \"http\" or \"https\"")
            return nil
        }
    }

    func pathPattern() -> PathPattern? {
        guard let text = string() else { return nil }
        if let pattern = PathPattern(text) { return pattern }
        let example = "write one as in \"/v1/items\", \"/v1/*\" or \"*.zip\", without query and percent-encoded"
        guard let wrong = text.unicodeScalars.first(where: { PathPattern("/\($0)") == nil }) else {
            report("not a pattern for a path: it does not begin with \"/\" or \"*\"", remedy: example)
            return nil
        }
        let name = wrong == " " ? "a space" : "\"\(wrong)\""
        report(
            "not a pattern for a path: it has \(name)",
            remedy: wrong == "?" || wrong == "#"
                ? example
                : "write \"\(String(wrong).utf8.map { "%\(Self.hexadecimal($0))" }.joined())\" in its place"
        )
        return nil
    }

    private static func hexadecimal(_ byte: UInt8) -> String {
        let digits = String(byte, radix: 16, uppercase: true)
        return byte < 0x10 ? "0\(digits)" : digits
    }
}
