// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The `admin` section of the configuration: the listener for operators and their programs.
package struct AdminConfiguration: Equatable, Sendable {
    package var endpoint: ListenerConfiguration.Endpoint
    /// Further names for Host (invariant 16), besides its own address and `localhost`.
    package var allowedHosts: [Host]
    /// Confirms an address that other machines can reach.
    package var allowRemoteClients: Bool
    /// The file of the operators' token as an absolute path. Required with an address that other machines can reach.
    package var tokenFile: String?

    package init(
        endpoint: ListenerConfiguration.Endpoint,
        allowedHosts: [Host] = [],
        allowRemoteClients: Bool = false,
        tokenFile: String? = nil
    ) {
        self.endpoint = endpoint
        self.allowedHosts = allowedHosts
        self.allowRemoteClients = allowRemoteClients
        self.tokenFile = tokenFile
    }

    /// Whether other machines may reach it.
    package var isRemote: Bool {
        if case .address(let address) = endpoint { !address.address.isLoopback } else { false }
    }
}
