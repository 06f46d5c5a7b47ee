// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
import ServerTrust

/// OpenSSL's reason for the failure of a call, or the system's.
struct TLSFault {
    let words: String
    /// The alert that the peer has sent; nil when that is not the reason.
    let alert: TLSAlert?
    /// OpenSSL's number of the reason, where it is one of its TLS (SSL_R_…).
    let reason: Int?

    init(words: String, alert: TLSAlert? = nil, reason: Int? = nil) {
        self.words = words
        self.alert = alert
        self.reason = reason
    }

    /// Empties the error queue.
    ///
    /// - Parameter code: `errno` behind the call that failed; 0 for the end of the connection.
    init(draining code: Int32) {
        let error = ERR_get_error()
        pinproxy_clear_errors()
        // ERR_GET_LIB and ERR_GET_REASON, which for an alert is its number above SSL_AD_REASON_OFFSET.
        let (library, reason) = (error >> 23 & 0xFF, error & 0x7F_FFFF)
        self.reason = library == UInt(ERR_LIB_SSL) ? Int(reason) : nil
        alert = library == UInt(ERR_LIB_SSL) && 1000...1255 ~= reason ? TLSAlert(UInt8(reason - 1000)) : nil
        if let text = ERR_reason_error_string(error) {
            // For SSL_R_UNEXPECTED_EOF_WHILE_READING these are "unexpected eof while reading".
            words = String(cString: text)
        } else {
            words = code == 0 ? "the connection ended without close_notify" : String(cString: strerror(code))
        }
    }
}
