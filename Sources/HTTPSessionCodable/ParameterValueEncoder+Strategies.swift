// SPDX-License-Identifier: Apache-2.0
public import FoundationEssentials
public import HTTPSessionCore

extension ParameterValueEncoder {
    /// An encoder with the strategies of Foundation's; its `outputFormatting` is not used.
    public init(_ encoder: JSONEncoder) {
        self.init()
        keyEncodingStrategy = encoder.keyEncodingStrategy
        dateEncodingStrategy = encoder.dateEncodingStrategy
        dataEncodingStrategy = encoder.dataEncodingStrategy
        nonConformingFloatEncodingStrategy = encoder.nonConformingFloatEncodingStrategy
        userInfo = encoder.userInfo.compactMapValues { $0 as any Sendable }
    }

    /// The names of members; as in the type by default.
    public var keyEncodingStrategy: JSONEncoder.KeyEncodingStrategy {
        get { foundation.keys }
        set { foundation.keys = newValue }
    }

    /// The form of a `Date`; by default the seconds since 2001 as a number (`deferredToDate`).
    public var dateEncodingStrategy: JSONEncoder.DateEncodingStrategy {
        get { foundation.dates }
        set { foundation.dates = newValue }
    }

    /// The form of `Data`; base64 by default.
    public var dataEncodingStrategy: JSONEncoder.DataEncodingStrategy {
        get { foundation.data }
        set { foundation.data = newValue }
    }

    /// The form of infinities and NaN; by default encoding throws.
    public var nonConformingFloatEncodingStrategy: JSONEncoder.NonConformingFloatEncodingStrategy {
        get { foundation.floats }
        set { foundation.floats = newValue }
    }

    private var foundation: FoundationStrategies {
        get { strategies as? FoundationStrategies ?? FoundationStrategies() }
        set { strategies = newValue }
    }
}

private struct FoundationStrategies: ParameterStrategies {
    var keys = JSONEncoder.KeyEncodingStrategy.useDefaultKeys
    var dates = JSONEncoder.DateEncodingStrategy.deferredToDate
    var data = JSONEncoder.DataEncodingStrategy.base64
    var floats = JSONEncoder.NonConformingFloatEncodingStrategy.throw

    func name(_ key: any CodingKey, at path: [any CodingKey]) -> String {
        switch keys {
        case .convertToSnakeCase: SnakeCase.encode(key.stringValue)
        case .custom(let closure): closure(path + [key]).stringValue
        default: key.stringValue
        }
    }

    func text(ofNonConforming number: Double) -> String? {
        guard case .convertToString(let positive, let negative, let nan) = floats else { return nil }
        return number.isNaN ? nan : number > 0 ? positive : negative
    }
}

// MARK: - Types that JSONEncoder does not encode by their members

extension Date: ParameterByStrategy {
    package func parameter(by encoder: ParameterValueEncoder, at path: [any CodingKey]) throws -> ParameterValue {
        switch encoder.dateEncodingStrategy {
        case .secondsSince1970: try encoder.encode(timeIntervalSince1970, path)
        case .millisecondsSince1970: try encoder.encode(1000 * timeIntervalSince1970, path)
        case .iso8601: .string(formatted(.iso8601))
        case .custom(let closure): try encoder.encode(path) { try closure(self, $0) }
        default: try encoder.encode(path) { try encode(to: $0) }
        }
    }
}

extension Data: ParameterByStrategy {
    package func parameter(by encoder: ParameterValueEncoder, at path: [any CodingKey]) throws -> ParameterValue {
        switch encoder.dataEncodingStrategy {
        case .base64: .string(base64EncodedString())
        case .custom(let closure): try encoder.encode(path) { try closure(self, $0) }
        default: try encoder.encode(path) { try encode(to: $0) }
        }
    }
}

extension URL: ParameterByStrategy {
    package func parameter(by encoder: ParameterValueEncoder, at path: [any CodingKey]) -> ParameterValue {
        .string(absoluteString)
    }
}

extension Decimal: ParameterByStrategy {
    package func parameter(by encoder: ParameterValueEncoder, at path: [any CodingKey]) throws -> ParameterValue {
        let text = description
        if let whole = Int(text) { return .int(whole) }
        if let double = Double(text), JSONNumber(double)?.text == text { return .double(double) }
        guard let number = JSONNumber(text) else { throw ParameterValueEncoder.noNumber(self, path) }
        return .number(number)
    }
}

extension JSONNumber: ManyDigits {
    package func encode(in container: inout any SingleValueEncodingContainer) throws -> Bool {
        guard let decimal = Decimal(string: text) else { return false }
        try container.encode(decimal)
        return true
    }
}
