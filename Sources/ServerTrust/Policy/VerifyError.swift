// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore

/// OpenSSL's verification error (X509_STORE_CTX_get_error(3)) as this program's code, reason and remedy.
struct VerifyError {
    let code: Int32

    init(_ code: Int32) {
        self.code = code
    }

    /// Whether the name constraints of a CA exclude the certificate, or the host that it is for.
    private var isOfNameConstraints: Bool {
        switch code {
        case X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_EXCLUDED_VIOLATION, X509_V_ERR_SUBTREE_MINMAX,
            X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE, X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX,
            X509_V_ERR_UNSUPPORTED_NAME_SYNTAX:
            true
        default: false
        }
    }

    var failure: TrustFailure {
        switch code {
        case X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED:
            .certificateExpired
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            .certificateHostMismatch
        case X509_V_ERR_CERT_REVOKED, X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_CRL_HAS_EXPIRED,
            X509_V_ERR_CRL_NOT_YET_VALID, X509_V_ERR_CRL_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER,
            X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE, X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD,
            X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD, X509_V_ERR_DIFFERENT_CRL_SCOPE,
            X509_V_ERR_KEYUSAGE_NO_CRL_SIGN, X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION,
            X509_V_ERR_CRL_PATH_VALIDATION_ERROR:
            .certificateRevoked
        default:
            .certificateUntrusted
        }
    }

    /// Reason and remedy where no path leads to an anchor.
    ///
    /// - Parameter certificate: the last one that was found.
    static func missingIssuer(of certificate: Certificate, host: Host) -> (reason: String, remedy: String) {
        if certificate.hasUnreadableExtension {
            return (
                "\"\(certificate.subject)\" has an extension that cannot be read",
                "have the certificate reissued by the rules for TLS servers"
            )
        }
        if certificate.isSelfIssued {
            return (
                "\"\(certificate.subject)\" is self-signed, and no trust anchor",
                "name it under trustAnchors if you trust it, or have the server use a certificate of a CA"
            )
        }
        return (
            "the issuer of \"\(certificate.subject)\", \"\(certificate.issuer)\", is missing: the server did not send it, and it is neither an intermediate nor a trust anchor here",
            "have the server send its whole chain, or name the missing certificate under intermediates; name a CA of your own under trustAnchors"
        )
    }

    /// Reason and remedy where a valid chain to a public CA breaks a rule of these.
    static func reason(
        of breach: CertificateProfile.Breach,
        failed: Certificate,
        root: Certificate
    ) -> (reason: String, remedy: String) {
        (
            "\"\(failed.subject)\" \(breach.text), which no certificate of a public CA may",
            "have the certificate reissued; to accept it as it is, name a file with the certificate of \"\(root.subject)\" under trustAnchors"
        )
    }

    /// - Parameters:
    ///   - failed: the certificate that the error is about.
    ///   - leaf: the server's own certificate.
    func reason(host: Host, failed: Certificate?, leaf: Certificate) -> String {
        let said = String(cString: X509_verify_cert_error_string(Int(code)))
        switch code {
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return "the certificate is not made out to \(host)\(leaf.lackOfNames.map { ": \($0)" } ?? "")"
        case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID:
            let hasExpired = code == X509_V_ERR_CERT_HAS_EXPIRED
            guard let failed, let time = hasExpired ? failed.notAfter : failed.notBefore else { return said }
            return
                "\"\(failed.subject)\" \(hasExpired ? "expired on" : "is valid from") \(Timestamp.text(unixSeconds: time))"
        default:
            let subject = failed?.subject
            let words = subject.map { "\(said), at \"\($0)\"" } ?? said
            return isOfNameConstraints
                ? "the name constraints of a CA in the chain do not allow the certificate for \(host): \(words)" : words
        }
    }

    func remedy(host: Host, leaf: Certificate) -> String {
        switch failure {
        case .certificateExpired: "renew the certificate, or set the clock of this machine right"
        case .certificateHostMismatch where leaf.lackOfNames != nil:
            "have it reissued with subjectAltName=\(host.address == nil ? "DNS" : "IP"):\(host)"
        case .certificateHostMismatch: "use a name that the certificate holds, or have it reissued with this name"
        case .certificateRevoked:
            code == X509_V_ERR_CERT_REVOKED
                ? "have the server use another certificate" : "refresh the files under revocation.crlFiles"
        case .certificateUntrusted where ChainVerification.Outcome(error: code).isMissingPath:
            "have the server send its whole chain, or name the missing certificate under intermediates; name a CA of your own under trustAnchors"
        case _ where code == X509_V_ERR_CERT_CHAIN_TOO_LONG:
            "have the server use a certificate with fewer CAs above it, or raise maxChainDepth"
        case _ where isOfNameConstraints: "have the certificate issued by a CA whose name constraints permit the host"
        default: "have the certificate reissued by the rules for TLS servers"
        }
    }
}
