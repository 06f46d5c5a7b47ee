// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore
import ServerTrust

/// Fields to set, add and remove: `headers.request` and `headers.response`, and the changes of a rewritten redirect.
/// Prepared once, so that applying them is a copy of bytes.
package struct FieldChanges: Sendable, Equatable {
    /// The source of a value.
    package enum Source: Hashable, Sendable {
        case literal
        case environment(String)
        case file(String)

        /// Whether the value may be a secret.
        package var isOutside: Bool { self != .literal }
    }

    /// A field to set or add.
    package struct Setting: Hashable, Sendable {
        package var name: String
        package var source: Source
    }

    private struct Content: Sendable, Equatable {
        var set: [Setting] = []
        var added: [Setting] = []
        var removed: [String] = []
        var removedNames = RemovedNames()
        var settings = HeaderFields()
        var additions = HeaderFields()

        func write(to fields: inout HeaderFields) {
            for index in 0..<settings.count { fields.append(contentsOf: settings, at: index) }
            for index in 0..<additions.count { fields.append(contentsOf: additions, at: index) }
        }
    }

    /// One object for all of it: each request that the changes are for holds them.
    private final class Storage: Sendable {
        let content: Content

        init(_ content: Content) { self.content = content }
    }

    /// Nil without changes.
    private var storage: Storage?

    /// The changes as written, without values, so that they may be shown.
    package var set: [Setting] { storage?.content.set ?? [] }
    package var added: [Setting] { storage?.content.added ?? [] }
    package var removed: [String] { storage?.content.removed ?? [] }

    package init() {}

    package static func == (one: FieldChanges, other: FieldChanges) -> Bool {
        one.storage?.content == other.storage?.content
    }

    package var isEmpty: Bool { storage == nil }

    /// Whether the changes give credentials to a request: its responses are stored like those to requests with
    /// `Authorization` (RFC 9111, section 3.5).
    package var givesCredentials: Bool {
        (set + added).contains { setting in
            setting.source.isOutside || Self.isCredential(setting.name)
        }
    }

    static func isCredential(_ name: String) -> Bool {
        switch FieldName(Array(name.utf8).span) {
        case .authorization, .cookie: true
        default: false
        }
    }

    /// Adds a field to set. The reader has checked name and value.
    package mutating func set(_ name: String, _ value: [UInt8], from source: Source) {
        let bytes = Array(name.utf8)
        change { content in
            content.set.append(Setting(name: name, source: source))
            content.removedNames.append(bytes)
            content.settings.append(name: bytes.span, value: value.span)
        }
    }

    package mutating func add(_ name: String, _ value: [UInt8], from source: Source) {
        change { content in
            content.added.append(Setting(name: name, source: source))
            content.additions.append(name: Array(name.utf8).span, value: value.span)
        }
    }

    package mutating func remove(_ name: String) {
        change { content in
            content.removed.append(name)
            content.removedNames.append(Array(name.utf8))
        }
    }

    private mutating func change(_ edit: (inout Content) -> Void) {
        var content = storage?.content ?? Content()
        edit(&content)
        storage = Storage(content)
    }

    /// SHA-256 over the names and values that are removed and added; empty without changes. Other fields may lead to
    /// another response.
    package var digest: [UInt8] {
        guard let content = storage?.content else { return [] }
        // Each value is preceded by its length, so that different lists never give the same bytes.
        var bytes: [UInt8] = []
        func append(_ part: some Collection<UInt8>) {
            bytes += Array("\(part.count):".utf8)
            bytes += part
        }
        for name in content.removedNames.all { append(name) }
        for fields in [content.settings, content.additions] {
            bytes += Array("fields \(fields.count)".utf8)
            for index in 0..<fields.count {
                append([UInt8](copying: fields.name(at: index)))
                append([UInt8](copying: fields.value(at: index)))
            }
        }
        return SecretDigest.sha256(bytes)
    }

    package func apply(to fields: inout HeaderFields) {
        removeNames(from: &fields)
        addValues(to: &fields)
    }

    /// Removes the fields to remove, and the fields to set.
    package func removeNames(from fields: inout HeaderFields) {
        guard let storage, !storage.content.removedNames.isEmpty else { return }
        fields.removeAll { fields, index in storage.content.removedNames.contains(fields, index) }
    }

    /// Adds the fields to set and to add.
    package func addValues(to fields: inout HeaderFields) {
        storage?.content.write(to: &fields)
    }
}

/// Names of fields that are removed. Most fields of a head need no comparison with them, however many there are.
///
/// A name is removed with its twins, which have other punctuation in the same places: servers behind CGI make an underscore of
/// whatever is neither letter nor digit, cannot tell them apart, and would see the client's field beside the one that is set.
private struct RemovedNames: Sendable, Equatable {
    private(set) var all: [[UInt8]] = []
    private var known = FieldNameSet()
    private var others: [[UInt8]] = []
    private var lengthsOfOthers: UInt64 = 0

    var isEmpty: Bool { all.isEmpty }

    mutating func append(_ name: [UInt8]) {
        all.append(name)
        let id = FieldName(name.span)
        let hyphenated = name.map(CGIName.folded)
        let twin = FieldName(hyphenated.span)
        if twin != .other { known.insert(twin) }
        guard id == .other else { return known.insert(id) }
        others.append(name)
        lengthsOfOthers |= Self.bit(of: name.count)
    }

    func contains(_ fields: borrowing HeaderFields, _ index: Int) -> Bool {
        let id = fields.id(at: index)
        guard id == .other else { return known.contains(id) }
        let name = fields.name(at: index)
        if lengthsOfOthers & Self.bit(of: name.count) != 0 {
            for other in others where Self.isSame(name, other) { return true }
        }
        // Its twin may be one of the names that have numbers.
        guard Self.hasOtherPunctuation(name) else { return false }
        for other in all where Self.isSame(name, other) { return true }
        return false
    }

    private static func isSame(_ name: borrowing Span<UInt8>, _ other: [UInt8]) -> Bool {
        guard name.count == other.count else { return false }
        for index in 0..<name.count where CGIName.folded(name[index]) != CGIName.folded(other[index]) {
            return false
        }
        return true
    }

    /// Whether a name has punctuation besides hyphens.
    private static func hasOtherPunctuation(_ name: borrowing Span<UInt8>) -> Bool {
        for index in 0..<name.count where name[index] != UInt8(ascii: "-") && CGIName.isPunctuation(name[index]) {
            return true
        }
        return false
    }

    /// All lengths from 63 on share a bit.
    private static func bit(of length: Int) -> UInt64 { 1 << UInt64(min(length, 63)) }
}

/// `headers` of the defaults or of a host.
package struct HeaderRules: Sendable {
    /// Changes to requests for the host.
    package var request = FieldChanges()
    /// Changes to responses.
    package var response = FieldChanges()

    package init() {}
}
