import HTTPCaching
import HTTPCore
import StrictJSON

// The rules of the cache about requests.

extension ConfigurationReader {
    /// The keys that make a rule of `cache.rules` one about requests.
    static let requestRuleKinds = ["requestPolicy", "key"]

    /// - Parameter kind: the one of `requestRuleKinds` that the rule has.
    func readRequestRule(_ object: DocumentObject, _ kind: String, into cache: inout CacheRules) {
        let path = object["path"]?.pathPattern()
        let method = object["method"]?.choice(CacheMethod.self)?.method
        switch kind {
        case "requestPolicy":
            guard let policy = object["requestPolicy"]?.choice(RequestPolicy.self) else { return }
            cache.requestRules.append(CacheRequestRule(path: path, method: method, policy))
        case "key":
            refuse(["method"], of: object, "makes no difference to a key: HEAD has that of GET")
            guard let terms = object.object("key").flatMap({ readKeyTerms($0) }) else { return }
            cache.keys.rules.append(CacheRequestRule(path: path, terms))
        default: assertionFailure("no rule about requests has \(kind)")
        }
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
