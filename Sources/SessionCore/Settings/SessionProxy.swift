public import HTTPCore

/// A proxy between a session and the servers: a tunnel to each of them, through which TLS and the security policy go as
/// without it. The proxy sees whom requests are for and nothing of what is in them, except of those to `http` hosts.
public struct SessionProxy: Sendable {
    /// What the proxy speaks.
    public enum Kind: Sendable {
        /// CONNECT (RFC 9110, section 9.3.6), for `http` hosts too. The proxy is spoken to without TLS.
        case http
        /// SOCKS 5 (RFC 1928); the proxy looks up the names.
        case socks5
    }

    /// What the proxy speaks.
    public var kind: Kind
    /// Where the proxy is; a name is looked up here, by the system's resolver.
    public var host: Host
    /// From 1 to 65535.
    public var port: UInt16
    /// Basic for `http` (RFC 7617), RFC 1929 for SOCKS 5. Both are in the clear.
    public var credentials: (user: String, password: String)?
    /// Hosts that are reached without it.
    public var exceptions: Set<Host>

    /// A proxy for all hosts but `exceptions`, which have to be named one by one: hosts below them are not meant.
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
