// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// A proxy between a session and the servers. It tunnels TLS, and the security policy applies as without it. The proxy
/// sees the hosts of requests, and the contents only of those to `http` hosts.
public struct SessionProxy: Sendable {
    /// The proxy's protocol.
    public enum Kind: Sendable {
        /// CONNECT (RFC 9110, section 9.3.6), for `http` hosts too unless `tunnelsPlainRequests` is false. The connection to
        /// the proxy is without TLS.
        case http
        /// The same over TLS. The security policy for the proxy's host and port is applied to its certificate before it gets
        /// CONNECT or credentials; the tunnel to an `https` host carries TLS within TLS.
        case https
        /// SOCKS 5 (RFC 1928); the proxy looks up the names.
        case socks5
    }

    /// The proxy's protocol.
    public var kind: Kind
    /// The proxy's host; its name is looked up here (`SessionConfiguration.resolver`).
    public var host: Host
    /// The proxy's port, from 1 to 65535.
    public var port: UInt16
    /// Credentials for the proxy: Basic for `http` and `https` (RFC 7617), RFC 1929 for SOCKS 5. They are sent unencrypted,
    /// but for `https`.
    public var credentials: (user: String, password: String)?
    /// Hosts that are reached without the proxy.
    public var exceptions: Set<Host>
    /// Whether requests to `http` hosts go through tunnels, as those to `https` hosts do. False, with the kind `http`: the proxy
    /// gets them with the whole URL (RFC 9112, section 3.2.2) and its credentials, and requests them itself; many proxies allow
    /// CONNECT to port 443 alone. A response of the proxy's own, as 407, is then delivered like one of the server. The other
    /// kinds, streams and hosts with a fixed address have tunnels always.
    public var tunnelsPlainRequests = true

    /// A proxy for all hosts except `exceptions`; an exception does not include the hosts below it.
    public init(
        _ kind: Kind = .http,
        host: Host,
        port: UInt16,
        credentials: (user: String, password: String)? = nil,
        exceptions: Set<Host> = []
    ) {
        self.kind = kind
        self.host = host
        self.port = port
        self.credentials = credentials
        self.exceptions = exceptions
    }
}

extension SessionProxy {
    /// Host and port, as in an authority.
    var authorityText: String { host.authorityText(port: port) }

    /// The field with the credentials (RFC 7617), with its CRLF; empty without.
    var authorizationLine: [UInt8] {
        guard let (user, password) = credentials else { return [] }
        return Array("Proxy-Authorization: Basic \(Base64.encode(Array("\(user):\(password)".utf8)))\r\n".utf8)
    }
}
