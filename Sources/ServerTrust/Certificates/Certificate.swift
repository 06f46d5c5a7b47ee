// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
import HTTPCore
import StrictJSON

/// An X.509 certificate (RFC 5280).
///
/// - Note: `Sendable` because the `X509` is never changed after it was read: its reference count is atomic, and
///   OpenSSL fills its cache of decoded extensions under the object's own lock (`x509v3_cache_extensions`).
public final class Certificate: @unchecked Sendable, CustomStringConvertible {
    /// An owned reference to an `X509`.
    let pointer: OpaquePointer

    /// SHA-256 over the whole SubjectPublicKeyInfo, as `i2d_X509_PUBKEY` writes it.
    public let publicKeyPin: PublicKeyPin

    /// Takes over a reference.
    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
        publicKeyPin = Certificate.pin(of: X509_get_X509_PUBKEY(pointer))
    }

    /// Adds a reference of its own.
    convenience init(retaining pointer: OpaquePointer) {
        X509_up_ref(pointer)
        self.init(owning: pointer)
    }

    deinit { X509_free(pointer) }

    /// Reads one certificate in DER, and nothing after it.
    public convenience init(der: [UInt8]) throws(CertificateFault) {
        let pointer = der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var cursor = bytes.baseAddress
            guard let certificate = d2i_X509(nil, &cursor, bytes.count) else { return nil }
            if cursor == bytes.baseAddress.map({ $0 + bytes.count }) { return certificate }
            X509_free(certificate)
            return nil
        }
        guard let pointer else {
            throw CertificateFault(
                "not a certificate in PEM or DER",
                remedy: "name a file that holds an X.509 certificate",
                underlying: OpenSSLError(draining: "d2i_X509")
            )
        }
        self.init(owning: pointer)
    }

    /// Reads every certificate of a PEM text, or the one of a DER file; the content decides which.
    ///
    /// - Throws: when there is none, when one cannot be decoded, and when there is anything else in the file (a
    ///   private key above all).
    public static func certificates(in bytes: [UInt8]) throws(CertificateFault) -> [Certificate] {
        guard let sections = try PEMSection.sections(in: bytes) else { return [try Certificate(der: bytes)] }
        var certificates: [Certificate] = []
        for section in sections {
            switch section.label {
            case "CERTIFICATE", "X509 CERTIFICATE":
                certificates.append(try Certificate(der: section.der))
            case let label where label.hasSuffix("PRIVATE KEY"):
                throw CertificateFault(
                    "a private key where certificates are expected",
                    remedy: "keep the key in a file of its own, and name the certificate's file here"
                )
            case let label:
                throw CertificateFault(
                    "a PEM block \"\(LegibleText.excerpt(label))\" where certificates are expected",
                    remedy: "leave only CERTIFICATE blocks in the file"
                )
            }
        }
        guard !certificates.isEmpty else {
            throw CertificateFault("no certificate in it", remedy: "name a file with a CERTIFICATE block")
        }
        return certificates
    }

    /// Reads the certificates of a file of at most 16 MB. Blocking disk I/O: never on a loop.
    public static func certificates(file path: String) throws(CertificateFault) -> [Certificate] {
        switch FileContents.read(path, limit: 16 << 20) {
        case .success(let bytes): return try certificates(in: bytes)
        case .failure(let fault): throw CertificateFault(fault.message, remedy: fault.remedy)
        }
    }

    // MARK: - Contents

    /// The subject as readable text, as in `CN = api.example.com, O = Example`; control characters escaped, and a long one
    /// cut.
    public var subject: String { Certificate.text(of: X509_get_subject_name(pointer)) }

    /// The issuer as readable text, cut like the subject.
    public var issuer: String { Certificate.text(of: X509_get_issuer_name(pointer)) }

    /// First second of validity, in seconds since 1970 (UTC); nil when what is there is not a time. A server writes into
    /// its certificate what it likes.
    package var notBefore: Int64? { Certificate.seconds(X509_get0_notBefore(pointer)) }

    /// Last second of validity, in seconds since 1970 (UTC). Nil when what is there is not a time.
    package var notAfter: Int64? { Certificate.seconds(X509_get0_notAfter(pointer)) }

    /// Refuses a certificate of this program's own with dates that no peer could read either.
    func checkDates() throws(CertificateFault) {
        let wrong = notBefore == nil ? "notBefore" : notAfter == nil ? "notAfter" : nil
        guard let wrong else { return }
        throw CertificateFault(
            "the certificate's \(wrong) is not a time",
            remedy: "have the certificate issued again: every peer would refuse it"
        )
    }

    /// The serial number in hexadecimal; RFC 5280 allows 40 digits, and more than 256 are cut.
    public var serialNumber: String {
        OpenSSLError.keepingQueueClean {
            guard let number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(pointer), nil) else { return "" }
            defer { BN_free(number) }
            guard let text = BN_bn2hex(number) else { return "" }
            defer { pinproxy_openssl_free(text) }
            return LegibleText.cut(String(cString: text), at: Certificate.longestText)
        }
    }

    /// The largest number of Unicode scalars of a text that comes from a certificate: it goes into error bodies, log lines
    /// and documents, and servers that are not trusted choose it.
    static let longestText = 256

    /// Whether it may sign certificates (basic constraints; X509_check_ca(3), of which only 1 is a real CA).
    public var isCA: Bool { OpenSSLError.keepingQueueClean { X509_check_ca(pointer) == 1 } }

    /// Whether subject and issuer are the same name.
    public var isSelfIssued: Bool {
        X509_NAME_cmp(X509_get_subject_name(pointer), X509_get_issuer_name(pointer)) == 0
    }

    /// Whether OpenSSL cannot decode one of the extensions. It takes such a certificate for nobody's.
    var hasUnreadableExtension: Bool {
        OpenSSLError.keepingQueueClean { X509_get_extension_flags(pointer) & UInt32(EXFLAG_INVALID) != 0 }
    }

    /// What a signature by its key costs to verify, in signatures of P-256: curves of other sizes have no code of their own in
    /// OpenSSL, and take some ten times as long.
    var signatureCost: Int {
        OpenSSLError.keepingQueueClean {
            guard let key = X509_get0_pubkey(pointer) else { return 1 }
            let bits = EVP_PKEY_get_bits(key)
            guard EVP_PKEY_get_base_id(key) == EVP_PKEY_EC else { return bits > 4096 ? 2 : 1 }
            return bits <= 256 ? 1 : bits <= 384 ? 4 : 8
        }
    }

    /// Kind and size of the key, as in `EC P-256`, `RSA 2048`, `Ed25519`.
    public var keyDescription: String {
        OpenSSLError.keepingQueueClean {
            guard let key = X509_get0_pubkey(pointer) else { return "unknown key" }
            return PublicKey.describe(key)
        }
    }

    /// The whole certificate in DER.
    public var derBytes: [UInt8] {
        let count = i2d_X509(pointer, nil)
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: Int(count)) { buffer, filled in
            var cursor = buffer.baseAddress
            filled = Int(max(0, i2d_X509(pointer, &cursor)))
        }
    }

    /// The whole certificate in PEM.
    public var pem: String { MemoryBIO.text { PEM_write_bio_X509($0, pointer) } }

    public var description: String { subject }

    /// Whether both are the same certificate, byte by byte (DER).
    public func isSame(as other: Certificate) -> Bool {
        pointer == other.pointer || OpenSSLError.keepingQueueClean { X509_cmp(pointer, other.pointer) == 0 }
    }

    // MARK: - OpenSSL

    /// Hashes the key's whole SubjectPublicKeyInfo.
    ///
    /// OpenSSL encodes what it has decoded. If it should not once, the certificate has a pin that no other key has, and
    /// that nobody can know before: it is in no pin file.
    static func pin(of key: OpaquePointer?) -> PublicKeyPin {
        let count = Int(OpenSSLError.keepingQueueClean { i2d_X509_PUBKEY(key, nil) })
        guard count > 0 else { return PublicKeyPin.ofNoKey() }
        return withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { buffer in
            var cursor = buffer.baseAddress?.assumingMemoryBound(to: UInt8.self)
            i2d_X509_PUBKEY(key, &cursor)
            return PublicKeyPin(hashing: UnsafeRawBufferPointer(buffer))
        }
    }

    /// A name as readable text, on one line, cut where it is long.
    static func text(of name: OpaquePointer?) -> String { LegibleText.cut(wholeText(of: name), at: longestText) }

    static func wholeText(of name: OpaquePointer?) -> String {
        OpenSSLError.keepingQueueClean { MemoryBIO.text { pinproxy_name_print($0, name) } }.legible
    }

    static func seconds(_ time: pinproxy_const_asn1?) -> Int64? {
        var parts = tm()
        guard let time, OpenSSLError.keepingQueueClean({ ASN1_TIME_to_tm(time, &parts) }) == 1 else { return nil }
        return Int64(timegm(&parts))
    }
}

/// A memory BIO that OpenSSL's print functions write to.
enum MemoryBIO {
    /// The output of `write`, as text.
    static func text(_ write: (OpaquePointer) -> Int32) -> String {
        String(decoding: bytes(write), as: UTF8.self)
    }

    /// The output of `write`; empty when it failed.
    static func bytes(_ write: (OpaquePointer) -> Int32) -> [UInt8] {
        guard let bio = BIO_new(BIO_s_mem()) else { return [] }
        defer { BIO_free(bio) }
        guard write(bio) >= 0 else { return [] }
        var start: UnsafePointer<CChar>?
        let count = pinproxy_bio_memory(bio, &start)
        guard count > 0, let start else { return [] }
        return start.withMemoryRebound(to: UInt8.self, capacity: count) {
            Array(UnsafeBufferPointer(start: $0, count: count))
        }
    }
}
