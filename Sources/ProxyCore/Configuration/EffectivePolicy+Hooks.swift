import HTTPCaching
import HTTPCore

extension EffectivePolicy {
    /// The rows about changes beyond forwarding; none for a host without any.
    static func hooks(_ entry: HostConfiguration) -> [Row] {
        var rows: [Row] = []
        if !entry.redirects.isTrivial { rows.append(Row(label: "redirects", text: describe(entry.redirects))) }
        if !entry.responses.isTrivial { rows.append(Row(label: "responses", text: describe(entry.responses))) }
        for (label, changes) in [
            ("request fields", entry.headers.request), ("response fields", entry.headers.response),
        ]
        where !changes.isEmpty {
            rows.append(Row(label: label, text: describe(changes)))
        }
        if !entry.cache.isTrivial { rows.append(Row(label: "cache rules", text: describe(entry.cache))) }
        return rows
    }

    /// The rows about the cache of the process; none without one.
    static func cache(_ cache: CacheConfiguration?) -> [Row] {
        guard let cache else { return [] }
        var text = "\(cache.isShared ? "shared" : "for one user"), \(ByteCount.describe(cache.memory)) in memory"
        if let disk = cache.disk { text += ", \(ByteCount.describe(disk.size)) in \(disk.path)" }
        text += ", patience \(cache.patience)"
        return [Row(label: "cache", text: text)]
    }

    private static func describe(_ cache: CacheRules) -> String {
        var parts = cache.requestRules.map { rule in
            ([rule.value.rawValue] + conditions(rule.path, rule.method)).joined(separator: " ")
        }
        if cache.requestPolicy != .useProtocolCachePolicy { parts.append("else \(cache.requestPolicy.rawValue)") }
        parts += cache.keys.rules.map { rule in
            var words = ["key"] + conditions(rule.path, nil)
            words += rule.value.ignoredParameters.map { "without parameter \($0.text)" }
            if rule.value.sortsParameters { words.append("with sorted parameters") }
            words += rule.value.fieldNames.map { "with \(String(decoding: $0, as: UTF8.self))" }
            return words.joined(separator: " ")
        }
        parts += cache.bypasses.map { rule in
            var words = ["bypass"] + conditions(rule.path, rule.method)
            words += rule.value.fieldNames.map { "with \(String(decoding: $0, as: UTF8.self))" }
            words += rule.value.cookies.map { "with cookie \($0.text)" }
            return words.joined(separator: " ")
        }
        parts += cache.ignored.map { rule in
            let words = ConfigurationReader.IgnorableDirective.allCases.filter { rule.value.contains($0.value) }
            return (["ignore"] + words.map(\.rawValue) + conditions(rule.path, rule.method)).joined(separator: " ")
        }
        parts += cache.graces.map { rule in
            var words = ["grace"] + conditions(rule.path, rule.method)
            for (name, seconds) in [
                ("staleWhileRevalidate", rule.value.whileRevalidating), ("staleIfError", rule.value.onErrors),
                ("retryAfter", rule.value.retryAfter),
            ] where seconds > 0 { words.append("\(name) \(Milliseconds(seconds * 1000))") }
            return words.joined(separator: " ")
        }
        parts += cache.rules.map { rule in
            var words = conditions(rule.path, rule.method)
            if let statuses = rule.statuses { words.append(statuses.description) }
            if let types = rule.contentTypes { words.append(types.map(\.description).joined(separator: " or ")) }
            guard case .store(lifetime: let seconds) = rule.action else {
                return (["skip"] + words).joined(separator: " ")
            }
            words.insert("store", at: 0)
            if let seconds { words.append("for \(Milliseconds(seconds * 1000))") }
            words += rule.removedFields.map { "without \($0)" } + rule.setFields.map { "with \($0.name)" }
            if let limit = rule.maximumBytes { words.append("up to \(ByteCount.describe(limit))") }
            return words.joined(separator: " ")
        }
        return parts.joined(separator: "; ")
    }

    private static func conditions(_ path: PathPattern?, _ method: HTTPMethod?) -> [String] {
        [method.map { "\($0.knownText)" }, path?.text].compactMap { $0 }
    }

    private static func describe(_ redirects: RedirectRules) -> String {
        let rules = redirects.rules.map { rule in
            let word =
                switch rule.action {
                case .follow: "follow"
                case .return: "return"
                case .deny: "deny"
                case .rewrite: "rewrite"
                }
            var conditions: [String] = []
            if !rule.statuses.isEmpty {
                conditions.append(rule.statuses.sorted().map(String.init).joined(separator: "/"))
            }
            if let scheme = rule.scheme { conditions.append("\(scheme.text)") }
            if let to = rule.to { conditions.append("to " + to.patterns.map(\.description).joined(separator: " or ")) }
            if let path = rule.path { conditions.append(path.text) }
            return conditions.isEmpty ? word : "\(word) \(conditions.joined(separator: " "))"
        }
        let last = rules.isEmpty ? redirects.policy.rawValue : "else \(redirects.policy.rawValue)"
        let limit = redirects.mayFollow ? "; at most \(redirects.max)" : ""
        return (rules + [last]).joined(separator: ", ") + limit
    }

    private static func describe(_ responses: ResponseRules) -> String {
        var parts = responses.rules.map { rule in
            var conditions: [String] = []
            if let statuses = rule.statuses { conditions.append(statuses.description) }
            if let types = rule.contentTypes { conditions.append(types.map(\.description).joined(separator: " or ")) }
            if let minimum = rule.minBytes { conditions.append("from \(ByteCount.describe(minimum))") }
            if let maximum = rule.maxBytes { conditions.append("up to \(ByteCount.describe(maximum))") }
            let word =
                switch rule.action {
                case .allow: "allow"
                case .cancel: "cancel"
                case .becomeDownload(let directory, let quota):
                    "download to \(directory), which holds at most \(ByteCount.describe(quota)),"
                }
            return conditions.isEmpty ? word : "\(word) \(conditions.joined(separator: " "))"
        }
        if let codes = responses.acceptableStatusCodes { parts.append("acceptable are \(codes)") }
        if let types = responses.acceptableContentTypes {
            parts.append("acceptable are " + types.map(\.description).joined(separator: ", "))
        }
        if let limit = responses.maxBytes { parts.append("at most \(ByteCount.describe(limit))") }
        return parts.joined(separator: "; ")
    }

    /// Describes names and the sources of their values; never a value.
    private static func describe(_ changes: FieldChanges) -> String {
        func place(_ source: FieldChanges.Source) -> String {
            switch source {
            case .literal: ""
            case .environment(let name): " (from the variable \(name))"
            case .file(let path): " (from \(path))"
            }
        }
        return
            (changes.removed.map { "without \($0)" } + changes.set.map { "sets \($0.name)\(place($0.source))" }
            + changes.added.map { "adds \($0.name)\(place($0.source))" }).joined(separator: ", ")
    }
}
