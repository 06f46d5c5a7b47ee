// SPDX-License-Identifier: Apache-2.0
/// A type that is sent as one parameter, and not by its `Codable` members.
public protocol ParameterConvertible {
    /// The parameter to send.
    var parameterValue: ParameterValue { get }
}
