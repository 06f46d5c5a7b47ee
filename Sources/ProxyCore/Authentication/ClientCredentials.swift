/// A loaded `authentication` object: the contents of its files.
package final class ClientCredentials: Sendable {
    package let configuration: AuthenticationConfiguration
    let passwords: PasswordFile?
    let tokens: TokenFile?

    init(_ configuration: AuthenticationConfiguration, passwords: PasswordFile?, tokens: TokenFile?) {
        self.configuration = configuration
        self.passwords = passwords
        self.tokens = tokens
    }

    /// The user of a process at the other end of a Unix socket, if it is allowed.
    func user(of peer: (user: UInt32, group: UInt32)) -> [UInt8]? {
        guard let peers = configuration.peers, peers.users.contains(peer.user) || peers.groups.contains(peer.group)
        else { return nil }
        return Array("uid \(peer.user)".utf8)
    }

    /// Whether a user authenticated with former credentials is still valid: password and tokens are unchanged.
    func agrees(with former: ClientCredentials, about user: [UInt8]) -> Bool {
        let hash = passwords?.hashes[user]
        let digests = tokens?.digests(of: user) ?? []
        guard hash != nil || !digests.isEmpty else { return false }
        return hash == former.passwords?.hashes[user] && digests == former.tokens?.digests(of: user) ?? []
    }

    /// Whether these credentials lead to the same verdict as the former ones: the secret for the comparison is the
    /// same.
    func agrees(with former: ClientCredentials, about presented: PresentedCredentials) -> Bool {
        switch presented {
        case .none: true
        case .bearer(let token): tokens?.name(of: token) == former.tokens?.name(of: token)
        case .basic(let user, _): passwords?.hashes[user] == former.passwords?.hashes[user]
        }
    }

    /// The challenges for an unauthenticated client.
    var challenges: ProxyChallenges {
        var challenges = ProxyChallenges()
        if passwords != nil { challenges.insert(.basic) }
        if tokens != nil { challenges.insert(.bearer) }
        return challenges
    }
}

/// The schemes of a `Proxy-Authenticate` (RFC 9110, section 11.7.1).
package struct ProxyChallenges: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let basic = ProxyChallenges(rawValue: 1)
    package static let bearer = ProxyChallenges(rawValue: 2)
}
