package import HTTPCaching
package import HTTPCore
import ServerTrust

// What the end of a task means to a cache: the same to a session's own and to the proxy's.

extension LoopTask {
    /// Whether the answer may be kept: its server is whom the policy wants, in full. What was only let by is not.
    package var mayStoreResponse: Bool {
        guard request.endpoint.scheme == .https else { return true }
        return switch evaluation?.verdict {
        case .pass, .notPinned, .expired: true
        case .fail, .reportOnly, .unverified, nil: false
        }
    }
}

extension SessionRequest {
    /// Whether the end of an answer's body can be told from its being cut short: over plain HTTP not where the connection's
    /// end is all that there is (RFC 9112, section 8); TLS says that it ends, and so does HTTP/2.
    package func endIsSure(_ response: borrowing ResponseHead) -> Bool {
        guard case .untilClose = response.framing else { return true }
        return endpoint.scheme == .https || response.majorVersion >= 2
    }
}

extension SessionError {
    /// What the failure means to a cache. A stale response may stand in (RFC 9111, section 4.2.4) where the origin could not
    /// be reached, or was not heard to the end of a head. A server that was refused, or a handshake that another may have
    /// spoilt, puts the origin in doubt. One that was cut before anybody claimed to be the origin does not: who can cut it on the
    /// way could have the connection refused as well.
    package var originFailure: OriginFailure {
        switch code {
        case .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout, .responseTimeout, .responseTruncated:
            .unreachable
        case .tlsHandshakeFailed where isHandshakeCut:
            .unreachable
        case .pinMismatch, .pinSetExpired, .pinForbidden, .certificateUntrusted, .certificateExpired,
            .certificateHostMismatch, .certificateRevoked, .stapleMissing, .tlsHandshakeFailed:
            .untrusted
        default: .other
        }
    }
}
