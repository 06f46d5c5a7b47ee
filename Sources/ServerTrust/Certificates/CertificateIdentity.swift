// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import HTTPCore
import StrictJSON

extension Certificate {
    /// The name of the user whose certificate this is: its SPIFFE ID, otherwise its subject. Where `subject` is cut, a digest of
    /// the whole text keeps different ones apart.
    package var identity: String {
        if let workload = spiffeID { return workload }
        let whole = Certificate.wholeText(of: X509_get_subject_name(pointer))
        let text = LegibleText.cut(whole, at: Certificate.longestText)
        guard text != whole else { return text }
        return text + " sha256/" + Base64.encode(SecretDigest.sha256(Array(whole.utf8)))
    }

    /// The SPIFFE ID of an X.509-SVID: the only URI among the names of a certificate that is no CA. With more than one URI it is
    /// none (X.509-SVID, sections 2 and 5.2).
    private var spiffeID: String? {
        guard !isCA else { return nil }
        let decoded = OpenSSLError.keepingQueueClean { X509_get_ext_d2i(pointer, NID_subject_alt_name, nil, nil) }
        guard let names = decoded else { return nil }
        let stack = OpaquePointer(names)
        defer { GENERAL_NAMES_free(stack) }
        var found: [UInt8]?
        for index in 0..<OPENSSL_sk_num(stack) {
            var kind: Int32 = 0
            guard let element = OPENSSL_sk_value(stack, index),
                let value = GENERAL_NAME_get0_value(element.assumingMemoryBound(to: GENERAL_NAME.self), &kind),
                kind == GEN_URI
            else { continue }
            guard found == nil else { return nil }
            found = ASN1Bytes.of(value)
        }
        guard let found, SPIFFEID.isValid(found) else { return nil }
        return String(decoding: found, as: UTF8.self)
    }
}

/// The form of a SPIFFE ID (SPIFFE-ID, section 2): `spiffe://trust-domain/path`, without user information, port, query and fragment.
package enum SPIFFEID {
    package static let prefix = "spiffe://"
    private static let longest = 2048

    /// Whether the bytes are a SPIFFE ID, in the one way to write it.
    package static func isValid(_ bytes: [UInt8]) -> Bool {
        guard bytes.count <= longest, bytes.starts(with: prefix.utf8) else { return false }
        let parts = bytes.dropFirst(prefix.utf8.count)
            .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard let domain = parts.first, !domain.isEmpty, domain.count <= 255, domain.allSatisfy(isOfDomain) else {
            return false
        }
        return parts.dropFirst().allSatisfy { segment in
            !segment.isEmpty && !segment.elementsEqual(".".utf8) && !segment.elementsEqual("..".utf8)
                && segment.allSatisfy { isOfDomain($0) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        }
    }

    private static func isOfDomain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
