// SPDX-License-Identifier: Apache-2.0
package import ServerTrust

/// The loaded files of a listener's `tls`.
package final class TLSMaterial: Sendable {
    let identity: ServerIdentity
    /// The authorities of client certificates; empty when clients need none.
    let clientAuthorities: [Certificate]
    /// Lists of these authorities; nil checks none.
    let revocationLists: RevocationLists?

    package init(
        identity: ServerIdentity,
        clientAuthorities: [Certificate] = [],
        revocationLists: RevocationLists? = nil
    ) {
        self.identity = identity
        self.clientAuthorities = clientAuthorities
        self.revocationLists = revocationLists
    }

    /// Makes a TLS context for the clients of a listener.
    ///
    /// - Parameters:
    ///   - open: the ways in which its clients can authenticate.
    ///   - http2: whether HTTP/2 is offered.
    package func context(for open: AuthenticationConfiguration?, http2: Bool) throws(OpenSSLError) -> TLSServerContext {
        var settings = TLSServerContext.Settings()
        if http2 { settings.applicationProtocols.insert("h2", at: 0) }
        settings.clientAuthorities = clientAuthorities
        settings.revocationLists = revocationLists
        // A client certificate is optional when there is another way to authenticate.
        let hasOtherWays = open.map { $0.takesSecrets || $0.knowsProcesses } ?? false
        settings.requiresClientCertificate = !(open?.clientCertificates == true && hasOtherWays)
        return try TLSServerContext(identity, settings)
    }
}

/// The requirements of one listener for its clients, under one snapshot.
package final class ListenerSecurity: Sendable {
    package enum TLS: Sendable {
        case none
        case context(TLSServerContext)
        /// TLS is configured and its files could not be loaded: every client is refused.
        case unusable
    }

    package enum Authentication: Sendable {
        case none
        case credentials(ClientCredentials)
        /// Authentication is configured and its files could not be loaded: every client is refused.
        case unusable
    }

    package let tls: TLS
    package let authentication: Authentication

    package init(tls: TLS, authentication: Authentication) {
        self.tls = tls
        self.authentication = authentication
    }
}
