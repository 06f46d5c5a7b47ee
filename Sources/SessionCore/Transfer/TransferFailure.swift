import CLibcurl
import HTTPCore
import IOCore
import ServerTrust

/// What libcurl's error code means for a task.
struct TransferFailure {
    let result: CURLcode
    /// libcurl's own words; may be empty.
    let details: String
    let endpoint: Endpoint
    let evaluation: TrustEvaluation?
    var lacksClientCertificate = false
    /// Whether a server has shown a chain.
    var hasSeenChain = false
    let refusedAddress: (address: SocketAddress, refusal: DialRefusal)?
    let headReceived: Bool
    /// The request went out.
    var isSent = false

    var error: SessionError {
        if let evaluation, evaluation.verdict == .fail { return trustError(evaluation) }
        switch result {
        case CURLE_COULDNT_RESOLVE_HOST:
            return SessionError(
                .dnsFailed,
                "\(endpoint.host) has no address: \(words). Check the name, or give the host a \"resolve\" address."
            )
        case CURLE_COULDNT_RESOLVE_PROXY:
            return SessionError(.dnsFailed, "The session's proxy has no address: \(words). Check its name.")
        case CURLE_PROXY:
            return SessionError(.connectFailed, "The session's proxy makes no way to \(place): \(words).")
        case CURLE_RECV_ERROR where words.hasPrefix("CONNECT tunnel failed"):
            let remedy = words.hasSuffix("407") ? " It wants credentials, or others than it was given." : ""
            return SessionError(.connectFailed, "The session's proxy makes no tunnel to \(place): \(words).\(remedy)")
        case CURLE_COULDNT_CONNECT:
            if let refusedAddress, endpoint.proxy != nil {
                return SessionError(
                    .addressDenied,
                    "The proxy is at \(refusedAddress.address), which may not be dialled: \(refusedAddress.refusal.rule). "
                        + "Name the proxy by that address if it should be, or change access.denyAddresses."
                )
            }
            if let refusedAddress {
                return SessionError(
                    .addressDenied,
                    "\(endpoint.host) is at \(refusedAddress.address), which may not be dialled: \(refusedAddress.refusal.rule). "
                        + "Change access.denyAddresses if it should be, or give the host this address as its \"resolve\"."
                )
            }
            return SessionError(.connectFailed, "\(place) could not be reached: \(words).")
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CIPHER, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_ENGINE_INITFAILED, CURLE_USE_SSL_FAILED:
            var error = SessionError(
                .tlsHandshakeFailed,
                "The TLS handshake with \(place) failed: \(words).\(handshakeRemedy)"
            )
            error.isHandshakeCut = isCut
            return error
        case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_HTTP2,
            CURLE_HTTP2_STREAM, CURLE_SSL_SHUTDOWN_FAILED:
            return SessionError(
                .responseTruncated,
                headReceived
                    ? "\(place) broke off its answer: \(words)."
                    : "\(place) closed the connection without an answer: \(words)."
            )
        case CURLE_SEND_FAIL_REWIND:
            return SessionError(
                .responseTruncated,
                "\(place) closed the kept connection while the request went out. "
                    + "It is not sent again, because the origin may have acted on it; send it again if that is safe."
            )
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING,
            CURLE_OUT_OF_MEMORY:
            return SessionError(.responseInvalid, "The answer of \(place) is not valid HTTP: \(words).")
        case CURLE_BAD_FUNCTION_ARGUMENT where isSent:
            // libcurl files each line of a head before it hands it on, and finds no field in one (lib/headers.c).
            return SessionError(
                .responseInvalid,
                "The answer of \(place) is not valid HTTP: a line of its head is no field."
            )
        default:
            let name = String(cString: curl_easy_strerror(result))
            return SessionError(.internal, "The transfer from \(place) failed: \(details.isEmpty ? name : details).")
        }
    }

    private func trustError(_ evaluation: TrustEvaluation) -> SessionError {
        let code = evaluation.failure.map { SessionError.Code($0) } ?? .certificateUntrusted
        let remedy = evaluation.remedy.isEmpty ? "" : " \(Self.sentence(evaluation.remedy))"
        return SessionError(code, "\(Self.sentence(evaluation.reason))\(remedy)", evaluation: evaluation)
    }

    private static func sentence(_ text: String) -> String {
        // A host's name stays as it is.
        guard let first = text.first, let space = text.firstIndex(of: " "), !text[..<space].contains(".") else {
            return text + "."
        }
        return first.uppercased() + text.dropFirst() + "."
    }

    /// By the words of libcurl and OpenSSL, of which the peer has no part. What they do not say so is no cut.
    private var isCut: Bool {
        guard result == CURLE_SSL_CONNECT_ERROR, !hasSeenChain, evaluation == nil else { return false }
        // The second is the end of the connection, or an error of the socket that has no words of its own.
        let ends = ["Connection reset by peer", "SSL_ERROR_SYSCALL", "unexpected eof while reading", "Broken pipe"]
        return ends.contains(where: words.contains)
    }

    /// What to do about a handshake that failed for another reason than the server's certificate: a sentence, or nothing.
    private var handshakeRemedy: String {
        if lacksClientCertificate {
            return " The server asks for a client certificate: name one in its pin file (clientCertificate)."
        }
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

    private var place: String { "\(endpoint.host.authorityText):\(endpoint.port)" }

    private var words: String {
        var text = details.isEmpty ? String(cString: curl_easy_strerror(result)) : details
        while text.hasSuffix(".") || text.hasSuffix("\n") { text.removeLast() }
        return text
    }
}
