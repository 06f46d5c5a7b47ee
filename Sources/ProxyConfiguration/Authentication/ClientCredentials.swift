// SPDX-License-Identifier: Apache-2.0
/// A loaded `authentication` object: the contents of its files.
package final class ClientCredentials: Sendable {
    package let configuration: AuthenticationConfiguration
    package let passwords: PasswordFile?
    package let tokens: TokenFile?

    init(_ configuration: AuthenticationConfiguration, passwords: PasswordFile?, tokens: TokenFile?) {
        self.configuration = configuration
        self.passwords = passwords
        self.tokens = tokens
    }

    /// The user of a process, if it is allowed.
    package func user(of process: ClientProcess) -> [UInt8]? {
        switch process {
        case .unknown: return nil
        case .unixSocket(let user, let group):
            guard let peers = configuration.peers, peers.users.contains(user) || peers.groups.contains(group) else {
                return nil
            }
            return Array("uid \(user)".utf8)
        case .loopback(let user):
            if let token = configuration.runToken, token.localUser == user { return token.name }
            guard let users = configuration.localUsers, users.contains(user) else { return nil }
            return Array("uid \(user)".utf8)
        }
    }

    /// Whether a user authenticated with former credentials is still valid: password and tokens are unchanged.
    package func agrees(with former: ClientCredentials, about user: [UInt8]) -> Bool {
        if let token = configuration.runToken, token.name == user { return token == former.configuration.runToken }
        let hash = passwords?.hashes[user]
        let digests = tokens?.digests(of: user) ?? []
        guard hash != nil || !digests.isEmpty else { return false }
        return hash == former.passwords?.hashes[user] && digests == former.tokens?.digests(of: user) ?? []
    }

    /// Whether these credentials lead to the same verdict as the former ones: the secret for the comparison is the
    /// same.
    package func agrees(with former: ClientCredentials, about presented: PresentedCredentials) -> Bool {
        switch presented {
        case .none: true
        case .bearer(let token): tokens?.name(of: token) == former.tokens?.name(of: token)
        case .basic(let user, _):
            passwords?.hashes[user] == former.passwords?.hashes[user]
                && configuration.runToken == former.configuration.runToken
        }
    }

    /// The challenges for an unauthenticated client.
    package var challenges: ProxyChallenges {
        var challenges = ProxyChallenges()
        if passwords != nil || configuration.runToken != nil { challenges.insert(.basic) }
        if tokens != nil { challenges.insert(.bearer) }
        return challenges
    }
}

/// The process at the other end of a client's connection, as the kernel says it.
package enum ClientProcess: Equatable {
    /// On another machine, or the kernel does not say.
    case unknown
    /// The effective user and group when it connected to a Unix socket.
    case unixSocket(user: UInt32, group: UInt32)
    /// The user whose process made the socket of a connection over loopback.
    case loopback(user: UInt32)
}

/// The challenges of a response of the proxy's own.
package struct ProxyChallenges: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// `Basic` in `Proxy-Authenticate` (RFC 9110, section 11.7.1).
    package static let basic = ProxyChallenges(rawValue: 1)
    /// `Bearer` in `Proxy-Authenticate`.
    package static let bearer = ProxyChallenges(rawValue: 2)
    /// `Basic` in `WWW-Authenticate` (section 11.6.1): for clients that keep back what they have for the origin, a placeholder, until
    /// they are asked.
    package static let basicOfOrigin = ProxyChallenges(rawValue: 4)
}
