// SPDX-License-Identifier: Apache-2.0
package import ServerTrust

/// The parts of a `PolicySnapshot`: read from files, then possibly changed in memory before the snapshot is made. (The
/// demo adds a host and its pins; a start adds the addresses of its listeners.)
package struct PolicyParts: Sendable {
    package var configuration: Configuration
    package var pinnedDomains: PinnedDomains
    /// The anchors of every domain without its own.
    package var trustAnchors: TrustAnchors
    /// The loaded files of the listeners' `tls`.
    package var tlsMaterial: [ListenerTLS: TLSMaterial] = [:]
    /// The loaded files of `authentication`, for the ways that are open at some listener.
    package var credentials: [AuthenticationConfiguration: ClientCredentials] = [:]
    /// The token of `admin.tokenFile`.
    package var adminToken: AdminToken?
    /// The CA that signs certificates for intercepted origins.
    package var authority: LocalAuthority?
    /// The real addresses of this program's listeners; before they listen, the fixed ports of the configuration.
    package var ownListeners: [AddressAndPort]

    package init(configuration: Configuration, pinnedDomains: PinnedDomains, trustAnchors: TrustAnchors) {
        self.configuration = configuration
        self.pinnedDomains = pinnedDomains
        self.trustAnchors = trustAnchors
        ownListeners = configuration.fixedAddresses
    }

    /// The rules of a listener about its clients.
    package func security(of listener: ListenerConfiguration) -> ListenerSecurity {
        let open = configuration.authentication(of: listener).map(listener.waysOpen)
        return ListenerSecurity(
            tls: tls(of: listener, open),
            authentication: open.map { credentials[$0].map { .credentials($0) } ?? .unusable } ?? .none
        )
    }

    private func tls(of listener: ListenerConfiguration, _ open: AuthenticationConfiguration?) -> ListenerSecurity.TLS {
        guard let files = listener.tls else { return .none }
        let context = try? tlsMaterial[files]?.context(for: open, http2: listener.http2)
        return context.map { .context($0) } ?? .unusable
    }

    /// Lets a listener serve only who has the token.
    package mutating func demand(_ token: RunToken, atListener index: Int) {
        var authentication = AuthenticationConfiguration()
        authentication.runToken = token
        configuration.listeners[index].authentication = .own(authentication)
        credentials[authentication] = ClientCredentials(authentication, passwords: nil, tokens: nil)
    }
}
