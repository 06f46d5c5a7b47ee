// SPDX-License-Identifier: Apache-2.0
/// Why a credential has no value: a stable code for metrics, and a text for people. Neither ever holds anything that the source
/// gave, because that may be the secret, or a part of it.
package struct CredentialFault: Error, Hashable, Sendable {
    package enum Code: String, CaseIterable, Sendable {
        /// The source could not be read or run: a missing file, a command that failed, a token server that cannot be reached.
        case source
        /// The source took too long.
        case timeout
        /// The source gave something that is not a value.
        case output
        /// The token server refused (RFC 6749, section 5.2).
        case refused
        /// The value has ended, and the next run of the source is not due yet.
        case ended

        /// What a client is told: nothing of the source, neither its place nor what it says.
        var cause: String {
            switch self {
            case .source: "its source could not be read or run"
            case .timeout: "its source took too long"
            case .output: "its source gave something that is not a value"
            case .refused: "the token server refused"
            case .ended: "its value has ended, and its source is not run again yet"
            }
        }
    }

    package var code: Code
    package var message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension CredentialFault: CustomStringConvertible {
    package var description: String { message }
}
