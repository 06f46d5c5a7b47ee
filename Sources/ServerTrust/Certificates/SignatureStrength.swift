// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims

/// The strength of signature algorithms of revocation lists and OCSP responses, which OpenSSL verifies without regard
/// to its security level.
enum SignatureStrength {
    /// Whether the algorithm has 112 bits of security or more, as security level 2 requires for certificates. SHA-1 and
    /// MD5 have less.
    static func isEnough(_ algorithm: UnsafePointer<X509_ALGOR>?) -> Bool {
        guard let algorithm else { return false }
        var object: OpaquePointer?
        X509_ALGOR_get0(&object, nil, nil, algorithm)
        let signature = OBJ_obj2nid(object)
        var digest: Int32 = 0
        var key: Int32 = 0
        guard signature != 0, OBJ_find_sigid_algs(signature, &digest, &key) == 1 else { return false }
        switch key {
        case NID_ED25519, NID_ED448: return true
        case NID_rsassaPss: return isEnough(digest: pinproxy_pss_digest(algorithm))
        default: return isEnough(digest: digest)
        }
    }

    private static func isEnough(digest: Int32) -> Bool {
        switch digest {
        case NID_sha224, NID_sha256, NID_sha384, NID_sha512, NID_sha512_224, NID_sha512_256, NID_sha3_224,
            NID_sha3_256, NID_sha3_384, NID_sha3_512:
            true
        default: false
        }
    }

    /// The algorithm's readable name.
    static func name(_ algorithm: UnsafePointer<X509_ALGOR>?) -> String {
        guard let algorithm else { return "no algorithm" }
        var object: OpaquePointer?
        X509_ALGOR_get0(&object, nil, nil, algorithm)
        guard let text = OBJ_nid2ln(OBJ_obj2nid(object)) else { return "an unknown algorithm" }
        return String(cString: text)
    }
}
