public import HTTPCore

/// A proxy between a session and the servers. It tunnels TLS, and the security policy applies as without it. The proxy
/// sees the hosts of requests, and the contents only of those to `http` hosts.
public struct SessionProxy: Sendable {
    /// The proxy's protocol.
    public enum Kind: Sendable {
        /// CONNECT (RFC 9110, section 9.3.6), for `http` hosts too. The connection to the proxy is without TLS.
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
