// SPDX-License-Identifier: Apache-2.0
import HTTPCore
public import ServerTrust

/// The failure of a task.
///
/// `code` is stable, for metric labels and programs; `details` are for people and may contain names and numbers.
public struct SessionError: Error, Sendable, CustomStringConvertible {
    /// The causes, with the names of the task log and of the proxy's error bodies.
    public enum Code: String, Sendable, CaseIterable {
        /// The chain is valid, and contains no pinned key or certificate.
        case pinMismatch = "pin_mismatch"
        /// The pin set has expired, and its policy is to fail then.
        case pinSetExpired = "pin_set_expired"
        /// The chain contains a forbidden key.
        case pinForbidden = "pin_forbidden"
        /// The chain has no valid path to a trust anchor, or violates the rules for TLS servers; or a hook rejected the
        /// server.
        case certificateUntrusted = "certificate_untrusted"
        /// A certificate of the path has expired, or is not valid yet.
        case certificateExpired = "certificate_expired"
        /// The certificate is not for this host.
        case certificateHostMismatch = "certificate_host_mismatch"
        /// A revocation list contains the certificate, or no list covers it.
        case certificateRevoked = "certificate_revoked"
        /// The server sent no OCSP response that proves its certificate valid.
        case stapleMissing = "staple_missing"
        /// The handshake failed for another reason than the certificates: no common version, no TLS on that port; or the server
        /// wanted another one behind the request.
        case tlsHandshakeFailed = "tls_handshake_failed"
        /// The server wants a client certificate and got none, or does not accept the one that it got. It has not processed the
        /// request.
        case clientCertificateRefused = "client_certificate_refused"
        /// The security policy has rejected the certificate of an HTTPS proxy, which has received no CONNECT and no credentials.
        case proxyUntrusted = "proxy_untrusted"
        /// The handshake with an HTTPS proxy failed for another reason than its certificate.
        case proxyHandshakeFailed = "proxy_handshake_failed"
        /// The proxy makes no tunnel: it refuses, wants other credentials, or its response is invalid.
        case proxyRefused = "proxy_refused"
        /// The name of the host, or of the proxy, has no address.
        case dnsFailed = "dns_failed"
        /// The name lookup was not finished within `timeouts.connect`.
        case dnsTimeout = "dns_timeout"
        /// No address of the host, or of the proxy, could be reached.
        case connectFailed = "connect_failed"
        /// TCP, the proxy's tunnel and TLS were not finished within `timeouts.connect` or `timeouts.total`.
        case connectTimeout = "connect_timeout"
        /// No head was received within `timeouts.firstByte` of the request's end, or no complete response within
        /// `timeouts.total`.
        case responseTimeout = "response_timeout"
        /// No byte of a body was sent or received for `timeouts.stall`; or `timeouts.total` was over between two
        /// requests of a task.
        case stalled = "stalled"
        /// The response is invalid HTTP, or not the part of a file that a download needs.
        case responseInvalid = "response_invalid"
        /// The connection ended before or within the response.
        case responseTruncated = "response_truncated"
        /// The body is longer than `maximumBodySize`.
        case responseTooLarge = "response_too_large"
        /// The proxy's rules forbid the address of the host. A session in a program has no such rules.
        case addressDenied = "address_denied"
        /// The request is invalid: its URL, fields or body, or a host that `SessionTrust` forbids.
        case requestInvalid = "request_invalid"
        /// A redirect leads away from TLS or from pins, has an invalid URL, or exceeds the limit of redirects.
        case redirectDenied = "redirect_denied"
        /// The server has not proved enough to get the credential that the proxy adds to the request, of which nothing was sent. A
        /// session in a program adds none.
        case credentialWithheld = "credential_withheld"
        /// A download could not be written or moved.
        case fileFailed = "file_failed"
        /// No stored response can be used, and the request's cache policy forbids asking the origin.
        case notStored = "not_stored"
        /// The limit of connections to the host was reached, and none became free within `timeouts.queue`.
        case limitReached = "limit_reached"
        /// The session was invalidated or retired before the request was sent: the origin has received none of it.
        case sessionInvalidated = "session_invalidated"
        /// The program, a hook or the session's end cancelled the task.
        case cancelled = "cancelled"
        /// The system has no more threads, descriptors or memory; or this library has a bug.
        case `internal` = "internal"
    }

    /// The cause, for programs; it is stable across versions.
    public let code: Code
    /// The event and its remedy, in a sentence or two.
    public let details: String
    /// The result of the security policy, if it rejected the server; with `proxyUntrusted` the proxy.
    public let evaluation: TrustEvaluation?
    /// The same for the server of the request alone, which a proxy's keys must not be taken for.
    package var serverEvaluation: TrustEvaluation? { code == .proxyUntrusted ? nil : evaluation }
    /// Whether the TLS handshake was cut, by a reset or the end of the connection, before the server had shown a chain; or was
    /// one that the server wanted later, and that was not made. That says no more about the server than a refused connection.
    var isHandshakeCut = false
    /// Whether the address that a client has connected to is none of the host's own.
    package var isMisdirected = false
    /// The metrics of the task up to its failure; nil when nothing was done, and in errors that belong to no task.
    public var metrics: TaskMetrics? { kept?.metrics }
    /// The request that failed: method and URL, the latter without secrets, user information and fragment
    /// (`GET https://example.com/items?token=***`). Nil in errors that belong to no request.
    public var request: String? { kept?.request }
    private var kept: Kept?

    /// In an object of its own, so that an error stays small.
    private final class Kept: Sendable {
        let metrics: TaskMetrics?
        let request: String?

        init(_ metrics: TaskMetrics?, _ request: String?) {
            self.metrics = metrics
            self.request = request
        }
    }

    /// The error of a task that its session does not carry out.
    package static let sessionInvalidated = SessionError(
        .sessionInvalidated,
        "The session was invalidated, and nothing of the request has been sent. Make the task in another session."
    )

    /// The error of a task for whose connection the process has no descriptor left.
    static func noDescriptor(for host: Host) -> SessionError {
        SessionError(
            .limitReached,
            "There is no descriptor for a connection to \(host): as many are in use as the system allows this process open files. Try again, or raise that limit (LimitNOFILE= or ulimit -n)."
        )
    }

    package func with(_ metrics: TaskMetrics) -> SessionError {
        var error = self
        error.kept = Kept(metrics, request)
        return error
    }

    /// The error with the name of its request, unless it has one.
    package func named(_ request: @autoclosure () -> String) -> SessionError {
        guard self.request == nil else { return self }
        var error = self
        error.kept = Kept(metrics, request())
        return error
    }

    func with(details: String) -> SessionError {
        var error = SessionError(code, details, evaluation: evaluation)
        error.isHandshakeCut = isHandshakeCut
        error.isMisdirected = isMisdirected
        error.kept = kept
        return error
    }

    /// An error of the program, for an adapter or a body's source to throw; `details` is for people.
    public init(_ code: Code, _ details: String, evaluation: TrustEvaluation? = nil) {
        self.code = code
        self.details = details
        self.evaluation = evaluation
    }

    /// `code` and `details`, and in parentheses `request`.
    public var description: String { "\(code.rawValue): \(text)" }
    /// `details`, and in parentheses `request`.
    package var text: String { details + (request.map { " (\($0))" } ?? "") }
}

extension SessionError.Code {
    /// The code of a rejection by the security policy.
    init(_ failure: TrustFailure) {
        self =
            switch failure {
            case .pinMismatch: .pinMismatch
            case .pinSetExpired: .pinSetExpired
            case .pinForbidden: .pinForbidden
            case .certificateUntrusted: .certificateUntrusted
            case .certificateExpired: .certificateExpired
            case .certificateHostMismatch: .certificateHostMismatch
            case .certificateRevoked: .certificateRevoked
            case .stapleMissing: .stapleMissing
            }
    }
}
