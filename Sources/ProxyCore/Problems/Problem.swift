// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore
package import ProxyConfiguration
package import ServerTrust
package import SessionCore

/// An error that the proxy responds with in the origin's place: the table of errors for clients, logs and metrics.
package struct Problem: Error, Sendable {
    /// The stable codes. The raw values appear in the log and in problem documents.
    package enum Code: String, Sendable, CaseIterable {
        case pinMismatch = "pin_mismatch"
        case pinSetExpired = "pin_set_expired"
        case pinForbidden = "pin_forbidden"
        case certificateUntrusted = "certificate_untrusted"
        case certificateExpired = "certificate_expired"
        case certificateHostMismatch = "certificate_host_mismatch"
        case certificateRevoked = "certificate_revoked"
        case stapleMissing = "staple_missing"
        case tlsHandshakeFailed = "tls_handshake_failed"
        case clientCertificateRefused = "client_certificate_refused"
        case proxyUntrusted = "proxy_untrusted"
        case proxyHandshakeFailed = "proxy_handshake_failed"
        case proxyRefused = "proxy_refused"
        case dnsFailed = "dns_failed"
        case dnsTimeout = "dns_timeout"
        case connectFailed = "connect_failed"
        case connectTimeout = "connect_timeout"
        case responseTimeout = "response_timeout"
        case stalled = "stalled"
        case responseInvalid = "response_invalid"
        case responseTruncated = "response_truncated"
        case responseTooLarge = "response_too_large"
        case hostDenied = "host_denied"
        case unpinnedDenied = "unpinned_denied"
        case connectDenied = "connect_denied"
        case requestDenied = "request_denied"
        case credentialRequired = "credential_required"
        case credentialMisdirected = "credential_misdirected"
        case credentialWithheld = "credential_withheld"
        case credentialUnavailable = "credential_unavailable"
        case addressDenied = "address_denied"
        case redirectDenied = "redirect_denied"
        case responseDenied = "response_denied"
        case fileFailed = "file_failed"
        case quotaReached = "quota_reached"
        case notStored = "not_stored"
        case sessionInvalidated = "session_invalidated"
        case loopDetected = "loop_detected"
        case limitReached = "limit_reached"
        case requestInvalid = "request_invalid"
        case requestTimeout = "request_timeout"
        case requestTooLarge = "request_too_large"
        case authenticationRequired = "authentication_required"
        case misdirectedRequest = "misdirected_request"
        case clientHandshakeFailed = "client_handshake_failed"
        case clientClosed = "client_closed"
        case cancelled = "cancelled"
        case `internal` = "internal"
    }

    package let code: Code
    package let status: Int
    /// The cause and the remedy, for people.
    package let details: String
    /// The allowed methods, for 405.
    package let allow: StaticString?
    package let evaluation: TrustEvaluation?
    /// The authentication schemes that the client can use, for 407 and 401.
    package let challenges: ProxyChallenges

    package init(
        _ code: Code,
        status: Int? = nil,
        _ details: String,
        allow: StaticString? = nil,
        evaluation: TrustEvaluation? = nil,
        challenges: ProxyChallenges = []
    ) {
        self.code = code
        self.status = status ?? code.status
        self.details = details
        self.allow = allow
        self.evaluation = evaluation
        self.challenges = challenges
    }

    /// Makes the problem for the error that ended a task.
    package init(_ error: SessionError) {
        self.init(
            error.isMisdirected ? .misdirectedRequest : Code(error.code),
            error.details,
            evaluation: error.evaluation
        )
    }

    /// Makes the problem for an unauthenticated client. If no other request could authenticate it, the status is 403
    /// instead of 407 (rule 56).
    static func unauthenticated(_ credentials: ClientCredentials) -> Problem {
        let challenges = credentials.challenges
        if challenges.isEmpty {
            return Problem(
                .authenticationRequired,
                status: 403,
                "Only certain users of this machine may use this listener, or clients with a certificate. Ask whoever runs the proxy."
            )
        }
        return Problem(
            .authenticationRequired,
            "Proxy-Authorization is missing or wrong. Give the client a user and password, or a token, for this proxy.",
            challenges: challenges
        )
    }

    /// Makes the problem for a request that the parser refused.
    package init(_ fault: RequestFault) {
        self.init(
            .requestInvalid,
            status: fault.status,
            "\(fault.message) (rule \(fault.rule))",
            allow: fault.status == 405 ? Self.forwardedMethods : nil
        )
    }

    /// Refuses a request that a page of another site made a browser send to a gateway: the page would use what the gateway
    /// alone may use, such as this machine's network or a secret that is set for the host.
    init(_ site: RequestingSite, at upstream: Host) {
        let cause =
            site.fetchSite == .other
            ? "its Sec-Fetch-Site is neither same-origin nor none" : "its Origin is not this listener"
        self.init(
            .requestDenied,
            "A web page of another site made a browser send this request: \(cause). "
                + "If pages of other sites may use this gateway, let the entry of \(upstream) in hosts have \"browsers\": true."
        )
    }

    /// Refuses a TLS hello on a listener without TLS: `https://` as the scheme of the proxy, not of the URL.
    static var unexpectedTLS: Problem {
        Problem(
            .requestInvalid,
            "The client speaks TLS to this listener, which has none. Give the client the proxy as http://ADDRESS:PORT, also for "
                + "https:// URLs; or let the listener have \"tls\"."
        )
    }

    /// Refuses a TLS hello inside a CONNECT to port 80.
    static var unexpectedTLSInside: Problem {
        Problem(
            .requestInvalid,
            "The client speaks TLS inside a CONNECT to port 80, where this proxy serves plain http requests. Use port 443 for TLS."
        )
    }

    /// Refuses the first bytes of SOCKS 4 and 5.
    static var unexpectedSOCKS: Problem {
        Problem(
            .requestInvalid,
            "The client speaks SOCKS, which pinproxy does not. Give the client the proxy as http://ADDRESS:PORT."
        )
    }

    /// The known methods that are forwarded to origins.
    static let forwardedMethods: StaticString = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"

    /// Refuses PURGE, which many caches support: the clients of this cache may not empty it.
    static var purgeOnProxyPort: Problem {
        Problem(
            .requestInvalid,
            status: 405,
            "PURGE is not served to clients, and is not handed on. Purge a cache where its operator lets you.",
            allow: forwardedMethods
        )
    }
}

extension Problem.Code {
    /// The usual status of the code; faults of the request have their own.
    var status: Int {
        switch self {
        case .dnsTimeout, .connectTimeout, .responseTimeout, .stalled, .notStored: 504
        case .hostDenied, .unpinnedDenied, .connectDenied, .requestDenied, .credentialRequired,
            .credentialMisdirected, .addressDenied, .redirectDenied:
            403
        case .loopDetected: 508
        case .limitReached, .sessionInvalidated: 503
        case .requestInvalid: 400
        case .requestTimeout: 408
        case .requestTooLarge: 413
        case .authenticationRequired: 407
        case .misdirectedRequest: 421
        case .internal, .fileFailed: 500
        case .quotaReached: 507
        default: 502
        }
    }

    /// The error type of RFC 9209, section 2.3.
    var proxyStatusError: StaticString {
        switch self {
        case .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .proxyUntrusted:
            "tls_certificate_error"
        case .tlsHandshakeFailed, .clientCertificateRefused, .proxyHandshakeFailed: "tls_protocol_error"
        case .dnsFailed: "dns_error"
        case .dnsTimeout: "dns_timeout"
        case .connectFailed, .proxyRefused: "connection_refused"
        case .connectTimeout: "connection_timeout"
        case .responseTimeout: "http_response_timeout"
        case .stalled: "connection_read_timeout"
        case .responseInvalid: "http_protocol_error"
        case .responseTruncated: "http_response_incomplete"
        case .responseTooLarge: "http_response_body_size"
        case .hostDenied, .unpinnedDenied, .connectDenied, .requestDenied, .credentialRequired,
            .credentialMisdirected, .redirectDenied, .responseDenied:
            "http_request_denied"
        case .addressDenied: "destination_ip_prohibited"
        case .notStored: "destination_unavailable"
        case .loopDetected: "proxy_loop_detected"
        case .limitReached: "connection_limit_reached"
        case .sessionInvalidated, .credentialWithheld, .credentialUnavailable: "proxy_configuration_error"
        case .requestInvalid, .requestTimeout, .requestTooLarge, .authenticationRequired, .misdirectedRequest:
            "http_request_error"
        case .clientHandshakeFailed, .clientClosed, .cancelled, .fileFailed, .quotaReached, .internal:
            "proxy_internal_error"
        }
    }

    /// The title of the problem document: the same for every occurrence of the code.
    var title: StaticString {
        switch self {
        case .pinMismatch: "The server's key is none of the pinned ones"
        case .pinSetExpired: "The pin set of this host has expired"
        case .pinForbidden: "The server's key is a forbidden one"
        case .certificateUntrusted: "The server's certificate chain is not trusted"
        case .certificateExpired: "A certificate of the server is not valid at this time"
        case .certificateHostMismatch: "The server's certificate is for another host"
        case .certificateRevoked: "A certificate of the server has been revoked"
        case .stapleMissing: "The server sent no valid revocation status"
        case .tlsHandshakeFailed: "The TLS handshake with the server failed"
        case .clientCertificateRefused: "The server does not accept the client certificate, or its absence"
        case .proxyUntrusted: "The upstream proxy is not trusted"
        case .proxyHandshakeFailed: "The TLS handshake with the upstream proxy failed"
        case .proxyRefused: "The upstream proxy makes no tunnel to the server"
        case .dnsFailed: "The host's name could not be resolved"
        case .dnsTimeout: "Resolving the host's name took too long"
        case .connectFailed: "The server could not be reached"
        case .connectTimeout: "Connecting to the server took too long"
        case .responseTimeout: "The server did not respond in time"
        case .stalled: "The transfer stalled"
        case .responseInvalid: "The server's response is not valid HTTP"
        case .responseTruncated: "The server's response is incomplete"
        case .responseTooLarge: "The server's response is too large"
        case .hostDenied: "This host may not be reached through this proxy"
        case .unpinnedDenied: "Only pinned hosts may be reached through this proxy"
        case .connectDenied: "CONNECT is not allowed"
        case .requestDenied: "This request is not allowed"
        case .credentialRequired: "This request does not say that it wants the credential"
        case .credentialMisdirected: "This request would use a credential that is for others"
        case .credentialWithheld: "The credential was not given to this server"
        case .credentialUnavailable: "The credential for this request cannot be had"
        case .addressDenied: "The host's address may not be dialled"
        case .redirectDenied: "The redirect may not be followed"
        case .responseDenied: "The server's response is refused"
        case .fileFailed: "A file could not be written or read"
        case .quotaReached: "The folder for such responses is full"
        case .sessionInvalidated: "The policy was replaced while the request waited"
        case .notStored: "No stored response can be used"
        case .loopDetected: "The request has been through this proxy before"
        case .limitReached: "A limit of this proxy is reached"
        case .requestInvalid: "The request is not valid"
        case .requestTimeout: "The request took too long to arrive"
        case .requestTooLarge: "The request is too large"
        case .authenticationRequired: "This proxy serves only clients that say who they are"
        case .misdirectedRequest: "This listener does not serve that host"
        case .clientHandshakeFailed: "The client's TLS inside a CONNECT failed"
        case .clientClosed: "The client went away"
        case .cancelled: "The request was cancelled"
        case .internal: "The proxy failed"
        }
    }
}

extension Problem.Code {
    /// The code for the error that ended a task.
    init(_ code: SessionError.Code) {
        self =
            switch code {
            case .pinMismatch: .pinMismatch
            case .pinSetExpired: .pinSetExpired
            case .pinForbidden: .pinForbidden
            case .certificateUntrusted: .certificateUntrusted
            case .certificateExpired: .certificateExpired
            case .certificateHostMismatch: .certificateHostMismatch
            case .certificateRevoked: .certificateRevoked
            case .stapleMissing: .stapleMissing
            case .tlsHandshakeFailed: .tlsHandshakeFailed
            case .clientCertificateRefused: .clientCertificateRefused
            case .proxyUntrusted: .proxyUntrusted
            case .proxyHandshakeFailed: .proxyHandshakeFailed
            case .proxyRefused: .proxyRefused
            case .dnsFailed: .dnsFailed
            case .dnsTimeout: .dnsTimeout
            case .connectFailed: .connectFailed
            case .connectTimeout: .connectTimeout
            case .responseTimeout: .responseTimeout
            case .stalled: .stalled
            case .responseInvalid: .responseInvalid
            case .responseTruncated: .responseTruncated
            case .responseTooLarge: .responseTooLarge
            case .addressDenied: .addressDenied
            case .requestInvalid: .requestInvalid
            case .redirectDenied: .redirectDenied
            case .credentialWithheld: .credentialWithheld
            case .fileFailed: .fileFailed
            case .notStored: .notStored
            case .limitReached: .limitReached
            case .sessionInvalidated: .sessionInvalidated
            case .cancelled: .cancelled
            case .internal: .internal
            }
    }
}
