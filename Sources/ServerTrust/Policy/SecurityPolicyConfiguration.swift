// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

extension SecurityPolicy {
    /// The settings of a policy, named as in a pin file. The defaults: chain and host checks, no pins.
    public struct Configuration: Sendable {
        /// The domain that the policy was written for; it is for reports, and is not matched against anything.
        public var domain: Host?
        /// Whether the policy was written for the subdomains of `domain` too; for reports, like `domain`.
        public var includesSubdomains = false
        /// The pinning mode.
        public var pinningMode: SSLPinningMode = .none
        /// Skips the check of the chain to the trust anchors, never the pins; see the mode table in the documentation.
        public var allowInvalidCertificates = false
        /// Whether the certificate must name the host. Without this check only the leaf counts as a match.
        public var validatesDomainName = true
        /// The keys of mode `publicKey`.
        public var pins: [Pin] = []
        /// The certificates of mode `certificate`; in mode `publicKey` their keys count as pins.
        public var pinnedCertificates: [Certificate] = []
        /// Keys that are refused anywhere in the evaluated chain: in every mode, enforced or not, expired or not.
        public var forbiddenPins: [Pin] = []
        /// The last day on which the pins hold, in UTC.
        public var expiration: CalendarDate?
        /// The rule after `expiration`.
        public var onExpiration: OnExpiration = .deny
        /// Whether a pin that does not match refuses the server; otherwise it is only reported.
        public var enforcePinning = true
        /// Whether one key is sufficient in mode `publicKey`, which otherwise requires a backup.
        public var allowSinglePin = false
        /// The addresses for reports of failed pins, for programs that send reports.
        public var reportUris: [ReportURI] = []
        /// The lowest version of TLS that a connection may have.
        public var minTLSVersion: TLSVersion = .tls12
        /// The groups that the key exchange may have; empty for all that are offered. Then TLS 1.2 is spoken with ECDHE alone.
        public var requireGroups: [TLSGroup] = []
        /// Replaces the caller's anchors; `nil` uses the caller's.
        public var trustAnchors: TrustAnchors?
        /// Certificates that help to build a path where the server leaves them out. They are no anchors.
        public var intermediates: [Certificate] = []
        /// The largest number of CAs between the server's certificate and the trust anchor, from 0 to 10; certificates that a CA
        /// has issued to itself do not count.
        public var maxChainDepth = SecurityPolicy.Configuration.longestChain
        /// The client identity for servers that request one.
        public var clientCertificate: ClientIdentity?
        /// If there are lists, a certificate without a current list is refused.
        public var revocationLists: RevocationLists?
        /// Whether lists are fetched from the distribution points that certificates name. A certificate without a current list is
        /// refused, whichever way it comes: here by what the session has for it, and everywhere in a program that fetches none.
        package var fetchesRevocationLists = false
        /// Whether a certificate without a current list is refused.
        package var hasRevocationLists: Bool { revocationLists != nil || fetchesRevocationLists }
        /// The certificates of the chain that the lists have to cover.
        public var revocationScope: RevocationLists.Scope = .leaf
        /// Whether the server has to staple an OCSP response that says its certificate is good (RFC 6066, section 8).
        /// The handshake requests the staple; no responder is ever asked.
        public var requiresStaple = false

        /// The depth that every chain is held to.
        package static let longestChain = ChainVerification.depth

        /// The rule after the pin set's last day.
        public enum OnExpiration: String, Sendable, CaseIterable {
            /// Every server is refused.
            case deny
            /// Chain and host are checked, even where the policy skips these checks otherwise.
            case unpinned
        }

        /// Chain and host checks, no pins.
        public init() {}

        /// Every contradiction in the settings; empty for good ones.
        public func faults() -> [Fault] {
            var faults: [Fault] = []
            func fault(_ key: String, _ message: String, _ remedy: String) {
                faults.append(Fault(key: key, message: message, remedy: remedy))
            }
            switch pinningMode {
            case .none: checkNone(fault)
            case .certificate: checkCertificate(fault)
            case .publicKey: checkPublicKey(fault)
            }
            checkPinLists(fault)
            checkGroups(fault)
            checkWaivers(fault)
            if !(0...Configuration.longestChain).contains(maxChainDepth) {
                fault(
                    "maxChainDepth",
                    "\(maxChainDepth) is out of range",
                    "take a number from 0 to \(Configuration.longestChain)"
                )
            }
            return faults
        }

        private typealias Report = (_ key: String, _ message: String, _ remedy: String) -> Void

        private func checkNone(_ fault: Report) {
            if allowInvalidCertificates, validatesDomainName {
                fault(
                    "allowInvalidCertificates",
                    "mode none with invalid certificates allowed would check the name in an unverified certificate",
                    "pin the certificate or its key instead (mode certificate or publicKey)"
                )
            }
            if !pins.isEmpty {
                fault("pins", "mode none looks at no pin", "use mode publicKey, or take the pins out")
            }
            if !pinnedCertificates.isEmpty {
                fault("pinnedCertificates", "mode none looks at no certificate", "use mode certificate or publicKey")
            }
            if expiration != nil {
                fault("expiration", "mode none has no pins that could expire", "take it out")
            }
            if !enforcePinning {
                fault(
                    "enforcePinning",
                    "mode none has no pins to report on, and forbidden keys are always refused",
                    "take it out"
                )
            }
            if !reportUris.isEmpty, forbiddenPins.isEmpty {
                fault("reportUris", "mode none has no pins to report on", "take it out, or pin the host")
            }
        }

        private func checkCertificate(_ fault: Report) {
            if !pins.isEmpty {
                fault("pins", "mode certificate looks at certificates, not at pins", "use mode publicKey")
            }
            if pinnedCertificates.isEmpty {
                fault("pinnedCertificates", "no certificate is pinned", "name at least one certificate file")
            }
        }

        private func checkPublicKey(_ fault: Report) {
            let keys = Set(pins.map(\.key)).union(pinnedCertificates.map(\.publicKeyPin))
            if keys.isEmpty {
                fault(
                    "pins",
                    "no key is pinned",
                    "add two pins (pinproxy pins show HOST prints them), or use mode none"
                )
            } else if keys.count < 2, enforcePinning, !allowSinglePin {
                fault(
                    "pins",
                    "only one key is pinned: when it is lost or replaced, every request fails",
                    "add a backup pin, or say \"allowSinglePin\": true"
                )
            }
        }

        private func checkPinLists(_ fault: Report) {
            for (name, list) in [("pins", pins), ("forbiddenPins", forbiddenPins)] {
                var scopes: [PublicKeyPin: [Pin.Scope]] = [:]
                for (index, pin) in list.enumerated() {
                    if scopes[pin.key]?.contains(pin.scope) == true {
                        fault("\(name)/\(index)", "the pin stands in the list already", "keep one of the two")
                    } else {
                        scopes[pin.key, default: []].append(pin.scope)
                    }
                }
            }
            let forbidden = Set(forbiddenPins.map(\.key))
            for (index, pin) in pins.enumerated() {
                if forbidden.contains(pin.key) {
                    fault("pins/\(index)", "the pin is a forbidden one too", "take it out of one of the lists")
                }
                if !validatesDomainName, pin.scope == .ca {
                    fault(
                        "pins/\(index)",
                        "a CA's pin without the host check would let in every name of that CA",
                        "pin the leaf's key, or validate the domain name"
                    )
                }
            }
            for (index, certificate) in pinnedCertificates.enumerated()
            where forbidden.contains(certificate.publicKeyPin) {
                fault("pinnedCertificates/\(index)", "its key is a forbidden one", "take it out of one of the lists")
            }
        }

        /// The lowest version that can be negotiated: TLS 1.2 has no group with ML-KEM.
        package var lowestTLSVersion: TLSVersion {
            !requireGroups.isEmpty && requireGroups.allSatisfy { $0 == .x25519MLKEM768 } ? .tls13 : minTLSVersion
        }

        private func checkGroups(_ fault: Report) {
            var listed: Set<TLSGroup> = []
            for (index, group) in requireGroups.enumerated() {
                if !listed.insert(group).inserted {
                    fault("requireGroups/\(index)", "the group stands in the list already", "keep one of the two")
                }
                if !group.isAvailable {
                    fault(
                        "requireGroups/\(index)",
                        "\(TLSGroup.library) has no group \(group.rawValue)",
                        "run pinproxy with OpenSSL 3.5 or later (Debian 13 has it), or take the group out"
                    )
                }
            }
        }

        private func checkWaivers(_ fault: Report) {
            if !enforcePinning, allowInvalidCertificates {
                fault(
                    "enforcePinning",
                    "only reporting while invalid certificates are allowed would let anything pass",
                    "enforce the pins, or demand a valid chain"
                )
            }
            if allowInvalidCertificates, hasRevocationLists || requiresStaple {
                let what = hasRevocationLists ? "revocation lists need" : "a staple needs"
                fault(
                    "revocation",
                    "\(what) a valid chain to find the issuer, and invalid certificates are allowed",
                    "take one of the two out; a private CA is named under trustAnchors"
                )
            }
        }
    }
}
