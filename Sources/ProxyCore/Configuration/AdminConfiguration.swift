package import HTTPCore

/// The `admin` of the configuration: where operators and their programs ask how the proxy is.
package struct AdminConfiguration: Equatable, Sendable {
    package var endpoint: ListenerConfiguration.Endpoint
    /// Further names in Host (invariant 16), beside its own address and `localhost`.
    package var allowedHosts: [Host]
    /// Said for an address that others than this machine can reach.
    package var allowRemoteClients: Bool

    package init(
        endpoint: ListenerConfiguration.Endpoint,
        allowedHosts: [Host] = [],
        allowRemoteClients: Bool = false
    ) {
        self.endpoint = endpoint
        self.allowedHosts = allowedHosts
        self.allowRemoteClients = allowRemoteClients
    }
}
