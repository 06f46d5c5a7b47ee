// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore

// The rules of the cache in words, for people.

extension CacheRules {
    /// The text of each rule, in the order of the configuration.
    package var texts: [String] {
        var all: [(place: Int, text: String)] = requestRules.map { ($0.place, $0.text) }
        all += keys.rules.map { ($0.place, $0.text) }
        all += bypasses.map { ($0.place, $0.text) }
        all += ignored.map { ($0.place, $0.text) }
        all += graces.map { ($0.place, $0.text) }
        all += rules.map { ($0.place, $0.text) }
        return all.sorted { $0.place < $1.place }.map(\.text)
    }
}

private func conditions(_ path: PathPattern?, _ method: HTTPMethod?) -> [String] {
    [method.map { "\($0.knownText)" }, path?.text].compactMap { $0 }
}

extension CacheRequestRule {
    fileprivate var conditionTexts: [String] { conditions(path, method) }
}

extension CacheRequestRule<RequestPolicy> {
    package var text: String { ([value.rawValue] + conditionTexts).joined(separator: " ") }
}

extension CacheRequestRule<CacheKeyTerms> {
    package var text: String {
        var words = ["key"] + conditionTexts
        words += value.ignoredParameters.map { "without parameter \($0.text)" }
        if value.sortsParameters { words.append("with sorted parameters") }
        words += value.fieldNames.map { "with \(String(decoding: $0, as: UTF8.self))" }
        return words.joined(separator: " ")
    }
}

extension CacheRequestRule<CacheBypass> {
    package var text: String {
        var words = ["bypass"] + conditionTexts
        words += value.fieldNames.map { "with \(String(decoding: $0, as: UTF8.self))" }
        words += value.cookies.map { "with cookie \($0.text)" }
        return words.joined(separator: " ")
    }
}

extension CacheRequestRule<IgnoredDirectives> {
    package var text: String {
        let names = ConfigurationReader.IgnorableDirective.allCases.filter { value.contains($0.value) }
        return (["ignore"] + names.map(\.rawValue) + conditionTexts).joined(separator: " ")
    }
}

extension CacheRequestRule<CacheGrace> {
    package var text: String {
        var words = ["grace"] + conditionTexts
        for (name, seconds) in [
            ("staleWhileRevalidate", value.whileRevalidating), ("staleIfError", value.onErrors),
            ("retryAfter", value.retryAfter),
        ] where seconds > 0 { words.append("\(name) \(Milliseconds(seconds * 1000))") }
        return words.joined(separator: " ")
    }
}

extension CacheRule {
    package var text: String {
        var words = conditions(path, method)
        if let statuses { words.append(statuses.description) }
        if let contentTypes { words.append(contentTypes.map(\.description).joined(separator: " or ")) }
        guard case .store(lifetime: let seconds) = action else { return (["skip"] + words).joined(separator: " ") }
        words.insert("store", at: 0)
        if let seconds { words.append("for \(Milliseconds(seconds * 1000))") }
        words += removedFields.map { "without \($0)" } + setFields.map { "with \($0.name)" }
        if let maximumBytes { words.append("up to \(ByteCount.describe(maximumBytes))") }
        return words.joined(separator: " ")
    }
}
