// SPDX-License-Identifier: Apache-2.0
// The text of `localizedDescription`.
public import FoundationEssentials
public import HTTPSessionCore
public import SessionCore

extension SessionError: LocalizedError {
    /// `details`, and in parentheses `request`.
    public var errorDescription: String? { text }
}

extension RequestFailure: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}

extension ResponseSerializationError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}

extension CredentialRefreshError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}

extension AuthenticationError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}

extension JSONFault: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
