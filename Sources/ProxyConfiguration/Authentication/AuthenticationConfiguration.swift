// SPDX-License-Identifier: Apache-2.0
/// An `authentication` object: the ways in which clients can authenticate; any one is enough. Paths are absolute.
package struct AuthenticationConfiguration: Hashable, Sendable {
    /// The processes that may use a Unix socket.
    package struct Peers: Hashable, Sendable {
        package var users: Set<UInt32>
        package var groups: Set<UInt32>
    }

    /// Users and their hashed passwords (`Proxy-Authorization: Basic`).
    package var basicFile: String?
    /// Names and digests of tokens (`Proxy-Authorization: Bearer`).
    package var bearerFile: String?
    package var peers: Peers?
    /// The users of this machine whose processes may connect over loopback.
    package var localUsers: Set<UInt32>?
    /// A certificate that the listener's `clientCA` has accepted.
    package var clientCertificates = false
    /// The token of a program that this process has started; no file has it.
    package var runToken: RunToken?

    package init() {}

    /// Whether clients send a secret with their requests.
    var takesSecrets: Bool { basicFile != nil || bearerFile != nil || runToken != nil }

    /// Whether the kernel says who a client is.
    package var knowsProcesses: Bool { peers != nil || localUsers != nil || runToken?.localUser != nil }
}

/// A listener's own setting of authentication.
package enum ListenerAuthentication: Hashable, Sendable {
    /// No setting: the one of the whole configuration applies.
    case inherited
    case off
    case own(AuthenticationConfiguration)
}

/// A listener's `tls`: its files as absolute paths.
package struct ListenerTLS: Hashable, Sendable {
    package var certificate: String
    package var key: String
    /// The authorities of client certificates.
    package var clientCA: String?
    /// The revocation lists of these authorities.
    package var crlFiles: [String]

    package init(certificate: String, key: String, clientCA: String? = nil, crlFiles: [String] = []) {
        self.certificate = certificate
        self.key = key
        self.clientCA = clientCA
        self.crlFiles = crlFiles
    }
}
