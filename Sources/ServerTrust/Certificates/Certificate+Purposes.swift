// SPDX-License-Identifier: Apache-2.0
import COpenSSL

extension Certificate {
    /// Whether its extended key usage names TLS clients (or any purpose), or it has no such extension.
    var mayIdentifyClients: Bool {
        OpenSSLError.keepingQueueClean {
            X509_get_ext_by_NID(pointer, NID_ext_key_usage, -1) < 0
                || X509_get_extended_key_usage(pointer) & UInt32(XKU_SSL_CLIENT | XKU_ANYEKU) != 0
        }
    }

    /// Whether it names an OCSP responder (authority information access, RFC 5280, section 4.2.2.1): only then is there
    /// a response that a server could staple.
    var namesOCSPResponder: Bool {
        OpenSSLError.keepingQueueClean {
            guard let responders = X509_get1_ocsp(pointer) else { return false }
            defer { X509_email_free(responders) }
            return OPENSSL_sk_num(responders) > 0
        }
    }
}
