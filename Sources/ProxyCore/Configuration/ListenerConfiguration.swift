package import HTTPCore
package import IOCore

/// One entry of `listeners`: where clients come in, and what they may ask for there.
package struct ListenerConfiguration: Equatable, Sendable {
    package enum Endpoint: Hashable, Sendable {
        /// Port 0 picks a free one.
        case address(AddressAndPort)
        case unixSocket(path: String)
    }

    package enum Mode: String, CaseIterable, Sendable {
        /// Clients name the host in the request (absolute-form).
        case forward
        /// Clients speak to the listener as if it were the origin (origin-form).
        case gateway
    }

    /// The one origin of a gateway. Always reached over TLS.
    package struct Upstream: Hashable, Sendable {
        package var host: Host
        package var port: UInt16

        package init(host: Host, port: UInt16 = 443) {
            self.host = host
            self.port = port
        }

        /// The address that the address rules let this listener's connections reach: an upstream written as an IP
        /// literal is meant, even on loopback.
        package var exemption: AddressAndPort? {
            host.address.map { AddressAndPort($0, port) }
        }
    }

    package var endpoint: Endpoint
    package var mode: Mode
    /// Set for a gateway, and for nothing else.
    package var upstream: Upstream?
    /// Which hosts a forward listener's clients may ask for, beside the rules of `access`.
    package var allowHosts: HostPatternSet
    /// A gateway's further names in Host (invariant 16), beside its own address, `localhost` and the upstream's name.
    package var allowedHosts: [Host]
    /// Clients may speak cleartext HTTP/2 with prior knowledge (RFC 9113, section 3.3), beside HTTP/1.1.
    package var http2: Bool
    /// Said for an address that others than this machine can reach.
    package var allowRemoteClients: Bool
    /// Clients speak TLS with the listener itself.
    package var tls: ListenerTLS?
    package var authentication = ListenerAuthentication.inherited
    /// Said for secrets that others than this machine could read on their way.
    package var allowCleartextCredentials = false

    package init(
        endpoint: Endpoint,
        mode: Mode = .forward,
        upstream: Upstream? = nil,
        allowHosts: HostPatternSet = .any,
        allowedHosts: [Host] = [],
        http2: Bool = false,
        allowRemoteClients: Bool = false
    ) {
        self.endpoint = endpoint
        self.mode = mode
        self.upstream = upstream
        self.allowHosts = allowHosts
        self.allowedHosts = allowedHosts
        self.http2 = http2
        self.allowRemoteClients = allowRemoteClients
    }

    /// What a configuration without `listeners` gets: a forward listener at 127.0.0.1:8080.
    package static var standard: ListenerConfiguration {
        ListenerConfiguration(endpoint: .address(AddressAndPort(IPAddress(ipv4: 0x7F00_0001), 8080)))
    }
}

extension ListenerConfiguration.Endpoint {
    package var socketAddress: SocketAddress {
        switch self {
        case .address(let address): address.socketAddress
        case .unixSocket(let path): SocketAddress(unixPath: path)
        }
    }
}

extension ListenerConfiguration.Endpoint: CustomStringConvertible {
    package var description: String {
        switch self {
        case .address(let address): address.description
        case .unixSocket(let path): path
        }
    }
}
