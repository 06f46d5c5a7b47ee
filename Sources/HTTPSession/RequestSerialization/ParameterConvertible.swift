/// A type that is one parameter, whatever `Codable` makes of it: Foundation's `Decimal`, whose parts would otherwise be
/// sent one by one (`HTTPSessionFoundation` has it).
public protocol ParameterConvertible {
    /// What is sent for it.
    var parameterValue: ParameterValue { get }
}
