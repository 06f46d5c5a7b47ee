// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc

/// The OCSP response that a server's `SSL_CTX` staples, valid or not. It lives as long as the context.
package final class ServedStaple: Sendable {
    private let bytes: [UInt8]

    /// - Parameter context: the server's `SSL_CTX *`.
    package init(_ bytes: [UInt8], on context: OpaquePointer) {
        self.bytes = bytes
        let isSet = pinproxy_ssl_ctx_on_status(
            context,
            { ssl, own in Unmanaged<ServedStaple>.fromOpaque(own!).takeUnretainedValue().give(to: ssl!) },
            Unmanaged.passUnretained(self).toOpaque()
        )
        precondition(isSet == 1, "OpenSSL takes a status callback")
    }

    private func give(to ssl: OpaquePointer) -> Int32 {
        // OpenSSL frees it; an empty response is possible too.
        guard let copy = CRYPTO_malloc(max(1, bytes.count), "staple", 0) else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        bytes.withUnsafeBytes { _ = memcpy(copy, $0.baseAddress ?? UnsafeRawPointer(copy), $0.count) }
        SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_STATUS_REQ_OCSP_RESP, bytes.count, copy)
        return SSL_TLSEXT_ERR_OK
    }
}
