/// What tells one policy from another to something that was received under it and is kept: a cache.
///
/// Digests are the same in every process, and differ as soon as anything differs that decides which server may answer.
/// Members that only say where to report (`reportUris`) or describe (labels, comments) do not count. A revocation list counts
/// with all that it says: what was received before a newer one came is not used after.
package struct SecurityPolicyDigest: Hashable, Sendable {
    /// 32 bytes.
    private let current: [UInt8]
    /// From the first second after the pin set's last day; nil where every server is refused from then on.
    private let afterExpiration: [UInt8]?
    /// Seconds since 1970; `Int64.max` for a pin set without an end.
    private let end: Int64

    /// - Parameters:
    ///   - anchors: where the policy has none of its own.
    ///   - context: what else decides who answers, such as a fixed address.
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
    /// - Returns: 32 bytes; nil when no server may answer any more, and nothing that one has said be used.
    package func bytes(at now: Int64) -> [UInt8]? { now < end ? current : afterExpiration }

    private static func digest(
        _ configuration: SecurityPolicy.Configuration,
        _ anchors: TrustAnchors,
        _ context: [UInt8]
    ) -> [UInt8] {
        var lines = [
            // Counts up when the rules become stricter: 2 holds the host against name constraints.
            "2",
            configuration.pinningMode.rawValue,
            "\(configuration.allowInvalidCertificates) \(configuration.validatesDomainName)",
            "\(configuration.enforcePinning) \(configuration.onExpiration.rawValue)",
            configuration.expiration?.description ?? "-",
            configuration.minTLSVersion.rawValue,
            "\(configuration.requiresStaple)",
        ]
        if let lists = configuration.revocationLists {
            // The lists themselves: a new one may revoke what the last one let pass, and end on the same day.
            lines.append("\(configuration.revocationScope.rawValue) \(lists.digest)")
        }
        for (name, pins) in [("pin", configuration.pins), ("forbidden", configuration.forbiddenPins)] {
            lines += pins.map { "\(name) \($0.key) \($0.scope.rawValue)" }.sorted()
        }
        var bytes = Array(lines.joined(separator: "\n").utf8)
        for certificate in configuration.pinnedCertificates { bytes += SecretDigest.sha256(certificate.derBytes) }
        if let identity = configuration.clientCertificate {
            bytes += Array("client".utf8) + SecretDigest.sha256(identity.certificates[0].derBytes)
        }
        bytes += (configuration.trustAnchors ?? anchors).digest
        bytes += context
        return SecretDigest.sha256(bytes)
    }
}
