// SPDX-License-Identifier: Apache-2.0
import HTTPCore
package import ServerTrust

/// The meaning of a TLS handshake that failed.
struct HandshakeFailure {
    let endpoint: Endpoint
    /// The security policy's verdict, where a server has shown a chain.
    let evaluation: TrustEvaluation?
    /// Whether a server has shown a chain.
    let isChainSeen: Bool
    let isClientCertificateMissing: Bool
    /// The server wants no client without a certificate, or not with this one.
    var refusal: ClientCertificateRefusal?
    /// OpenSSL's reason, or the system's.
    let fault: TLSFault

    var error: SessionError {
        if let evaluation, evaluation.verdict == .fail { return Self.error(evaluation) }
        if let refusal { return refusal.error(of: authority) }
        return cutOrNot(.tlsHandshakeFailed, "The TLS handshake with \(authority) failed: \(cause)")
    }

    /// The error when the endpoint is the upstream proxy.
    var proxyError: SessionError {
        guard let evaluation, evaluation.verdict == .fail else {
            return cutOrNot(
                .proxyHandshakeFailed,
                "The TLS handshake with the upstream proxy \(authority) failed: \(cause)"
            )
        }
        let refusal = Self.error(evaluation)
        return SessionError(
            .proxyUntrusted,
            "The upstream proxy \(authority) is not trusted (\(refusal.code.rawValue)), and was asked for nothing: \(refusal.details)",
            evaluation: evaluation
        )
    }

    /// Whether the server accepts nothing of what was offered, and has shown no certificate.
    var isOfferRefused: Bool {
        evaluation == nil && !isChainSeen && refusal == nil && !isClientCertificateMissing
            && (fault.alert == .handshakeFailure || fault.alert == .insufficientSecurity)
    }

    private var authority: String { endpoint.authorityText }

    private func cutOrNot(_ code: SessionError.Code, _ details: String) -> SessionError {
        var error = SessionError(code, details)
        error.isHandshakeCut = isCut
        return error
    }

    /// The error for a server that the policy has refused.
    static func error(_ evaluation: TrustEvaluation) -> SessionError {
        let code = evaluation.failure.map { SessionError.Code($0) } ?? .certificateUntrusted
        let remedy = evaluation.remedy.isEmpty ? "" : " \(sentence(evaluation.remedy))"
        return SessionError(code, "\(sentence(evaluation.reason))\(remedy)", evaluation: evaluation)
    }

    private static func sentence(_ text: String) -> String {
        // A host's name stays as it is.
        guard let first = text.first, let space = text.firstIndex(of: " "), !text[..<space].contains(".") else {
            return text + "."
        }
        return first.uppercased() + text.dropFirst() + "."
    }

    /// Whether the connection ended before a server claimed to be the host. The words are those of the system and of OpenSSL;
    /// the peer has no part in them.
    private var isCut: Bool {
        guard !isChainSeen, evaluation == nil else { return false }
        let ends = [
            "Connection reset by peer", "unexpected eof while reading", "the connection ended without close_notify",
            "Broken pipe",
        ]
        return ends.contains(where: fault.words.contains)
    }

    static let missingIdentity =
        " The server asks for a client certificate: name one in its pin file (clientCertificate)."

    /// Why the handshake failed for another reason than the server's certificate, and the remedy where one is known. OpenSSL's
    /// words stay, for those who look for them.
    private var cause: String {
        if let refusal { return "\(fault.words). That is, \(refusal.words)" }
        if isClientCertificateMissing { return "\(fault.words).\(Self.missingIdentity)" }
        let offer = HandshakeCause.Offer(
            name: endpoint.serverName.description,
            profile: endpoint.tls.profile,
            finding: endpoint.profileFinding,
            policy: endpoint.policy.configuration
        )
        guard let cause = HandshakeCause(fault, offer) else { return "\(fault.words)." }
        return "\(cause.reason) (OpenSSL: \(fault.words)). \(cause.remedy)"
    }

    /// The error for a server of TLS 1.2 that wanted another handshake within the connection, and has sent no response since it
    /// got none.
    static func declinedRenegotiation(by endpoint: Endpoint) -> SessionError {
        var error = SessionError(
            .tlsHandshakeFailed,
            "\(endpoint.authorityText) wanted another TLS handshake behind the request (renegotiation of TLS 1.2), which is not made, and has sent no response. "
                + "Most servers do that to ask for a client certificate for some paths alone: have it ask in the first handshake, for the whole host "
                + "(Apache: SSLVerifyClient outside of Location and Directory; IIS: negotiate client certificate), or give those paths a host name of their own. "
                + "The server may have acted on the request."
        )
        // Nothing of the server was evaluated anew.
        error.isHandshakeCut = true
        return error
    }
}

extension SessionError {
    /// The error for a server that the policy has refused.
    package static func refusal(_ evaluation: TrustEvaluation) -> SessionError { HandshakeFailure.error(evaluation) }
}
