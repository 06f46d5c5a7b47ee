// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import ProxyConfiguration

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
        return [Row(label: "cache", text: text)] + (cache.redis.map { [row($0)] } ?? [])
    }

    private static func row(_ redis: RedisCacheConfiguration) -> Row {
        let bodies = "bodies up to \(ByteCount.describe(redis.maximumBody))"
        let prefix = String(decoding: redis.prefix, as: UTF8.self)
        return Row(
            label: "cache in Redis",
            text: "\(redis), keys begin with \(prefix), \(bodies), timeout \(redis.timeout)"
        )
    }

    private static func describe(_ cache: CacheRules) -> String {
        var parts = cache.requestRules.map { $0.text }
        if cache.requestPolicy != .useProtocolCachePolicy { parts.append("else \(cache.requestPolicy.rawValue)") }
        parts += cache.keys.rules.map { $0.text } + cache.bypasses.map { $0.text } + cache.ignored.map { $0.text }
        parts += cache.graces.map { $0.text } + cache.rules.map { $0.text }
        return parts.joined(separator: "; ")
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
    static func describe(_ changes: FieldChanges) -> String {
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
