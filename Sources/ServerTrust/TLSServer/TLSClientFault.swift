// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// The fault of a client's side of a handshake.
package enum TLSClientFault: Hashable, Sendable {
    /// The client has ended the handshake with this alert.
    case alert(TLSAlert)
    /// The client offers no version of TLS from 1.2 on.
    case version
    /// A request of plain HTTP.
    case plainHTTP
    /// Bytes that are no TLS.
    case notTLS
    /// None of the client's application protocols (ALPN) is one of the server's.
    case applicationProtocol
    /// The client names another server (SNI).
    case serverName
    /// The connection has ended.
    case ended
    /// Anything else, in OpenSSL's words.
    case other(String)

    /// - Parameter error: the error of `TLSServerSession`; nil if the connection has ended without one.
    package init(_ error: OpenSSLError?) {
        guard let error, let first = error.entries.first else {
            self = .ended
            return
        }
        // ERR_GET_LIB: other libraries have the same numbers for other reasons.
        guard first.code >> 23 & 0xFF == UInt(ERR_LIB_SSL) else {
            self = .other(error.description)
            return
        }
        self =
            switch Int32(truncatingIfNeeded: first.code & UInt(ERR_REASON_MASK)) {
            // ssl.h: the reason of a received alert is 1000 (SSL_AD_REASON_OFFSET) above its number.
            case let reason where (1000..<1256).contains(reason): .alert(TLSAlert(UInt8(reason - 1000)))
            case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_UNKNOWN_PROTOCOL: .version
            case SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST: .plainHTTP
            case SSL_R_WRONG_VERSION_NUMBER, SSL_R_PACKET_LENGTH_TOO_LONG, SSL_R_RECORD_TOO_SMALL: .notTLS
            case SSL_R_NO_APPLICATION_PROTOCOL: .applicationProtocol
            case SSL_R_CALLBACK_FAILED, SSL_R_CLIENTHELLO_TLSEXT: .serverName
            case SSL_R_UNEXPECTED_EOF_WHILE_READING: .ended
            default: .other(error.description)
            }
    }
}
