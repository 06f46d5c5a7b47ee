import ServerTrust
import Synchronization

/// What clients are held to, loaded: an `authentication` object with the contents of its files.
package final class ClientCredentials: Sendable {
    package let configuration: AuthenticationConfiguration
    let passwords: PasswordFile?
    let tokens: TokenFile?
    /// Tells these apart from those of another load: what was found out under one says nothing under another.
    let serial: UInt64

    private static let loads = Atomic<UInt64>(0)

    init(_ configuration: AuthenticationConfiguration, passwords: PasswordFile?, tokens: TokenFile?) {
        self.configuration = configuration
        self.passwords = passwords
        self.tokens = tokens
        serial = Self.loads.wrappingAdd(1, ordering: .relaxed).newValue
    }

    /// Who a process at the other end of a Unix socket is, if it is let in.
    func user(of peer: (user: UInt32, group: UInt32)) -> [UInt8]? {
        guard let peers = configuration.peers, peers.users.contains(peer.user) || peers.groups.contains(peer.group)
        else { return nil }
        return Array("uid \(peer.user)".utf8)
    }

    /// What a client that has proved nothing is asked for.
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
