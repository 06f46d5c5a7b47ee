// SPDX-License-Identifier: Apache-2.0
/// A request that is sent once more because the server has refused its credential (401): the response is dropped, the credential is
/// renewed, and nothing of the response was delivered.
struct CredentialRepetition {
    private enum Phase {
        case open
        /// The response to the refused fields is being broken off.
        case dropping(CredentialFields)
        case made
    }

    private var phase = Phase.open

    /// A request is sent again once, whatever comes back then.
    var mayBegin: Bool { if case .open = phase { true } else { false } }
    var isDropping: Bool { if case .dropping = phase { true } else { false } }
    /// Whether the first response is over.
    var isMade: Bool { if case .made = phase { true } else { false } }

    mutating func begin(_ refused: CredentialFields) { phase = .dropping(refused) }

    /// The response is over.
    ///
    /// - Returns: the refused fields; nil when no response is dropped.
    mutating func end() -> CredentialFields? {
        guard case .dropping(let refused) = phase else { return nil }
        phase = .made
        return refused
    }
}
