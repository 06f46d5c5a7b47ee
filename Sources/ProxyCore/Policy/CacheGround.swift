// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ServerTrust
import SessionCore

/// What the hosts of one entry, requested by one scheme, have in common in the cache. A constant.
final class CacheGround: Sendable {
    /// Everything that decides which server responds and what is asked for, beside the server's security policy.
    let context: [UInt8]
    /// The digest for responses received without TLS.
    let plain: PolicyDigest
    /// The digest under the policy of hosts without pins; nil without TLS.
    let unpinned: SecurityPolicyDigest?
    /// The name of the entry in the configuration.
    let entry: String?
    /// The rules in words, in their order.
    let texts: [String]

    /// - Parameters:
    ///   - endpoint: that of any of the hosts.
    ///   - deniedAddresses: those of the access rules.
    init(_ settings: HostConfiguration, _ endpoint: Endpoint, deniedAddresses: [AddressRule]) {
        // A response stored from another server is not used for requests that go here now.
        var context = endpoint.scheme == .https ? "https" : "http"
        entry = settings.host?.authorityText
        if let place = settings.resolve { context += " resolve \(place)" }
        if let proxy = settings.upstreamProxy {
            context += " proxy \(proxy)"
            // An upstream proxy may treat accounts differently.
            if let account = proxy.credentials {
                let text = "\(account.user.utf8.count):\(account.user):\(account.password)"
                context += " as \(SecretDigest.sha256(Array(text.utf8)))"
            }
        }
        // The offers of the handshake decide which server can accept them.
        if endpoint.scheme == .https { context += endpoint.tls.digestText }
        if let tls = endpoint.proxyEndpoint?.tls.digestText, !tls.isEmpty { context += " proxy tls\(tls)" }
        for rule in deniedAddresses { context += " deny \(rule)" }
        // Servers respond in another way to requests that went through a proxy.
        if settings.via == .off { context += " without Via" }
        // Fields that are added to requests or removed from them may decide the response.
        var bytes = Array(context.utf8) + settings.headers.request.digest
        // A response that was stored under other rules for keys may belong to other URLs.
        if !settings.cache.keys.isEmpty { bytes += SecretDigest.sha256(settings.cache.keys.digest) }
        self.context = bytes
        plain = PolicyDigest(SecretDigest.sha256(bytes))
        unpinned =
            endpoint.scheme == .https
            ? SecurityPolicyDigest(SecurityPolicy.unpinned, anchors: endpoint.anchors, context: bytes) : nil
        texts = settings.cache.texts
    }
}
