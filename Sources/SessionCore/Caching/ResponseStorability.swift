// SPDX-License-Identifier: Apache-2.0
package import HTTPCaching
package import HTTPCore
import ServerTrust

// The effect of a task's end on a cache: the same for a session's own and for the proxy's.

extension LoopTask {
    /// Whether the response may be stored: the policy has accepted its server completely, and not only tolerated it.
    var mayStoreResponse: Bool {
        // What an origin in memory answers is stored for sessions with such an origin alone (`LoopSession.cacheDigest`).
        guard request.endpoint.scheme == .https, !isStubbed else { return true }
        return switch evaluation?.verdict {
        case .pass, .notPinned, .expired: true
        case .fail, .reportOnly, .unverified, nil: false
        }
    }
}

extension SessionRequest {
    /// Whether a complete body can be told from a truncated one. Over plain HTTP it cannot when the body ends with the
    /// connection (RFC 9112, section 8); TLS and HTTP/2 signal the end.
    package func endIsSure(_ response: borrowing ResponseHead) -> Bool {
        guard case .untilClose = response.framing else { return true }
        return endpoint.scheme == .https || response.majorVersion >= 2
    }
}

extension SessionError {
    /// The effect of a failure on a cache. A stale response may be used (RFC 9111, section 4.2.4) when the origin could
    /// not be reached, or its head was not received completely. A rejected server, or a failed handshake that an
    /// attacker may have caused, puts the origin in doubt. A handshake that was cut before a server showed a
    /// certificate does not, since the same attacker could have refused the connection.
    package var originFailure: OriginFailure {
        switch code {
        case .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout: .noConnection
        case .proxyRefused, .responseTimeout, .responseTruncated: .unreachable
        case .tlsHandshakeFailed where isHandshakeCut, .proxyHandshakeFailed where isHandshakeCut:
            .unreachable
        case .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .tlsHandshakeFailed,
            .clientCertificateRefused:
            .untrusted
        default: .other
        }
    }
}
