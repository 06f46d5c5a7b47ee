public import Foundation
public import HTTPSession

extension Decimal: ParameterConvertible {
    /// The exact number: as text when no whole number and no `Double` is equal to it.
    public var parameterValue: ParameterValue {
        let text = description
        if let whole = Int(text) { return .int(whole) }
        if let number = Double(text), number.description == text { return .double(number) }
        return .string(text)
    }
}
