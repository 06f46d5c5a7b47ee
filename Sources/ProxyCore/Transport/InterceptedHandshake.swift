// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// Why a client has not completed its TLS inside an intercepted CONNECT, for the log: the client sees only its own error.
enum InterceptedHandshake {
    static func problem(_ fault: TLSClientFault, with host: Host) -> Problem {
        Problem(.clientHandshakeFailed, details(fault, host))
    }

    static func isLate(_ limit: Int, with host: Host) -> Problem {
        Problem(
            .clientHandshakeFailed,
            "The client did not complete its TLS handshake for \(host) within timeouts.head (\(limit) ms)."
        )
    }

    private static let trust =
        "Let it trust pinproxy's local CA (pinproxy ca show says how), or do not intercept the host if the client pins certificates itself."

    private static func details(_ fault: TLSClientFault, _ host: Host) -> String {
        switch fault {
        case .alert(let alert) where alert.isAboutCertificate:
            "The client does not accept the certificate that stands in for \(host) (alert \(name(alert))). \(trust)"
        case .alert(let alert):
            "The client ended its TLS handshake for \(host) with the alert \(name(alert))."
        case .version:
            "The client offers no TLS from 1.2 on for \(host). Use a newer client, or switch TLS 1.2 on in it."
        case .plainHTTP:
            "The client sends plain HTTP where TLS for \(host) is expected. Ask for http:// URLs without CONNECT, or with a CONNECT to port 80."
        case .notTLS:
            "What the client sends for \(host) is no TLS. Only HTTPS can be intercepted, and a CONNECT to port 80 is for plain HTTP."
        case .applicationProtocol:
            "The client offers no application protocol (ALPN) for \(host) that is h2 or http/1.1."
        case .serverName:
            "The client's TLS hello names another server (SNI) than \(host), which the CONNECT was for."
        case .ended:
            "The client closed the connection in the middle of its TLS handshake for \(host), without an alert. Many clients do so when they do not trust the certificate. \(trust)"
        case .other(let words):
            "The client's TLS handshake for \(host) failed: \(words)."
        }
    }

    private static func name(_ alert: TLSAlert) -> String { alert.name.map { "\($0)" } ?? "\(alert.number)" }
}
