// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
package import IOCore

/// One entry of `listeners`: an address for clients, and the requests that they may make there.
package struct ListenerConfiguration: Equatable, Sendable {
    package enum Endpoint: Hashable, Sendable {
        /// Port 0 picks a free one.
        case address(AddressAndPort)
        case unixSocket(path: String)
    }

    package enum Mode: String, CaseIterable, Sendable {
        /// Clients name the host in the request (absolute-form).
        case forward
        /// Clients use the listener as if it were the origin (origin-form).
        case gateway
        /// The kernel redirects clients' connections to the listener; clients know of no proxy.
        case transparent
    }

    /// The use of the address that a client of a transparent listener has connected to.
    package enum OriginalDestination: String, CaseIterable, Sendable {
        /// The address is dialled, if it is one of the host that the client names.
        case verify
        /// The host that the client names is looked up.
        case ignore
    }

    /// The one origin of a gateway, always reached over TLS.
    package struct Upstream: Hashable, Sendable {
        package var host: Host
        package var port: UInt16

        package init(host: Host, port: UInt16 = 443) {
            self.host = host
            self.port = port
        }

        /// An address that the address rules allow for this listener: an upstream written as an IP literal is intended,
        /// even on loopback.
        package var exemption: AddressAndPort? {
            host.address.map { AddressAndPort($0, port) }
        }
    }

    package var endpoint: Endpoint
    package var mode: Mode
    /// Counts for a transparent listener alone.
    package var originalDestination = OriginalDestination.verify
    /// Set for a gateway only.
    package var upstream: Upstream?
    /// The hosts that the clients of a forward or transparent listener may request, in addition to the rules of `access`.
    package var allowHosts: HostPatternSet
    /// A gateway's further names in Host (invariant 16), besides its own address, `localhost` and the upstream's name.
    package var allowedHosts: [Host]
    /// Clients may use cleartext HTTP/2 with prior knowledge (RFC 9113, section 3.3), besides HTTP/1.1.
    package var http2: Bool
    /// Confirms an address that other machines can reach.
    package var allowRemoteClients: Bool
    /// TLS between the clients and the listener.
    package var tls: ListenerTLS?
    package var authentication = ListenerAuthentication.inherited
    /// Confirms that secrets may be sent without TLS from other machines.
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

    /// The listener of a configuration without `listeners`: a forward listener at 127.0.0.1:8080.
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
