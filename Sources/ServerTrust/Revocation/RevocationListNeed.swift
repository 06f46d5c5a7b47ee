// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import StrictJSON

/// The list that a certificate needs: where it is fetched, and whose signature it must bear.
///
/// A need is only made of a certificate in a validated path, for a server that the policy accepts apart from the list: what an
/// untrusted server sends has no part in what is fetched. (The server has not proved to have the key yet. But the issuer has
/// signed the URLs.)
package struct RevocationListNeed: Sendable {
    /// What tells lists apart: the issuer's name and key, and the distribution points. Certificates of one shard share it.
    package struct Key: Hashable, Sendable, Comparable {
        private let digest: [UInt8]

        /// - Parameter urls: of the certificate; not empty.
        init?(_ certificate: Certificate, issuer: Certificate, urls: [String]) {
            var name = [UInt8](repeating: 0, count: 32)
            guard X509_NAME_digest(X509_get_issuer_name(certificate.pointer), EVP_sha256(), &name, nil) == 1 else {
                return nil
            }
            let text = "\(issuer.publicKeyPin)\n" + urls.joined(separator: "\n")
            digest = SecretDigest.sha256(name + Array(text.utf8))
        }

        /// 64 hexadecimal digits, for the name of a file.
        package var hexadecimal: String {
            let digits = Array("0123456789abcdef".utf8)
            let text = digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
            return String(decoding: text, as: UTF8.self)
        }

        package static func < (one: Key, other: Key) -> Bool {
            one.digest.lexicographicallyPrecedes(other.digest)
        }
    }

    package let key: Key
    /// They lead to the same list: the others are for the case that the first fails. At least one.
    package let urls: [String]
    package let certificate: Certificate
    package let issuer: Certificate

    /// - Returns: nil for a certificate that names no usable distribution point.
    package init?(_ certificate: Certificate, issuer: Certificate) {
        let urls = certificate.revocationListURLs
        guard !urls.isEmpty, let key = Key(certificate, issuer: issuer, urls: urls) else { return nil }
        self.key = key
        self.urls = urls
        self.certificate = certificate
        self.issuer = issuer
    }

    /// Reads what was fetched, and has it only if it decides about the certificate now.
    ///
    /// It takes as long as the list is long: never on a loop.
    ///
    /// - Parameters:
    ///   - bytes: one list.
    ///   - held: the list that would be replaced.
    ///   - now: seconds since 1970.
    /// - Returns: the list; `held` itself where it is the same.
    package func read(
        _ bytes: [UInt8],
        replacing held: RevocationList?,
        at now: Int64
    ) throws(CertificateFault) -> RevocationList {
        let remedy = "ask \"\(LegibleText.excerpt(certificate.issuer))\", the certificate's issuer, for its list"
        let lists = try RevocationList.read(bytes)
        guard let list = lists.first, lists.count == 1 else {
            throw CertificateFault("\(lists.count) lists in one response", remedy: remedy)
        }
        if let held, held.digest == list.digest { return try confirm(held, at: now) }
        if let held, list.isOlder(than: held) {
            throw CertificateFault("the list is older than the one that is held", remedy: remedy)
        }
        return try confirm(list, at: now)
    }

    /// Makes sure that a list decides about the certificate now.
    package func confirm(_ list: RevocationList, at now: Int64) throws(CertificateFault) -> RevocationList {
        guard let code = list.objection(to: certificate, issuer: issuer, at: now) else { return list }
        let reason =
            switch code {
            case X509_V_ERR_UNABLE_TO_GET_CRL: "the list is of another issuer, \"\(list.issuer)\""
            case X509_V_ERR_DIFFERENT_CRL_SCOPE: "the list is about other certificates of the issuer"
            case X509_V_ERR_CRL_NOT_YET_VALID: "the list is not valid yet"
            case X509_V_ERR_CRL_HAS_EXPIRED: "the list is out of date"
            case X509_V_ERR_CRL_SIGNATURE_FAILURE: "the list is not signed with the key of the certificate's issuer"
            default: String(cString: X509_verify_cert_error_string(Int(code)))
            }
        throw CertificateFault(reason, remedy: "ask \"\(certificate.issuer)\", the certificate's issuer, for its list")
    }
}
