// SPDX-License-Identifier: Apache-2.0
/// Parameters of a request: a dictionary of any values, variables among them, or a value of any type.
///
/// ```swift
/// try await manager.get("items", parameters: ["q": text, "page": 2, "tags": tags, "after": date])
/// try await manager.post("items", parameters: item)      // any Encodable type
/// ```
///
/// Values are encoded by `RequestSettings.parameterEncoder`; nil is null. Names keep their order. Literals of several types inside
/// others need a type when variables are among them: `["city": city, "floor": 3] as Parameters`.
public struct Parameters: ExpressibleByDictionaryLiteral, Encodable, Sendable {
    private var members: [(name: String, value: (any Encodable & Sendable)?)]
    private let whole: (any Encodable & Sendable)?

    /// The last value of a repeated name counts.
    public init(dictionaryLiteral elements: (String, (any Encodable & Sendable)?)...) {
        whole = nil
        members = []
        for (name, value) in elements {
            members.removeAll { $0.name == name }
            members.append((name: name, value: value))
        }
    }

    /// Parameters of a type: a structure, a dictionary, an array, a `ParameterValue`.
    public init(_ value: some Encodable & Sendable) {
        whole = value
        members = []
    }

    /// The value of a name in a dictionary of parameters; a new name is added at the end, nil removes a name. Names of a type that
    /// was given as a whole are not seen here, and a member beside it is an error when the request is made.
    public subscript(name: String) -> (any Encodable & Sendable)? {
        get { members.last { $0.name == name }?.value }
        set {
            members.removeAll { $0.name == name }
            if let newValue { members.append((name: name, value: newValue)) }
        }
    }

    /// Encodes the values by name, or the whole.
    public func encode(to encoder: any Encoder) throws {
        if let whole {
            guard members.isEmpty else {
                throw EncodingError.invalidValue(
                    self,
                    EncodingError.Context(
                        codingPath: encoder.codingPath,
                        debugDescription: "Parameters are a value of a type, or single members."
                    )
                )
            }
            return try whole.encode(to: encoder)
        }
        var container = encoder.container(keyedBy: Name.self)
        for (name, value) in members {
            if let value {
                try container.encode(value, forKey: Name(stringValue: name))
            } else {
                try container.encodeNil(forKey: Name(stringValue: name))
            }
        }
    }

    /// The parameters in the form that serializers take; nil for a value that is null as a whole.
    func value(_ encoder: ParameterValueEncoder) throws -> ParameterValue? {
        guard members.isEmpty, let whole else { return try encoder.encode(self) }
        // A set of values stays one.
        let value = try whole as? ParameterValue ?? encoder.encode(whole)
        // A literal nil would be `ParameterValue.null`.
        return value == .null ? Optional.none : .some(value)
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
