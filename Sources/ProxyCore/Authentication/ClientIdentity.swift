// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration

/// The user of a client's request: that of its connection, or the one whose credentials the request presents.
///
/// A value: the exchange calls it for each event, and carries out what it says.
struct ClientIdentity {
    enum Step {
        /// The client may use the proxy.
        case route
        /// The request has to present credentials.
        case verify
        /// It gets an error response. Nothing of it was sent.
        indirect case refuse(Problem)
        indirect case fail(Problem)
    }

    /// The user's name; nil when the listener does not authenticate clients.
    private(set) var user: [UInt8]?
    /// The credentials that this request was authenticated with; nil when its connection was.
    private var presented: ClientCredentials?

    /// Forgets the request before.
    mutating func reset() {
        if user != nil { user = nil }
        if presented != nil { presented = nil }
    }

    /// The request begins, or starts again.
    ///
    /// - Parameter user: of the connection.
    mutating func begin(as user: [UInt8]?) {
        self.user = user
        if presented != nil { presented = nil }
    }

    /// The listener demands credentials.
    ///
    /// - Parameters:
    ///   - isStillKnown: the connection's user is valid under the listener's present credentials.
    ///   - isIntercepted: the request came inside a CONNECT.
    mutating func authenticate(isStillKnown: Bool, isIntercepted: Bool) -> Step {
        guard user != nil else { return .verify }
        if isStillKnown { return .route }
        user = nil
        // The credentials of the CONNECT cannot be presented again here.
        return isIntercepted ? .fail(Self.unknownUser) : .verify
    }

    /// The presented credentials were verified.
    mutating func conclude(_ verdict: ClientAuthenticator.Verdict, _ credentials: ClientCredentials) -> Step {
        switch verdict {
        case .accepted(let name):
            user = name
            presented = credentials
            return .route
        case .refused: return .refuse(.unauthenticated(credentials))
        case .busy: return .refuse(Self.busy)
        }
    }

    /// Whether a late verdict stays valid, although the policy was replaced: a refusal, where the same secret refuses it still. It is not
    /// verified again then: otherwise a client that guesses passwords would cause one verification for each reload.
    ///
    /// - Parameters:
    ///   - former: of the policy that the verification began under.
    ///   - current: of the listener; nil where it demands none any more.
    static func outlivesReload(
        _ verdict: ClientAuthenticator.Verdict,
        about presented: PresentedCredentials,
        _ former: ClientCredentials,
        _ current: ClientCredentials?
    ) -> Bool {
        verdict == .refused && current?.agrees(with: former, about: presented) == true
    }

    /// The user that this request has authenticated, with the credentials for it.
    var authenticated: (name: [UInt8], credentials: ClientCredentials)? {
        guard let user, let presented else { return nil }
        return (user, presented)
    }

    private static let unknownUser = Problem(
        .authenticationRequired,
        status: 403,
        "This proxy does not know the user of the CONNECT any more. Connect again."
    )

    private static let busy = Problem(
        .limitReached,
        "Too many clients are waiting for their passwords to be verified. Try again."
    )
}
