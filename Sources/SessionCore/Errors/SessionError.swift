public import ServerTrust

/// Why a task ended without a whole answer.
///
/// `code` is stable and fit for metric labels and programs; `details` are for people and may hold names and numbers.
public struct SessionError: Error, Sendable, CustomStringConvertible {
    /// The causes, each named as the task log and the proxy's error bodies name it.
    public enum Code: String, Sendable, CaseIterable {
        /// The chain holds, and no pinned key or certificate is in it.
        case pinMismatch = "pin_mismatch"
        /// The last day of the pin set is over, and its policy is to fail then.
        case pinSetExpired = "pin_set_expired"
        /// A key in the chain is among the forbidden ones.
        case pinForbidden = "pin_forbidden"
        /// No valid path to a trust anchor, or one against the rules for TLS servers; or a hook refused the server.
        case certificateUntrusted = "certificate_untrusted"
        /// A certificate of the path is not valid yet, or not any more.
        case certificateExpired = "certificate_expired"
        /// The certificate is not made out to the host.
        case certificateHostMismatch = "certificate_host_mismatch"
        /// A revocation list names the certificate, or none says that it does not.
        case certificateRevoked = "certificate_revoked"
        /// The server sent no OCSP response that proves its certificate good.
        case stapleMissing = "staple_missing"
        /// The handshake failed for another reason than the server's certificate: no common version, no TLS on that
        /// port, no client certificate.
        case tlsHandshakeFailed = "tls_handshake_failed"
        /// The host's name has no address; or the proxy's.
        case dnsFailed = "dns_failed"
        /// The name was still being looked up when `timeouts.connect` was over.
        case dnsTimeout = "dns_timeout"
        /// No address could be reached; or the proxy makes no tunnel.
        case connectFailed = "connect_failed"
        /// TCP and TLS were not done when `timeouts.connect`, or `timeouts.total`, was over.
        case connectTimeout = "connect_timeout"
        /// No head within `timeouts.firstByte` of the request's end, or no whole answer within `timeouts.total`.
        case responseTimeout = "response_timeout"
        /// No byte of a body has moved for `timeouts.stall`; or `timeouts.total` was over between two requests of a
        /// task.
        case stalled = "stalled"
        /// The answer is not valid HTTP, or not the part of a file that a download needs.
        case responseInvalid = "response_invalid"
        /// The connection ended before the answer did, or before it began.
        case responseTruncated = "response_truncated"
        /// The body is longer than `maximumBodySize`.
        case responseTooLarge = "response_too_large"
        /// The host is at an address that the proxy's rules forbid to dial. Sessions of one's own have no such rules.
        case addressDenied = "address_denied"
        /// The request cannot be sent as it is: URL, fields, body, or a host that `SessionTrust` lets nobody reach.
        case requestInvalid = "request_invalid"
        /// A redirect away from TLS or from pins, to no usable URL, or one too many.
        case redirectDenied = "redirect_denied"
        /// A download could not be written or moved.
        case fileFailed = "file_failed"
        /// Nothing that is stored can answer the request, and it says that nobody else is to be asked.
        case notStored = "not_stored"
        /// As many connections to the host are in use as there may be, and none became free within `timeouts.queue`.
        case limitReached = "limit_reached"
        /// The session takes no task any more, or was retired before the request went out: nothing of it has been sent.
        case sessionInvalidated = "session_invalidated"
        /// The task was cancelled: by the program, by a hook, or with its session.
        case cancelled = "cancelled"
        /// The system has no more threads, descriptors or memory; or a fault of this library.
        case `internal` = "internal"
    }

    /// The cause, for programs: it stays the same over versions.
    public let code: Code
    /// What happened and what to do, in a sentence or two.
    public let details: String
    /// What the security policy found, when it is the policy that refused.
    public let evaluation: TrustEvaluation?
    /// The TLS handshake was cut, by a reset or the connection's end, before a server had shown a chain: that says no more of the
    /// server than a connection that is refused.
    var isHandshakeCut = false
    /// What was done before the task failed; nil where nothing was, and in errors that belong to no task.
    public var metrics: TaskMetrics? { kept?.metrics }
    private var kept: KeptMetrics?

    /// Apart, so that an error stays small.
    private final class KeptMetrics: Sendable {
        let metrics: TaskMetrics

        init(_ metrics: TaskMetrics) { self.metrics = metrics }
    }

    /// What a task ends with that its session does not carry out.
    static let sessionInvalidated = SessionError(
        .sessionInvalidated,
        "The session was invalidated, and nothing of the request has been sent. Make the task in another session."
    )

    package func with(_ metrics: TaskMetrics) -> SessionError {
        var error = self
        error.kept = KeptMetrics(metrics)
        return error
    }

    /// An error of the program's own, for an adapter or a body's source to throw; `details` is for people to read.
    public init(_ code: Code, _ details: String, evaluation: TrustEvaluation? = nil) {
        self.code = code
        self.details = details
        self.evaluation = evaluation
    }

    public var description: String { "\(code.rawValue): \(details)" }
}
