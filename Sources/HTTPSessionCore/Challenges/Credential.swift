// SPDX-License-Identifier: Apache-2.0
public import ServerTrust

/// A client's proof of identity, or its consent to a server's.
///
/// Its description contains no secrets.
public struct Credential: Sendable, CustomStringConvertible {
    /// How long a session uses it.
    public enum Persistence: Hashable, Sendable {
        /// The credential is for one task.
        case none
        /// Also for later requests to the same origin, once a server has accepted it.
        case forSession
    }

    /// The kinds of proof. Each is for its own kind of challenge.
    public enum Kind: Sendable {
        /// A user name and a password, for Basic and Digest.
        case password(user: String, password: String)
        /// A token for Bearer, which is sent over TLS alone.
        case bearer(token: String)
        /// A client certificate with its key.
        case identity(ClientIdentity)
        /// Consent to a server that the security policy has accepted; it does not make the policy accept others.
        case serverTrust
    }

    /// The proof.
    public let kind: Kind
    /// Whether later requests to the same origin use it too.
    public let persistence: Persistence

    /// A credential of any kind, by default for the whole session.
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

    /// The user's name; nil for kinds without one.
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

    /// Whether it is a proof for that kind of challenge.
    func answers(_ method: ProtectionSpace.AuthenticationMethod) -> Bool {
        switch (kind, method) {
        case (.password, .httpBasic), (.password, .httpDigest), (.bearer, .bearer), (.identity, .clientCertificate),
            (.serverTrust, .serverTrust):
            true
        default: false
        }
    }
}
