// SPDX-License-Identifier: Apache-2.0
/// The way a server's identity is pinned; the names are those of AFSecurityPolicy.
public enum SSLPinningMode: String, Sendable, CaseIterable {
    /// Chain and host checks alone.
    case none
    /// The chain must hold one of the pinned certificates, byte by byte.
    case certificate
    /// The chain must hold one of the pinned public keys.
    case publicKey
}

/// A pinned key with its scope and role.
public struct Pin: Hashable, Sendable {
    /// The places in the validated chain where the key counts.
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
    /// The places in the chain where the key counts.
    public var scope: Scope
    /// Marks a backup key: it counts like any other, and a match by backup keys alone causes a warning.
    public var isBackup: Bool
    /// A text for logs and messages.
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

/// The lowest TLS version that a policy accepts. OpenSSL's security level 2 excludes older ones.
public enum TLSVersion: String, Sendable, CaseIterable {
    /// TLS 1.2 (RFC 5246).
    case tls12 = "1.2"
    /// TLS 1.3 (RFC 8446).
    case tls13 = "1.3"
}
