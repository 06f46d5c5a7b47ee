public import ServerTrust

/// Why a task ended without a whole answer.
///
/// `code` is stable and fit for metric labels and programs; `details` are for people and may hold names and numbers.
public struct SessionError: Error, Sendable, CustomStringConvertible {
    /// The causes, each named as the task log and the proxy's error bodies name it.
    public enum Code: String, Sendable, CaseIterable {
        case pinMismatch = "pin_mismatch"
        case pinSetExpired = "pin_set_expired"
        case pinForbidden = "pin_forbidden"
        case certificateUntrusted = "certificate_untrusted"
        case certificateExpired = "certificate_expired"
        case certificateHostMismatch = "certificate_host_mismatch"
        case certificateRevoked = "certificate_revoked"
        case stapleMissing = "staple_missing"
        case tlsHandshakeFailed = "tls_handshake_failed"
        case dnsFailed = "dns_failed"
        case dnsTimeout = "dns_timeout"
        case connectFailed = "connect_failed"
        case connectTimeout = "connect_timeout"
        case responseTimeout = "response_timeout"
        case stalled = "stalled"
        case responseInvalid = "response_invalid"
        case responseTruncated = "response_truncated"
        case responseTooLarge = "response_too_large"
        case addressDenied = "address_denied"
        case requestInvalid = "request_invalid"
        case redirectDenied = "redirect_denied"
        case fileFailed = "file_failed"
        case cancelled = "cancelled"
        case `internal` = "internal"
    }

    public let code: Code
    /// What happened and what to do, in a sentence or two.
    public let details: String
    /// What the security policy found, when it is the policy that refused.
    public let evaluation: TrustEvaluation?

    public init(_ code: Code, _ details: String, evaluation: TrustEvaluation? = nil) {
        self.code = code
        self.details = details
        self.evaluation = evaluation
    }

    public var description: String { "\(code.rawValue): \(details)" }
}
