// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore

/// The request fields that select a stored response among its variants: those that its Vary names, in normal form (RFC
/// 9111 4.1).
///
/// For every field, lines of one name are joined to a list, and white space at the ends is removed. For fields with
/// known grammar, white space around members is removed too, case-insensitive values are in lower case, and
/// Accept-Encoding, whose order has no meaning, is sorted. Accept-Language and Accept keep their order, since origins
/// choose by it.
public struct SelectingFields: Hashable, Sendable {
    package struct Field: Hashable, Sendable {
        /// In lower case.
        package var name: [UInt8]
        /// nil when the request has no such field.
        package var value: [UInt8]?
    }

    /// Sorted by name, each name once.
    package let fields: [Field]

    /// The selecting fields of a response without Vary: none.
    public init() { fields = [] }

    init(fields: [Field]) { self.fields = fields }

    /// - Parameters:
    ///   - response: the fields of the response.
    ///   - request: the fields of the request that it answers.
    public init(vary response: HeaderFields, request: HeaderFields) {
        self.init(names: Self.names(response), request: request)
    }

    /// The same with the Vary of another response of the URI.
    ///
    /// - Parameter names: in lower case, sorted, each once, as in `names`.
    package init(names: [[UInt8]], request: HeaderFields) {
        fields = names.map { Field(name: $0, value: Self.normalized($0, in: request)) }
    }

    /// Whether there are none: the response is for all requests of its URI.
    public var isEmpty: Bool { fields.isEmpty }

    package var names: [[UInt8]] { fields.map(\.name) }

    /// Whether `request` has the same values.
    public func matches(_ request: HeaderFields) -> Bool {
        guard fields.count <= Self.namesAtMost else { return false }
        for field in fields where Self.normalized(field.name, in: request) != field.value { return false }
        return true
    }

    /// Whether `request` accepts the same codings, if Accept-Encoding is a selecting field.
    func areCodings(of request: HeaderFields) -> Bool {
        for field in fields where field.name.span.equals("accept-encoding") {
            return Self.normalized(field.name, in: request) == field.value
        }
        return true
    }

    /// A Vary that names more fields counts as `*`: the comparison would cost more than it saves.
    package static let namesAtMost = 64
    /// The same for one that names fields again and again.
    private static let varyMembersAtMost = 256

    /// Whether it holds secret values that must not be written to a disk.
    var hasSecrets: Bool {
        fields.contains { field in
            field.value != nil && Self.secretNames.contains(field.name)
        }
    }

    private static let secretNames = ["authorization", "proxy-authorization", "cookie"].map { Array($0.utf8) }

    /// The names that Vary lists, in lower case, sorted, each once; more than the limit for a list that is too long.
    static func names(_ response: HeaderFields) -> [[UInt8]] {
        var names: [[UInt8]] = []
        var found = response.first(.vary)
        while let index = found {
            let value = response.value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                guard !range.isEmpty else { continue }
                var name = [UInt8](copying: value.extracting(range))
                for index in name.indices { name[index] = ASCII.lowercased(name[index]) }
                names.append(name)
                // The rest is not read.
                if names.count > varyMembersAtMost { return names }
            }
            found = response.next(.vary, after: index)
        }
        return Set(names).sorted { $0.lexicographicallyPrecedes($1) }
    }

    // MARK: - Normal form

    private static func normalized(_ name: [UInt8], in request: HeaderFields) -> [UInt8]? {
        guard let first = request.first(named: name.span) else { return nil }
        let id = request.id(at: first)
        switch id {
        case .accept, .acceptEncoding, .acceptLanguage:
            if let list = normalizedList(id, request, first) { return list }
        default: break
        }
        var value: [UInt8] = []
        for index in first..<request.count where request.name(at: index).equalsIgnoringCase(name.span) {
            if index > first { value.append(", ") }
            request.appendValue(at: index, to: &value)
        }
        return value
    }

    /// The number of members of a list that is brought into normal form: it is made for each variant that a request is
    /// compared with. Longer lists stay as they are.
    private static let membersAtMost = 64

    /// - Returns: nil for a list with too many members.
    private static func normalizedList(_ id: FieldName, _ request: HeaderFields, _ first: Int) -> [UInt8]? {
        var members: [[UInt8]] = []
        var found: Int? = first
        while let index = found {
            let value = request.value(at: index)
            var list = ListMembers()
            while let range = list.next(in: value) {
                guard !range.isEmpty else { continue }
                guard members.count < membersAtMost else { return nil }
                members.append(normalizedMember(value.extracting(range), inLowerCase: id != .accept))
            }
            found = request.next(id, after: index)
        }
        if id == .acceptEncoding { members.sort { $0.lexicographicallyPrecedes($1) } }
        return Array(members.joined(separator: [UInt8(ascii: ",")]))
    }

    /// Removes white space around semicolons, but changes nothing inside quotes (parameters of Accept).
    private static func normalizedMember(_ text: borrowing Span<UInt8>, inLowerCase: Bool) -> [UInt8] {
        var member: [UInt8] = []
        var isQuoted = false
        var index = 0
        while index < text.count {
            let byte = text[index]
            index += 1
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if !isQuoted {
                if ASCII.isBlank(byte) { continue }
                member.append(inLowerCase ? ASCII.lowercased(byte) : byte)
                continue
            }
            member.append(byte)
            if byte == UInt8(ascii: "\\"), index < text.count {
                member.append(text[index])
                index += 1
            }
        }
        return member
    }
}
