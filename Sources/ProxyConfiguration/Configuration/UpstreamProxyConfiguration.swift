// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import SessionCore

/// A proxy between pinproxy and the origins.
package struct UpstreamProxyConfiguration: Hashable, Sendable, CustomStringConvertible {
    package enum Kind: String, Hashable, Sendable {
        /// CONNECT, over a connection to the proxy without TLS.
        case http
        /// CONNECT, over TLS to the proxy, under the policy for its host.
        case https
        /// SOCKS 5; the proxy resolves the names.
        case socks5h
    }

    package struct Credentials: Hashable, Sendable {
        package var user: String
        package var password: String
    }

    package var kind: Kind
    package var host: Host
    package var port: UInt16
    /// The credentials; never shown.
    package var credentials: Credentials?

    /// The URL without credentials.
    package var description: String { "\(kind.rawValue)://\(host.authorityText(port: port))" }

    /// The URL for people who read the policy, without the password.
    package var account: String { credentials == nil ? description : "\(description), with credentials" }

    /// The address, when the host is an IP literal: it may be dialled despite the address rules.
    package var literal: AddressAndPort? { host.address.map { AddressAndPort($0, port) } }

    /// The proxy in the form for a session.
    package var sessionProxy: SessionProxy {
        SessionProxy(
            kind.sessionKind,
            host: host,
            port: port,
            credentials: credentials.map { ($0.user, $0.password) }
        )
    }
}

extension UpstreamProxyConfiguration.Kind {
    fileprivate var sessionKind: SessionProxy.Kind {
        switch self {
        case .http: .http
        case .https: .https
        case .socks5h: .socks5
        }
    }
}
