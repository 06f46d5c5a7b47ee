// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import SessionCore

/// Header fields of a request, as text:
///
/// ```swift
/// var headers: HTTPHeaders = ["Accept": "application/json", "X-Trace": trace]
/// headers["Authorization"] = "Bearer \(token)"
/// ```
///
/// Names are compared without regard to case, and keep their order and spelling; a name may stand in several fields. A name or
/// value that cannot be sent (RFC 9110, sections 5.1 and 5.5) is kept as it is, and is an error when the request is made: it is
/// never sent, and `validate` finds it before.
public struct HTTPHeaders: Sendable, Sequence, ExpressibleByDictionaryLiteral, CustomStringConvertible {
    /// A field.
    public typealias Element = (name: String, value: String)

    private var list: [Element] = []

    /// No fields.
    public init() {}

    /// A field for each pair, in order; a repeated name is several fields.
    public init(dictionaryLiteral elements: (String, String)...) {
        list = elements.map { (name: $0.0, value: $0.1) }
    }

    /// A field for each pair, in the order of their names.
    public init(_ dictionary: [String: String]) {
        list = dictionary.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
    }

    /// The fields of a head.
    public init(_ fields: HeaderFields) { list = fields.list }

    /// The first value of a name; nil without one. Setting it replaces all fields of the name by one in the first's place, or adds
    /// one at the end; nil removes them.
    public subscript(name: String) -> String? {
        get { value(for: name) }
        set {
            let index = list.firstIndex { Self.isSame($0.name, name) }
            remove(name: name)
            guard let newValue else { return }
            list.insert((name: name, value: newValue), at: index ?? list.endIndex)
        }
    }

    /// The first value of a name; nil without one.
    public func value(for name: String) -> String? { list.first { Self.isSame($0.name, name) }?.value }

    /// The values of a name, in order.
    public func values(for name: String) -> [String] { list.filter { Self.isSame($0.name, name) }.map(\.value) }

    /// Whether there is a field of that name.
    public func contains(name: String) -> Bool { list.contains { Self.isSame($0.name, name) } }

    /// Adds a field at the end, also beside one of the same name.
    public mutating func append(name: String, value: String) { list.append((name: name, value: value)) }

    /// Removes all fields of a name.
    public mutating func remove(name: String) { list.removeAll { Self.isSame($0.name, name) } }

    /// Adds the fields of `other` whose names are not here.
    public mutating func appendMissing(of other: HTTPHeaders) {
        guard !other.isEmpty else { return }
        let present = Set(list.map { $0.name.lowercased() })
        list += other.list.filter { !present.contains($0.name.lowercased()) }
    }

    /// The number of fields.
    public var count: Int { list.count }
    /// Whether there are no fields.
    public var isEmpty: Bool { list.isEmpty }

    /// The fields, in order.
    public func makeIterator() -> IndexingIterator<[Element]> { list.makeIterator() }

    /// Checks all names and values.
    ///
    /// - Throws: `requestInvalid`, with the name of the first field that cannot be sent.
    public func validate() throws(SessionError) { _ = try checked() }

    /// The fields for the wire.
    package func checked() throws(SessionError) -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in list {
            do throws(HTTPFieldFault) {
                try fields.append(name: name, value: value)
            } catch {
                throw SessionError(.requestInvalid, "A header field cannot be sent: \(error).")
            }
        }
        return fields
    }

    /// One line for each field. Secrets are not masked: do not log it.
    public var description: String { list.map { "\($0.name): \($0.value)" }.joined(separator: "\n") }

    private static func isSame(_ left: String, _ right: String) -> Bool {
        left.utf8.elementsEqual(right.utf8) || left.lowercased() == right.lowercased()
    }
}

extension HTTPHeaders: Equatable {
    /// Whether both have the same names, in any case, and the same values in the same order.
    public static func == (left: HTTPHeaders, right: HTTPHeaders) -> Bool {
        left.list.elementsEqual(right.list) { isSame($0.name, $1.name) && $0.value == $1.value }
    }
}
