// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims

/// One `-----BEGIN …-----` block of a PEM file (RFC 7468).
struct PEMSection {
    var label: String
    var der: [UInt8]
    /// The old format of a password-protected key: `Proc-Type: 4,ENCRYPTED` inside the block.
    var isEncrypted: Bool

    /// The blocks of a text; `nil` when it has none, so that it must be DER.
    static func sections(in bytes: [UInt8]) throws(CertificateFault) -> [PEMSection]? {
        guard contains(bytes, Array("-----BEGIN ".utf8)) else { return nil }
        guard bytes.count <= Int(Int32.max) else { throw CertificateFault("too long", remedy: "name the right file") }
        // The BIO reads from the array's own memory: it lives inside the closure.
        let result = bytes.withUnsafeBytes { raw -> Result<[PEMSection], CertificateFault> in
            guard let bio = BIO_new_mem_buf(raw.baseAddress, Int32(raw.count)) else {
                return .failure(CertificateFault("out of memory", remedy: "try again"))
            }
            defer { BIO_free(bio) }
            return Result { () throws(CertificateFault) in try sections(from: bio) }
        }
        return try result.get()
    }

    private static func sections(from bio: OpaquePointer) throws(CertificateFault) -> [PEMSection] {
        ERR_set_mark()
        defer { ERR_pop_to_mark() }
        var sections: [PEMSection] = []
        while true {
            var name: UnsafeMutablePointer<CChar>?
            var header: UnsafeMutablePointer<CChar>?
            var data: UnsafeMutablePointer<UInt8>?
            var count = 0
            guard PEM_read_bio(bio, &name, &header, &data, &count) == 1 else {
                let last = ERR_peek_last_error()
                // The reason is the low 23 bits (ERR_GET_REASON).
                if Int32(truncatingIfNeeded: last & 0x7f_ffff) == PEM_R_NO_START_LINE { return sections }
                throw CertificateFault(
                    "a damaged PEM block",
                    remedy: "export it again",
                    underlying: OpenSSLError(draining: "PEM_read_bio")
                )
            }
            sections.append(
                PEMSection(
                    label: name.map { String(cString: $0) } ?? "",
                    der: Array(UnsafeBufferPointer(start: data, count: count)),
                    isEncrypted: header.map { String(cString: $0).contains("ENCRYPTED") } ?? false
                )
            )
            pinproxy_openssl_free(name)
            pinproxy_openssl_free(header)
            pinproxy_openssl_free(data)
        }
    }

    private static func contains(_ bytes: [UInt8], _ needle: [UInt8]) -> Bool {
        guard bytes.count >= needle.count else { return false }
        for start in 0...(bytes.count - needle.count)
        where bytes[start] == needle[0] && bytes[start..<(start + needle.count)].elementsEqual(needle) {
            return true
        }
        return false
    }
}
