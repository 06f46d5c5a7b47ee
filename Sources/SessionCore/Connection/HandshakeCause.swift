// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import ServerTrust

/// What a known reason for a failed TLS handshake means, for people who do not know OpenSSL's words: what is wrong with the
/// server, and what its owner can do.
struct HandshakeCause: Equatable {
    /// The profile, versions and groups that were offered to the server.
    struct Offer {
        /// The name that it was asked for.
        let name: String
        let profile: TLSProfile
        let finding: ProfileFinding
        /// The versions and groups that the policy allows.
        let policy: SecurityPolicy.Configuration
    }

    /// Continues "The TLS handshake with … failed: ".
    let reason: String
    /// A sentence or two.
    let remedy: String

    /// - Returns: nil for a reason that speaks for itself, or that nothing is known about.
    init?(_ fault: TLSFault, _ offer: Offer) {
        // An alert comes first: OpenSSL has one reason for each, too.
        if let alert = fault.alert {
            guard let cause = Self.alert(alert, offer) else { return nil }
            self = cause
            return
        }
        guard let number = fault.reason, let cause = Self.reason(Int32(clamping: number), offer) else { return nil }
        self = cause
    }

    private init(_ reason: String, _ remedy: String) {
        self.reason = reason
        self.remedy = remedy
    }

    /// The alerts of RFC 8446, section 6.2, with which a server says what it does not like.
    private static func alert(_ alert: TLSAlert, _ offer: Offer) -> HandshakeCause? {
        let host = offer.name
        return switch alert {
        case .handshakeFailure: nothingInCommon("it accepts nothing of what is offered, or not the name \(host)", offer)
        case .protocolVersion: noVersion
        case .insufficientSecurity: nothingInCommon("what is offered is too weak for it", offer)
        case .internalError:
            HandshakeCause(
                "it has failed itself",
                "Look into its log; many servers say so when they have no certificate for the name \(host)."
            )
        case .inappropriateFallback:
            HandshakeCause("it takes the client for one that has lowered its version", "Have its TLS software updated.")
        case .unrecognizedName:
            HandshakeCause(
                "it does not know the name \(host)",
                "Check the name, and with resolve, a gateway or an address of its own that the server is this host's; "
                    + "the server needs a certificate for the name."
            )
        case .noApplicationProtocol:
            HandshakeCause(
                "it speaks none of the offered versions of HTTP",
                "Set httpVersion for the host to the one that it speaks: \"2\" or \"1.1\"."
            )
        default: nil
        }
    }

    /// OpenSSL's reasons (SSL_R_…), for what it does not accept of a server.
    private static func reason(_ number: Int32, _ offer: Offer) -> HandshakeCause? {
        switch number {
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_PACKET_LENGTH_TOO_LONG, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST,
            recordLayerFailure:
            HandshakeCause(
                "what it sends is no TLS",
                "It does not speak TLS on this port, or not from the first byte (STARTTLS): check the port."
            )
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_WRONG_SSL_VERSION: noVersion
        case SSL_R_UNSAFE_LEGACY_RENEGOTIATION_DISABLED:
            HandshakeCause(
                "it does not know secure renegotiation (RFC 5746)",
                "Without that, whoever is in between can put a request of their own in front of this one (CVE-2009-3555), and it cannot be allowed here. "
                    + "Have its TLS software updated, or that of the load balancer before it: the standard is of 2010."
            )
        case SSL_R_DH_KEY_TOO_SMALL, SSL_R_BAD_DH_VALUE:
            HandshakeCause(
                "its group for Diffie-Hellman is too small",
                "Have the server use one of 2,048 bits or more (ssl_dhparam, SSLOpenSSLConfCmd DHParameters), or ECDHE."
            )
        case SSL_R_LEGACY_SIGALG_DISALLOWED_OR_UNSUPPORTED, SSL_R_WRONG_SIGNATURE_TYPE, SSL_R_UNKNOWN_DIGEST:
            HandshakeCause(
                "it signs the handshake with an algorithm that is too weak or was not offered, such as SHA-1",
                "Have its TLS software updated, or signatures with SHA-256 and better switched on."
            )
        case SSL_R_BAD_ECPOINT, SSL_R_BAD_KEY_SHARE, SSL_R_ILLEGAL_POINT_COMPRESSION, SSL_R_UNSUPPORTED_ELLIPTIC_CURVE,
            SSL_R_WRONG_CURVE:
            HandshakeCause(
                "its part of the key exchange is broken, or on a curve that was not offered",
                "Have its TLS software updated; offered are \(groups(offer))."
            )
        case SSL_R_WRONG_CIPHER_RETURNED, SSL_R_UNKNOWN_CIPHER_RETURNED:
            nothingInCommon("it has chosen a cipher suite that was not offered", offer)
        case SSL_R_UNEXPECTED_EOF_WHILE_READING:
            HandshakeCause(
                "it has ended the connection within the handshake",
                "Either it expects something else than TLS on this port, or a firewall or load balancer before it has no server for the name \(offer.name), or one that has no cipher suite in common and does not say so (tlsProfile)."
            )
        default: nil
        }
    }

    /// SSL_R_RECORD_LAYER_FAILURE, which OpenSSL has from 3.2 on.
    private static let recordLayerFailure: Int32 = 313

    private static let noVersion = HandshakeCause(
        "it has no version of TLS in common with the policy",
        "TLS 1.2 is the lowest, or 1.3 where the pin file's minTLSVersion says so: have a newer version switched on at the server."
    )

    private static func nothingInCommon(_ reason: String, _ offer: Offer) -> HandshakeCause {
        let profile = offer.profile
        let offered = "Offered are TLS 1.3\(suites(offer)), on \(groups(offer)). "
        let remedy =
            switch offer.finding {
            case .needs(let wider):
                "It would take what tlsProfile \"\(wider.rawValue)\" offers (\(additions(wider))), and not \"\(profile.rawValue)\": "
                    + "have it allow a cipher suite with ECDHE and AES-GCM (ssl_ciphers, SSLCipherSuite), "
                    + "or say \"tlsProfile\": \"\(wider.rawValue)\" for the host."
            case .none:
                "It refuses what the wider profiles (tlsProfile) offer, too: check that it has a certificate for the name, "
                    + "and a cipher suite with ECDHE (ssl_ciphers, SSLCipherSuite). 3DES and RC4 are in no profile."
            case .unknown:
                "Have the server allow a cipher suite with ECDHE and AES-GCM (ssl_ciphers, SSLCipherSuite), "
                    + "and check that it has a certificate for the name. 3DES and RC4 are in no tlsProfile."
            }
        let required =
            offer.policy.requireGroups.isEmpty
            ? "" : " Its pin file's requireGroups leaves out the other groups."
        return HandshakeCause(reason, offered + remedy + required)
    }

    private static func suites(_ offer: Offer) -> String {
        let configuration = offer.policy
        guard configuration.lowestTLSVersion == .tls12 else { return "" }
        // A key exchange without a group is left out where a group is required.
        return switch (offer.profile, configuration.requireGroups.isEmpty) {
        case (.modern, _): ", and TLS 1.2 with ECDHE and AES-GCM or ChaCha20"
        case (_, false): ", and TLS 1.2 with ECDHE and AES or ChaCha20"
        case (.compatible, true): ", and TLS 1.2 with ECDHE or RSA and AES or ChaCha20"
        case (.legacy, true): ", and TLS 1.2 with ECDHE, DHE or RSA and AES or ChaCha20"
        }
    }

    /// What a profile offers beyond `modern`.
    private static func additions(_ profile: TLSProfile) -> String {
        switch profile {
        case .modern: "ECDHE with AES-GCM or ChaCha20"
        case .compatible: "RSA key exchange, AES-CBC"
        case .legacy: "DHE"
        }
    }

    private static func groups(_ offer: Offer) -> String {
        let required = offer.policy.requireGroups
        let names = (required.isEmpty ? TLSGroup.allCases.filter(\.isAvailable) : required).map(\.rawValue)
        guard names.count > 1, let last = names.last else { return names.joined() }
        return "\(names.dropLast().joined(separator: ", ")) and \(last)"
    }
}
