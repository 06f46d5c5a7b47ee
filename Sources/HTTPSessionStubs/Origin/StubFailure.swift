// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
public import SessionCore

/// The failure of a request to a `StubOrigin`: any error that a session has.
///
/// ```swift
/// try origin.route(.get, "/v1/items", failure: .init(.pinMismatch))
/// ```
///
/// An error of the connection (names, TCP, TLS, the security policy, a proxy) comes before the request goes out: the origin
/// receives nothing, as from a real session. Any other comes behind the whole request.
public struct StubFailure: Sendable {
    /// The error's code.
    public let code: SessionError.Code
    /// The error's words; nil for some of the stub's.
    public let details: String?

    /// A failure with a code of the session core.
    public init(_ code: SessionError.Code, details: String? = nil) {
        self.code = code
        self.details = details
    }

    /// Whether a session has this error before it sends anything.
    var isBeforeRequest: Bool {
        switch code {
        case .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .tlsHandshakeFailed,
            .clientCertificateRefused, .proxyUntrusted,
            .proxyHandshakeFailed, .proxyRefused, .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout,
            .addressDenied, .credentialWithheld, .limitReached, .sessionInvalidated:
            true
        case .responseTimeout, .stalled, .responseInvalid, .responseTruncated, .responseTooLarge, .requestInvalid,
            .redirectDenied, .fileFailed, .notStored, .cancelled, .internal:
            false
        }
    }

    /// The reason that a security policy would give; nil for errors that are none of it.
    private var refusal: TrustFailure? {
        // Their codes are the same words.
        TrustFailure(rawValue: code.rawValue)
    }

    /// The error of a request. A refused server has a report: the policy's pins as the expected ones, and a certificate that the
    /// stub makes as the offered one.
    func error(of request: SessionRequest) -> SessionError {
        let endpoint = request.endpoint
        if let refusal, endpoint.scheme == .https, let certificate = try? Self.certificate.get() {
            let evaluation = TrustEvaluation(
                refusing: refusal,
                host: endpoint.host,
                policy: endpoint.policy,
                chain: [certificate]
            )
            guard let details else { return .refusal(evaluation) }
            return SessionError(code, details, evaluation: evaluation)
        }
        return SessionError(code, details ?? "The stub of \(endpoint.host) fails with \(code.rawValue).")
    }

    private static let certificate = Result {
        try CertificateBuilder.server(hosts: ["stub.invalid"], validity: 0..<253_402_300_799).identity().certificate
    }
}
