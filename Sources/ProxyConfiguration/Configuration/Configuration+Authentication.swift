// SPDX-License-Identifier: Apache-2.0
extension Configuration {
    /// The authentication of a listener; nil means that every client may use it.
    package func authentication(of listener: ListenerConfiguration) -> AuthenticationConfiguration? {
        switch listener.authentication {
        case .inherited: authentication
        case .off: nil
        case .own(let own): own
        }
    }
}

extension ListenerConfiguration {
    /// The ways of a configuration that clients of this listener can use.
    package func waysOpen(of authentication: AuthenticationConfiguration) -> AuthenticationConfiguration {
        var open = authentication
        if endpoint.isUnixSocket { open.localUsers = nil } else { open.peers = nil }
        if tls?.clientCA == nil { open.clientCertificates = false }
        return open
    }
}
