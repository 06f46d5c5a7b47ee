// SPDX-License-Identifier: Apache-2.0
package import IOCore
package import ServerTrust

/// Settings that all tasks of a manager share.
public struct SessionConfiguration: Sendable {
    /// The largest number of open connections that are kept for reuse, over all hosts.
    public var connectionPoolSize = 1024
    /// The largest number of connections to one host and port, of every kind: HTTP/1.1 and HTTP/2, streams, idle ones.
    /// Further requests wait in order. 0: no limit.
    public var connectionsPerHost = 256
    /// The largest age of a connection that is reused: at least a second, and at most ten minutes, even if more is
    /// configured, so that a server is evaluated again while traffic goes on.
    public var connectionLifetime = Duration.seconds(600)

    /// The longest head of a response, in bytes; a longer one fails with `responseInvalid`. Over HTTP/2 each field counts
    /// 32 bytes more (RFC 9113, section 6.5.2), and has at most 64 KB.
    public var responseHeadBytes = 256 << 10
    /// The largest number of fields in the head of a response.
    public var responseHeadFields = 500

    /// How names are looked up.
    public var resolver = NameResolution.dns
    /// The name servers instead of those of the operating system, as addresses with ports, separated by commas; nil outside
    /// of tests.
    package var nameServers: String?

    /// What fetches the revocation lists that policies ask for; nil: a server that needs one is refused.
    package var revocationLists: RevocationListSource?

    /// Where the steps of TLS handshakes are made.
    package var handshakes = FairThreads.handshakes

    /// Makes `ConnectionInfo.note`, once for each connection, of the evaluation of its server and the seconds since 1970.
    package var connectionNote: (@Sendable (TrustEvaluation, Int64) -> [UInt8])?

    /// A configuration with the defaults of each property.
    public init() {}

    /// `connectionLifetime` within its bounds, in nanoseconds.
    var connectionLifetimeLimit: UInt64 {
        min(TimeSpan(max(connectionLifetime, .seconds(1))).nanoseconds, TimeSpan.seconds(600).nanoseconds)
    }
}
