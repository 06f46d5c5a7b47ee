// SPDX-License-Identifier: Apache-2.0
/// Values by name, in the order of insertion. The order does not count for equality.
public struct OrderedMembers<Value: Sendable & Hashable>: Sendable, Hashable, ExpressibleByDictionaryLiteral, Sequence {
    /// The names, in order.
    public private(set) var keys: [String] = []
    private var values: [String: Value] = [:]

    /// An empty list.
    public init() {}

    /// The last value of a repeated name counts.
    public init(dictionaryLiteral elements: (String, Value)...) {
        for (key, value) in elements { self[key] = value }
    }

    /// The values, in the order of `keys`.
    public init(_ dictionary: [String: Value]) {
        keys = dictionary.keys.sorted()
        values = dictionary
    }

    /// The number of members.
    public var count: Int { keys.count }
    /// Whether the list is empty.
    public var isEmpty: Bool { keys.isEmpty }

    /// The value of a name; a new name is added at the end, nil removes a name.
    public subscript(key: String) -> Value? {
        get { values[key] }
        set {
            let old = values[key]
            values[key] = newValue
            if old == nil, newValue != nil {
                keys.append(key)
            } else if old != nil, newValue == nil {
                keys.removeAll { $0 == key }
            }
        }
    }

    /// Names with their values, in the order of `keys`.
    public func makeIterator() -> AnyIterator<(key: String, value: Value)> {
        var index = 0
        return AnyIterator { [keys, values] in
            guard index < keys.count else { return nil }
            defer { index += 1 }
            // Every name has a value: both are changed together.
            return values[keys[index]].map { (keys[index], $0) }
        }
    }

    public static func == (left: Self, right: Self) -> Bool { left.values == right.values }

    public func hash(into hasher: inout Hasher) { hasher.combine(values) }
}
