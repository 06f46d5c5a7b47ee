public import ServerTrust

/// Proof of who we are, or the consent to who the server is.
///
/// What is secret in it stays out of its description.
public struct Credential: Sendable, CustomStringConvertible {
    /// How long a session remembers it.
    public enum Persistence: Hashable, Sendable {
        /// For the one task.
        case none
        /// For later requests to the same place too, once a server has taken it.
        case forSession
    }

    /// What the proof is. Each answers its own kind of challenge, and no other.
    public enum Kind: Sendable {
        /// For Basic and Digest.
        case password(user: String, password: String)
        /// For Bearer; sent over TLS alone.
        case bearer(token: String)
        /// A client certificate with its key.
        case identity(ClientIdentity)
        /// Consent to a server that the security policy has accepted. It accepts nobody else.
        case serverTrust
    }

    /// What the proof is.
    public let kind: Kind
    /// Whether later requests to the same place get it too.
    public let persistence: Persistence

    /// Any kind of proof. Remembered for the session unless told otherwise.
    public init(_ kind: Kind, persistence: Persistence = .forSession) {
        self.kind = kind
        self.persistence = persistence
    }

    /// A user name and a password, for Basic and Digest. Basic (RFC 7617) cannot send a name with a colon in it.
    public init(user: String, password: String, persistence: Persistence = .forSession) {
        self.init(.password(user: user, password: password), persistence: persistence)
    }

    /// A token (RFC 6750). It is not sent without TLS.
    public init(bearerToken token: String, persistence: Persistence = .forSession) {
        self.init(.bearer(token: token), persistence: persistence)
    }

    /// A client certificate with its key, shown within the TLS handshake.
    public init(identity: ClientIdentity, persistence: Persistence = .forSession) {
        self.init(.identity(identity), persistence: persistence)
    }

    /// Consent to a server that the policy has accepted.
    public static let serverTrust = Credential(.serverTrust, persistence: .none)

    /// The user's name, where there is one.
    public var user: String? {
        if case .password(let user, _) = kind { user } else { nil }
    }

    public var description: String {
        switch kind {
        case .password(let user, _): "user \(user) with a password"
        case .bearer: "a bearer token"
        case .identity: "a client certificate"
        case .serverTrust: "trust in the server"
        }
    }

    /// Whether it answers that kind of question.
    func answers(_ method: ProtectionSpace.AuthenticationMethod) -> Bool {
        switch (kind, method) {
        case (.password, .httpBasic), (.password, .httpDigest), (.bearer, .bearer), (.identity, .clientCertificate),
            (.serverTrust, .serverTrust):
            true
        default: false
        }
    }
}
