// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The compiled `access` rules: which hosts may be requested, and which addresses may be dialled. Deny wins over allow
/// (invariant 14).
package struct AccessRules: Sendable {
    package enum HostVerdict: Hashable, Sendable {
        case allowed
        /// Denied by the entry of `denyHosts` at this index.
        case denied(rule: Int)
        /// No entry of `allowHosts` matches the host.
        case notAllowed
    }

    package let denyHosts: HostPatternSet
    package let allowHosts: HostPatternSet
    package let addresses: AddressRules

    package init(_ configuration: AccessConfiguration, ownListeners: [AddressAndPort] = []) {
        denyHosts = HostPatternSet(configuration.denyHosts)
        allowHosts = HostPatternSet(configuration.allowHosts)
        addresses = AddressRules(denying: configuration.denyAddresses, ownListeners: ownListeners)
    }

    /// Decides whether `host` may be requested. The address of an IP literal is evaluated here as well, before anything
    /// is dialled.
    package func evaluate(_ host: Host) -> HostVerdict {
        if let rule = denyHosts.match(host) { return .denied(rule: rule) }
        return allowHosts.contains(host) ? .allowed : .notAllowed
    }

    /// Decides whether `address` may be dialled; see `AddressRules.evaluate`.
    package func evaluate(
        _ address: IPAddress,
        port: UInt16,
        exempting exemption: AddressAndPort? = nil
    ) -> AddressRules.Verdict {
        addresses.evaluate(address, port: port, exempting: exemption)
    }

    /// Names the rule of a verdict and its place in the configuration, for error responses and the log.
    package func describe(_ verdict: HostVerdict) -> String {
        switch verdict {
        case .allowed: "allowed"
        case .denied(let rule): "access.denyHosts has \"\(denyHosts.patterns[rule])\""
        case .notAllowed: "no entry of access.allowHosts takes the host in"
        }
    }

    package func describe(_ verdict: AddressRules.Verdict) -> String { addresses.describe(verdict) }
}
