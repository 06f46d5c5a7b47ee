// SPDX-License-Identifier: Apache-2.0
public import ServerTrust

/// The decision about a server's request for a client certificate.
public enum ClientIdentityDecision: Sendable {
    /// Nothing: the server decides whether it goes on.
    case none
    /// That certificate, with a proof that its key is at hand.
    case show(ClientIdentity)
    /// End the task.
    case fail(SessionError)
}
