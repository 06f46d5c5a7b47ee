package import HTTPCore

/// The `admin` section of the configuration: the listener for operators and their programs.
package struct AdminConfiguration: Equatable, Sendable {
    package var endpoint: ListenerConfiguration.Endpoint
    /// Further names for Host (invariant 16), besides its own address and `localhost`.
    package var allowedHosts: [Host]
    /// Confirms an address that other machines can reach.
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
