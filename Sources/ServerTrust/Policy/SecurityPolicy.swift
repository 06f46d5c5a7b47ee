// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The requirements that a server has to meet before a request may be sent to it: AFSecurityPolicy's concept, for
/// OpenSSL.
///
/// A policy is made once, checked for contradictions in its initialiser, and never changed. `evaluate` evaluates a
/// chain offline; `TLSVerification` does the same inside a TLS handshake.
public final class SecurityPolicy: Sendable {
    /// The settings that the policy was made of.
    public let configuration: Configuration

    /// The pins that count: those given, and in `publicKey` mode the keys of the pinned certificates.
    let pins: [Pin]
    /// The pinned certificates, as anchors.
    let pinned: CertificatePool
    let intermediates: CertificatePool

    /// A policy from its settings.
    ///
    /// - Throws: every contradiction in them at once.
    public init(_ configuration: Configuration) throws(Faults) {
        let faults = configuration.faults()
        guard faults.isEmpty else { throw Faults(faults: faults) }
        self.configuration = configuration
        var pins = configuration.pins
        if configuration.pinningMode == .publicKey {
            for certificate in configuration.pinnedCertificates
            where !pins.contains(where: { $0.key == certificate.publicKeyPin && $0.scope == .any }) {
                pins.append(Pin(certificate.publicKeyPin, comment: certificate.subject))
            }
        }
        self.pins = pins
        pinned = CertificatePool(configuration.pinnedCertificates)
        intermediates = CertificatePool(configuration.intermediates)
    }

    /// The policy of a host without a pin file: chain and host checks against the given anchors.
    public static let unpinned = SecurityPolicy(unpinned: Configuration())

    /// For settings without pins and with all checks.
    private init(unpinned configuration: Configuration) {
        self.configuration = configuration
        pins = []
        pinned = .empty
        intermediates = CertificatePool(configuration.intermediates)
    }

    /// The policy for the ports that a domain's `ports` does not list: chain and host checks, with the domain's
    /// anchors, TLS version and groups, forbidden keys and reports.
    func forOtherPorts() -> SecurityPolicy {
        var configuration = Configuration()
        configuration.domain = self.configuration.domain
        configuration.includesSubdomains = self.configuration.includesSubdomains
        configuration.forbiddenPins = self.configuration.forbiddenPins
        if !configuration.forbiddenPins.isEmpty { configuration.reportUris = self.configuration.reportUris }
        configuration.trustAnchors = self.configuration.trustAnchors
        configuration.intermediates = self.configuration.intermediates
        configuration.minTLSVersion = self.configuration.minTLSVersion
        configuration.requireGroups = self.configuration.requireGroups
        configuration.maxChainDepth = self.configuration.maxChainDepth
        return SecurityPolicy(unpinned: configuration)
    }

    /// The pinning mode.
    public var pinningMode: SSLPinningMode { configuration.pinningMode }
    /// Whether the check of the chain to the trust anchors is skipped.
    public var allowInvalidCertificates: Bool { configuration.allowInvalidCertificates }
    /// Whether the certificate has to name the host.
    public var validatesDomainName: Bool { configuration.validatesDomainName }
    /// The certificates that are pinned as a whole, or for their keys.
    public var pinnedCertificates: [Certificate] { configuration.pinnedCertificates }
    /// The domain of the pin file that this policy belongs to.
    public var domain: Host? { configuration.domain }

    /// Whether a server may pass unidentified: its verdict is `unverified`, and every start warns of it.
    public var isUnverified: Bool {
        pinningMode == .none && (allowInvalidCertificates || !validatesDomainName)
    }

    /// Whether there are pins, in whatever state: held to, only reported on, or expired.
    public var hasPins: Bool { pinningMode != .none }

    /// Whether pins decide now which servers are accepted: a server without a pinned key is refused.
    ///
    /// False for mode `none` (the ports that a domain's `ports` leaves out among them), for pins that are only reported
    /// on, and for a pin set that has expired with `onExpiration: unpinned`. A set that has expired with `deny` refuses
    /// every server. Only this property decides; whether a pin file names a host at all is another question
    /// (`PinnedDomains.names`).
    ///
    /// - Parameter now: seconds since 1970.
    package func isHeldToPins(at now: Int64) -> Bool {
        guard hasPins, configuration.enforcePinning else { return false }
        guard configuration.onExpiration == .unpinned, let expiration = configuration.expiration else { return true }
        return now < expiration.end
    }

    /// The keys that were expected, for reports: the pins, or in `certificate` mode the keys of the pinned certificates.
    public var expectedPins: [PublicKeyPin] {
        switch pinningMode {
        case .none: []
        case .certificate: pinnedCertificates.map(\.publicKeyPin)
        case .publicKey: pins.map(\.key)
        }
    }

    /// A contradiction in the settings of a policy.
    public struct Fault: Hashable, Sendable {
        /// The setting, as its key in a pin file, with an index where it is one of a list: `pins/1`.
        public var key: String
        /// The problem, without a full stop.
        public var message: String
        /// The remedy, without a full stop.
        public var remedy: String
    }

    /// Every contradiction in a policy's settings.
    public struct Faults: Error, Hashable, Sendable, CustomStringConvertible {
        /// At least one.
        public var faults: [Fault]

        public var description: String {
            faults.map { "\($0.key): \($0.message) (\($0.remedy))" }.joined(separator: "\n")
        }
    }
}
