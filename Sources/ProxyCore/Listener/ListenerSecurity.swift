package import ServerTrust

/// A listener's `tls`, loaded.
package final class TLSMaterial: Sendable {
    let identity: ServerIdentity
    /// Whose certificates clients have to show; empty when none is asked for.
    let clientAuthorities: [Certificate]

    package init(identity: ServerIdentity, clientAuthorities: [Certificate] = []) {
        self.identity = identity
        self.clientAuthorities = clientAuthorities
    }

    /// A context for the clients of a listener.
    ///
    /// - Parameters:
    ///   - open: the ways to authenticate that its clients have.
    ///   - http2: whether they may speak HTTP/2.
    func context(for open: AuthenticationConfiguration?, http2: Bool) throws(OpenSSLError) -> TLSServerContext {
        var settings = TLSServerContext.Settings()
        if http2 { settings.applicationProtocols.insert("h2", at: 0) }
        settings.clientAuthorities = clientAuthorities
        // Where another way suffices, a client may go without a certificate.
        let hasOtherWays = open.map { $0.takesSecrets || $0.peers != nil } ?? false
        settings.requiresClientCertificate = !(open?.clientCertificates == true && hasOtherWays)
        return try TLSServerContext(identity, settings)
    }
}

/// What one listener demands of its clients, under one snapshot.
package final class ListenerSecurity: Sendable {
    package enum TLS: Sendable {
        case none
        case context(TLSServerContext)
        /// It was to be spoken, and cannot be: nobody is served.
        case unusable
    }

    package enum Authentication: Sendable {
        case none
        case credentials(ClientCredentials)
        /// It was demanded, and its files are not there: nobody is served.
        case unusable
    }

    let tls: TLS
    let authentication: Authentication

    init(_ listener: ListenerConfiguration, _ parts: borrowing PolicyParts) {
        let demanded = parts.configuration.authentication(of: listener)
        let open = demanded.map(listener.waysOpen)
        authentication = open.map { parts.credentials[$0].map(Authentication.credentials) ?? .unusable } ?? .none
        guard let files = listener.tls else {
            tls = .none
            return
        }
        tls = (try? parts.tlsMaterial[files]?.context(for: open, http2: listener.http2)).map(TLS.context) ?? .unusable
    }
}
