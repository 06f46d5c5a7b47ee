// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
public import ServerTrust

/// What the TLS handshakes with a server offer and ask for, beside its security policy.
public struct TLSSettings: Sendable {
    /// The cipher suites of TLS 1.2 that are offered.
    public var profile: TLSProfile
    /// The name that the server is asked for (SNI) and that its certificate has to have; nil for the host of the URL.
    public var serverName: Host?

    /// - Parameters:
    ///   - profile: the cipher suites of TLS 1.2 that are offered.
    ///   - serverName: the name for SNI and certificate, where it is not the host of the URL.
    public init(profile: TLSProfile = .modern, serverName: Host? = nil) {
        self.profile = profile
        self.serverName = serverName
    }

    /// What differs from the defaults, for digests of what is kept; empty without.
    package var digestText: String {
        (profile == .modern ? "" : " \(profile.rawValue)") + (serverName.map { " for \($0.authorityText)" } ?? "")
    }
}

/// The result of a trial with the server of an endpoint.
enum ProfileFinding: Equatable {
    /// None was made.
    case unknown
    /// The server refuses all profiles, for another reason than its cipher suites.
    case none
    case needs(TLSProfile)
}
