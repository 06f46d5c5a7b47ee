// SPDX-License-Identifier: Apache-2.0
/// A digest of the policy, for caches that keep responses received under it.
///
/// Digests are the same in every process, and differ as soon as a setting differs that decides which servers are
/// accepted. Members that only say where to report (`reportUris`) or describe (labels, comments) do not count. The
/// whole content of a revocation list counts: a response received before a new list was loaded is not used afterwards.
package struct SecurityPolicyDigest: Hashable, Sendable {
    /// 32 bytes.
    private let current: [UInt8]
    /// The digest from the first second after the pin set's last day; nil where every server is refused then.
    private let afterExpiration: [UInt8]?
    /// Seconds since 1970; `Int64.max` for a pin set without an end.
    private let end: Int64

    /// - Parameters:
    ///   - anchors: used unless the policy has anchors of its own.
    ///   - context: other settings that decide which server is reached, such as a fixed address.
    package init(_ policy: SecurityPolicy, anchors: TrustAnchors, context: [UInt8] = []) {
        let configuration = policy.configuration
        current = Self.digest(configuration, anchors, context)
        end = configuration.expiration?.end ?? .max
        switch configuration.onExpiration {
        case .deny: afterExpiration = nil
        case .unpinned: afterExpiration = SecretDigest.sha256(current + Array("expired".utf8))
        }
    }

    /// - Parameter now: seconds since 1970.
    /// - Returns: 32 bytes; nil when every server is refused, so that no stored response may be used.
    package func bytes(at now: Int64) -> [UInt8]? { now < end ? current : afterExpiration }

    private static func digest(
        _ configuration: SecurityPolicy.Configuration,
        _ anchors: TrustAnchors,
        _ context: [UInt8]
    ) -> [UInt8] {
        var lines = [
            // This number increases when the rules become stricter: 2 checks the host against name constraints, 3 offers no RSA
            // key exchange and no CBC without tlsProfile, 4 has a profile for public CAs.
            "4",
            configuration.pinningMode.rawValue,
            "\(configuration.allowInvalidCertificates) \(configuration.validatesDomainName)",
            "\(configuration.enforcePinning) \(configuration.onExpiration.rawValue)",
            configuration.expiration?.description ?? "-",
            configuration.minTLSVersion.rawValue,
            "\(configuration.requiresStaple)",
        ]
        if !configuration.requireGroups.isEmpty {
            lines.append("groups \(configuration.requireGroups.map(\.rawValue).sorted().joined(separator: " "))")
        }
        if configuration.maxChainDepth < SecurityPolicy.Configuration.longestChain {
            lines.append("depth \(configuration.maxChainDepth)")
        }
        if let lists = configuration.revocationLists {
            // The whole lists, because a new list may revoke further certificates and end on the same day.
            lines.append("\(configuration.revocationScope.rawValue) \(lists.digest)")
        }
        // Not what was fetched: it is new every few hours. As with a staple, a stored response was received under the one of its time.
        if configuration.fetchesRevocationLists { lines.append("fetch \(configuration.revocationScope.rawValue)") }
        for (name, pins) in [("pin", configuration.pins), ("forbidden", configuration.forbiddenPins)] {
            lines += pins.map { "\(name) \($0.key) \($0.scope.rawValue)" }.sorted()
        }
        var bytes = Array(lines.joined(separator: "\n").utf8)
        for certificate in configuration.pinnedCertificates { bytes += SecretDigest.sha256(certificate.derBytes) }
        if !configuration.intermediates.isEmpty { bytes += Array("intermediates".utf8) }
        for certificate in configuration.intermediates { bytes += SecretDigest.sha256(certificate.derBytes) }
        if let identity = configuration.clientCertificate {
            bytes += Array("client".utf8) + SecretDigest.sha256(identity.certificates[0].derBytes)
        }
        bytes += (configuration.trustAnchors ?? anchors).digest
        bytes += context
        return SecretDigest.sha256(bytes)
    }
}
