// SPDX-License-Identifier: Apache-2.0
/// A protocol over TLS, by its name in the handshake (ALPN, RFC 7301).
public enum ApplicationProtocol: String, Sendable, CaseIterable {
    /// HTTP/1.1, and what it is upgraded to.
    case http1 = "http/1.1"
    /// HTTP/2 (RFC 9113).
    case http2 = "h2"
}
