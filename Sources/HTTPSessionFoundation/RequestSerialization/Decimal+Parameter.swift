public import Foundation
public import HTTPSession

extension Decimal: ParameterConvertible {
    /// The number, exactly: as text where no whole number and no `Double` is exactly that.
    public var parameterValue: ParameterValue {
        let text = description
        if let whole = Int(text) { return .int(whole) }
        if let number = Double(text), number.description == text { return .double(number) }
        return .string(text)
    }
}
