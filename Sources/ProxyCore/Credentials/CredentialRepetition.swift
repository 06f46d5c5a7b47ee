import SessionCore

/// A request that is sent once more because the server has refused its credential (401): the response is dropped, the credential is
/// renewed, and nothing of the response was delivered.
struct CredentialRepetition {
    private enum Phase {
        case open
        /// The response of the first time is read to its end, or broken off.
        case dropping
        case made
    }

    private var phase = Phase.open
    private var unwanted = UnwantedBody()

    /// A request is sent again once, whatever comes back then.
    var mayBegin: Bool { phase == .open }
    var isDropping: Bool { phase == .dropping }
    /// Whether the first response is over.
    var isMade: Bool { phase == .made }

    mutating func begin() { phase = .dropping }

    /// Counts bytes of the response; false when there are too many.
    mutating func drop(_ count: Int) -> Bool { unwanted.didReceive(count) }

    mutating func end() { phase = .made }
}
