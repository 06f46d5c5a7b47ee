/// Values by name, in the order in which the names were given; equal whatever the order.
public struct OrderedMembers<Value: Sendable & Hashable>: Sendable, Hashable, ExpressibleByDictionaryLiteral, Sequence {
    /// The names, in order.
    public private(set) var keys: [String] = []
    private var values: [String: Value] = [:]

    /// Without members.
    public init() {}

    /// The last of two values of one name stands.
    public init(dictionaryLiteral elements: (String, Value)...) {
        for (key, value) in elements { self[key] = value }
    }

    /// In the order of the names.
    public init(_ dictionary: [String: Value]) {
        keys = dictionary.keys.sorted()
        values = dictionary
    }

    /// How many members there are.
    public var count: Int { keys.count }
    /// Whether there are none.
    public var isEmpty: Bool { keys.isEmpty }

    /// A new name stands at the end; nil takes one out.
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
