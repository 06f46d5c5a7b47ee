// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import StrictJSON

// The rules of the cache about requests.

extension ConfigurationReader {
    /// The keys that make a rule of `cache.rules` one about requests.
    static let requestRuleKinds = ["requestPolicy", "key", "bypass", "ignoreDirectives", "grace"]

    /// - Parameters:
    ///   - kind: the one of `requestRuleKinds` that the rule has.
    ///   - place: of the rule in its list.
    func readRequestRule(_ object: DocumentObject, _ kind: String, at place: Int, into cache: inout CacheRules) {
        let path = object["path"]?.pathPattern()
        let method = object["method"]?.choice(CacheMethod.self)?.method
        switch kind {
        case "requestPolicy":
            guard let policy = object["requestPolicy"]?.choice(RequestPolicy.self) else { return }
            cache.requestRules.append(CacheRequestRule(path: path, method: method, policy, at: place))
        case "key":
            refuse(["method"], of: object, "makes no difference to a key: HEAD has that of GET")
            guard let terms = object.object("key").flatMap({ readKeyTerms($0) }) else { return }
            cache.keys.rules.append(CacheRequestRule(path: path, terms, at: place))
        case "bypass":
            guard let bypass = object.object("bypass").flatMap({ readBypass($0) }) else { return }
            cache.bypasses.append(CacheRequestRule(path: path, method: method, bypass, at: place))
        case "ignoreDirectives":
            guard let ignored = object["ignoreDirectives"].flatMap({ readIgnored($0) }) else { return }
            cache.ignored.append(CacheRequestRule(path: path, method: method, ignored, at: place))
        case "grace":
            guard let grace = object.object("grace").flatMap({ readGrace($0) }) else { return }
            cache.graces.append(CacheRequestRule(path: path, method: method, grace, at: place))
        default: assertionFailure("no rule about requests has \(kind)")
        }
    }

    private func readBypass(_ object: DocumentObject) -> CacheBypass? {
        comment(object)
        var names: [String] = []
        for element in object.elements("headers") ?? [] {
            if let name = element.string(), fieldName(name, element) { names.append(name) }
        }
        let cookies = (object.elements("cookies") ?? []).compactMap { $0.wildcardPattern("cookie") }
        let isTold = !(object.elements("headers") ?? []).isEmpty || !(object.elements("cookies") ?? []).isEmpty
        object.finish()
        guard isTold else {
            object.element.report(
                "keeps no request from the cache",
                remedy: "name \"headers\" or \"cookies\", or take the rule out"
            )
            return nil
        }
        return CacheBypass(fields: names, cookies: cookies)
    }

    /// The directives of requests that need not be obeyed.
    enum IgnorableDirective: String, CaseIterable {
        case noCache = "no-cache"
        case noStore = "no-store"
        case maxAge = "max-age"
        case minFresh = "min-fresh"
        case pragma

        var value: IgnoredDirectives {
            switch self {
            case .noCache: .noCache
            case .noStore: .noStore
            case .maxAge: .maxAge
            case .minFresh: .minFresh
            case .pragma: .pragma
            }
        }
    }

    private func readIgnored(_ element: DocumentElement) -> IgnoredDirectives? {
        guard let elements = element.elements() else { return nil }
        if elements.isEmpty {
            element.report("names no directive", remedy: "name one, as in [\"no-cache\"], or take the rule out")
        }
        return IgnoredDirectives(elements.compactMap { $0.choice(IgnorableDirective.self)?.value })
    }

    private func readGrace(_ object: DocumentObject) -> CacheGrace? {
        comment(object)
        var grace = CacheGrace()
        let whileRevalidating = object["staleWhileRevalidate"]
        let onErrors = object["staleIfError"]
        if let seconds = whileRevalidating.flatMap({ readLifetime($0) }) { grace.whileRevalidating = seconds }
        if let seconds = onErrors.flatMap({ readLifetime($0) }) { grace.onErrors = seconds }
        let retryAfter = object["retryAfter"]
        if let seconds = retryAfter.flatMap({ readLifetime($0) }) { grace.retryAfter = seconds }
        object.finish()
        guard whileRevalidating != nil || onErrors != nil || retryAfter != nil else {
            object.element.report(
                "gives no grace",
                remedy: "write \"staleWhileRevalidate\", \"staleIfError\" or \"retryAfter\", or take the rule out"
            )
            return nil
        }
        return grace
    }

    private func readKeyTerms(_ object: DocumentObject) -> CacheKeyTerms? {
        comment(object)
        let ignored = (object.elements("ignoreParameters") ?? []).compactMap { $0.wildcardPattern("parameter") }
        let sorts = object.bool("sortParameters") ?? false
        var names: [String] = []
        for element in object.elements("headers") ?? [] {
            if let name = readKeyField(element) { names.append(name) }
        }
        let isTold = object.has("ignoreParameters") || object.has("sortParameters") || object.has("headers")
        object.finish()
        guard isTold else {
            object.element.report(
                "changes no key",
                remedy: "write \"ignoreParameters\", \"sortParameters\" or \"headers\", or take the rule out"
            )
            return nil
        }
        return CacheKeyTerms(ignoredParameters: ignored, sortsParameters: sorts, fields: names)
    }

    /// The name of a field whose values become part of keys. Keys are written to the disk and must not hold secrets.
    private func readKeyField(_ element: DocumentElement) -> String? {
        guard let name = element.string(), fieldName(name, element) else { return nil }
        let lower = name.lowercased()
        guard !["authorization", "cookie"].contains(lower) else {
            element.report(
                "a secret, which must not stand in a key",
                remedy: "keep such requests from the cache, or set \"shared\": false, which separates users"
            )
            return nil
        }
        guard
            !["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"]
                .contains(lower)
        else {
            element.report("chooses no response, only a part of it or whether it is sent", remedy: "take it out")
            return nil
        }
        return name
    }
}

extension DocumentElement {
    /// Reads a pattern for names.
    ///
    /// - Parameter kind: of the names.
    func wildcardPattern(_ kind: String) -> WildcardPattern? {
        guard let text = string() else { return nil }
        if let pattern = WildcardPattern(text) { return pattern }
        report(
            "not a pattern for the name of a \(kind)",
            remedy: "write letters, digits, \"-\", \".\", \"_\", \"~\", and * for any characters, as in \"utm_*\""
        )
        return nil
    }
}
