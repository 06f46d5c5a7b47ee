/// An `authentication` object: the ways in which clients can prove who they are, of which any one suffices. Paths are
/// ready to open.
package struct AuthenticationConfiguration: Hashable, Sendable {
    /// Which processes a Unix socket lets in.
    package struct Peers: Hashable, Sendable {
        package var users: Set<UInt32>
        package var groups: Set<UInt32>
    }

    /// Users and their hashed passwords (`Proxy-Authorization: Basic`).
    package var basicFile: String?
    /// Names and digests of tokens (`Proxy-Authorization: Bearer`).
    package var bearerFile: String?
    package var peers: Peers?
    /// A certificate that `clientCA` of the listener has let in.
    package var clientCertificates = false

    package init() {}

    /// Whether clients send a secret with their requests.
    package var takesSecrets: Bool { basicFile != nil || bearerFile != nil }
}

/// What a listener says of authentication.
package enum ListenerAuthentication: Hashable, Sendable {
    /// Nothing: that of the whole configuration holds.
    case inherited
    case off
    case own(AuthenticationConfiguration)
}

/// A listener's `tls`: its files, ready to open.
package struct ListenerTLS: Hashable, Sendable {
    package var certificate: String
    package var key: String
    /// Whose certificates clients have to show.
    package var clientCA: String?

    package init(certificate: String, key: String, clientCA: String? = nil) {
        self.certificate = certificate
        self.key = key
        self.clientCA = clientCA
    }
}

extension Configuration {
    /// What holds for a listener; nil lets everyone in.
    package func authentication(of listener: ListenerConfiguration) -> AuthenticationConfiguration? {
        switch listener.authentication {
        case .inherited: authentication
        case .off: nil
        case .own(let own): own
        }
    }
}

extension ListenerConfiguration {
    /// Of the ways that a configuration lists, those that a client of this listener can go.
    package func waysOpen(of authentication: AuthenticationConfiguration) -> AuthenticationConfiguration {
        var open = authentication
        if !endpoint.isUnixSocket { open.peers = nil }
        if tls?.clientCA == nil { open.clientCertificates = false }
        return open
    }
}
