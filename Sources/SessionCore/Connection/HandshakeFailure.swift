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
    /// OpenSSL's words, or the system's.
    let words: String

    var error: SessionError {
        if let evaluation, evaluation.verdict == .fail { return Self.error(evaluation) }
        if let refusal { return refusal.error(of: place) }
        return cutOrNot(.tlsHandshakeFailed, "The TLS handshake with \(place) failed: \(words).\(remedy)")
    }

    /// The error when the endpoint is the session's proxy.
    var proxyError: SessionError {
        guard let evaluation, evaluation.verdict == .fail else {
            return cutOrNot(
                .proxyHandshakeFailed,
                "The TLS handshake with the session's proxy \(place) failed: \(words).\(remedy)"
            )
        }
        let refusal = Self.error(evaluation)
        return SessionError(
            .proxyUntrusted,
            "The session's proxy \(place) is not trusted (\(refusal.code.rawValue)), and was asked for nothing: \(refusal.details)",
            evaluation: evaluation
        )
    }

    private var place: String { "\(endpoint.host.authorityText):\(endpoint.port)" }

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
        return ends.contains(where: words.contains)
    }

    static let missingIdentity =
        " The server asks for a client certificate: name one in its pin file (clientCertificate)."

    /// The remedy for a handshake that failed for another reason than the server's certificate: a sentence, or nothing.
    private var remedy: String {
        if let refusal { return " That is, \(refusal.words)" }
        if isClientCertificateMissing { return Self.missingIdentity }
        // OpenSSL's words for bytes that are no TLS record (SSL_R_WRONG_VERSION_NUMBER and the like).
        let noTLS = ["wrong version number", "packet length too long", "record layer failure", "http request"]
        if noTLS.contains(where: words.contains) {
            return " It does not speak TLS on this port, or not from the first byte (STARTTLS): check the port."
        }
        if words.contains("alert protocol version") || words.contains("unsupported protocol") {
            return " It has no version of TLS in common with the policy: TLS 1.2 is the lowest."
        }
        return ""
    }
}

extension SessionError {
    /// The error for a server that the policy has refused.
    package static func refusal(_ evaluation: TrustEvaluation) -> SessionError { HandshakeFailure.error(evaluation) }
}
