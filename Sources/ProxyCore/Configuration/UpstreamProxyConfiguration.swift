package import HTTPCore
import SessionCore

/// A proxy between pinproxy and the origins.
package struct UpstreamProxyConfiguration: Hashable, Sendable, CustomStringConvertible {
    package enum Kind: String, Hashable, Sendable {
        /// CONNECT, the proxy itself spoken to without TLS.
        case http
        /// SOCKS 5; the proxy looks up the names.
        case socks5h
    }

    package struct Credentials: Hashable, Sendable {
        package var user: String
        package var password: String
    }

    package var kind: Kind
    package var host: Host
    package var port: UInt16
    /// Never shown.
    package var credentials: Credentials?

    /// Without credentials.
    package var description: String { "\(kind.rawValue)://\(host.authorityText):\(port)" }

    /// For people who look the policy over.
    package var account: String { credentials == nil ? description : "\(description), with credentials" }

    /// Where it is, when that is said by an address: the one that may be dialled whatever the address rules say.
    package var literal: AddressAndPort? { host.address.map { AddressAndPort($0, port) } }

    /// As a session takes it.
    var sessionProxy: SessionProxy {
        SessionProxy(
            kind == .http ? .http : .socks5,
            host: host,
            port: port,
            credentials: credentials.map { ($0.user, $0.password) }
        )
    }
}
