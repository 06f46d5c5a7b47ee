// SPDX-License-Identifier: Apache-2.0
/// A refresh of the credential failed; the requests that waited for it were not sent, or not sent again.
public struct CredentialRefreshError: Error, Sendable, CustomStringConvertible {
    /// The error that `Authenticator.refresh` has thrown.
    public let underlying: any Error

    /// An error of a refresh.
    public init(_ underlying: any Error) { self.underlying = underlying }

    public var description: String { "The credential could not be refreshed: \(underlying)" }
}
