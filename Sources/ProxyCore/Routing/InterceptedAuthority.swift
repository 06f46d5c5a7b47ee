// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// What a CONNECT was for; every request in it has to be for the same.
struct InterceptedAuthority {
    /// Whether there is TLS inside.
    let scheme: RequestHead.Scheme
    let host: Host
    let port: UInt16

    /// Whether a request's Host, or its URL, names this host and port, or names none, as HTTP/1.0 allows.
    func isNamed(by head: borrowing RequestHead) -> Bool {
        guard head.hostKind != nil else { return true }
        guard head.hostBytes.equals(host.bytes.span) else { return false }
        switch head.form {
        case .absolute: return head.scheme == scheme && head.port == port
        default: return (head.port ?? scheme.defaultPort) == port
        }
    }
}
