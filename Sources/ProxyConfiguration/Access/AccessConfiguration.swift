// SPDX-License-Identifier: Apache-2.0
/// The `access` rules as written; `AccessRules` is their compiled form for the request path.
package struct AccessConfiguration: Hashable, Sendable {
    package var denyAddresses: [AddressRule] = AddressGroup.deniedByDefault.map(AddressRule.group)
    package var denyHosts: [HostPattern] = []
    package var allowHosts: [HostPattern] = [.any]
    /// The ports that tunnels may connect to.
    package var connectPorts: [UInt16] = [443]

    package init() {}
}
