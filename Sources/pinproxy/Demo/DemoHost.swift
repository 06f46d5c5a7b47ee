// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

/// A host that leads to the demo's origin, with a policy made in memory.
struct DemoHost {
    var name: String
    var origin: DemoOrigin
    /// The key that the policy requires: the origin's, or another.
    var pin: PublicKeyPin

    /// Adds the host, its pins and its address to a policy.
    func add(to parts: inout PolicyParts) throws {
        let host = try Host(name)
        var policy = SecurityPolicy.Configuration()
        policy.domain = host
        policy.pinningMode = .publicKey
        policy.pins = [
            Pin(pin, scope: .leaf, comment: "made for the demo"),
            Pin(try KeyPair(.p256).pin, scope: .leaf, isBackup: true, comment: "made for the demo, and thrown away"),
        ]
        policy.trustAnchors = TrustAnchors(certificates: [origin.anchor])
        let isConfigured = parts.configuration.hosts.contains { $0.host == host }
        guard !isConfigured,
            let domains = parts.pinnedDomains.adding(try SecurityPolicy(policy), host: host, source: "the demo")
        else {
            throw CommandFailure(
                .badConfiguration,
                "the configuration or a pin file names \(name), which the demo adds itself",
                remedy: "take it out there, or start without --demo-origin"
            )
        }
        parts.pinnedDomains = domains
        var entry = HostConfiguration(host: host, over: parts.configuration.defaults)
        entry.resolve = AddressAndPort(origin.address)
        parts.configuration.hosts.append(entry)
    }
}
