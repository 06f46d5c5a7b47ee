/// How a server's identity is pinned; the names are AFSecurityPolicy's.
public enum SSLPinningMode: String, Sendable, CaseIterable {
    /// Chain and host checks alone.
    case none
    /// The chain must hold one of the pinned certificates, byte by byte.
    case certificate
    /// The chain must hold one of the pinned public keys.
    case publicKey
}

/// A pinned key, and what it is for.
public struct Pin: Hashable, Sendable {
    /// Where in the validated chain the key counts.
    public enum Scope: String, Sendable, CaseIterable {
        /// Any certificate of the chain.
        case any
        /// The server's own certificate alone.
        case leaf
        /// Any certificate but the server's own.
        case ca
    }

    /// SHA-256 of the pinned key.
    public var key: PublicKeyPin
    /// Where in the chain it counts.
    public var scope: Scope
    /// A label for a key held in reserve: it counts like any other, and a match by it alone is warned of.
    public var isBackup: Bool
    /// For people.
    public var comment: String

    /// A pin that counts anywhere in the chain, unless `scope` says otherwise.
    public init(_ key: PublicKeyPin, scope: Scope = .any, isBackup: Bool = false, comment: String = "") {
        self.key = key
        self.scope = scope
        self.isBackup = isBackup
        self.comment = comment
    }

    /// Whether it counts at a place in the chain (0: the leaf).
    func counts(at depth: Int) -> Bool {
        switch scope {
        case .any: true
        case .leaf: depth == 0
        case .ca: depth > 0
        }
    }
}

/// The lowest TLS version a policy takes. Older ones are out of reach at OpenSSL's security level 2.
public enum TLSVersion: String, Sendable, CaseIterable {
    /// TLS 1.2 (RFC 5246).
    case tls12 = "1.2"
    /// TLS 1.3 (RFC 8446).
    case tls13 = "1.3"
}
