import COpenSSL

/// Certificate revocation lists (RFC 5280, section 5) that a policy holds: a `STACK_OF(X509_CRL)`.
///
/// - Note: `Sendable` because stack and lists are only read after the initialiser; an `X509_CRL` caches its decoded
///   extensions when it is parsed.
public final class RevocationLists: @unchecked Sendable {
    let pointer: OpaquePointer
    /// The earliest `nextUpdate` among the lists, in seconds since 1970: from then on they prove nothing.
    public let earliestNextUpdate: Int64

    /// Which certificates of the chain have to be covered by a list.
    public enum Scope: String, Sendable, CaseIterable {
        /// The server's own certificate.
        case leaf
        /// Every certificate of the chain but the anchor.
        case chain
    }

    /// Reads the lists of files' contents: PEM with any number of lists, or one in DER.
    public init(contents: [[UInt8]]) throws(CertificateFault) {
        guard let stack = OPENSSL_sk_new_null() else { fatalError("out of memory") }
        var earliest = Int64.max
        var lists: [OpaquePointer] = []
        do throws(CertificateFault) {
            for bytes in contents { lists += try RevocationLists.read(bytes) }
        } catch {
            lists.forEach { X509_CRL_free($0) }
            OPENSSL_sk_free(stack)
            throw error
        }
        for list in lists {
            OPENSSL_sk_push(stack, UnsafeRawPointer(list))
            // A list without nextUpdate never ages (RFC 5280 wants one; OpenSSL takes it for good).
            if let next = X509_CRL_get0_nextUpdate(list) {
                earliest = min(earliest, Certificate.seconds(next) ?? .min)
            }
        }
        pointer = stack
        earliestNextUpdate = earliest
    }

    deinit {
        for index in 0..<OPENSSL_sk_num(pointer) {
            OPENSSL_sk_value(pointer, index).map { X509_CRL_free(OpaquePointer($0)) }
        }
        OPENSSL_sk_free(pointer)
    }

    private static func read(_ bytes: [UInt8]) throws(CertificateFault) -> [OpaquePointer] {
        let sections = try PEMSection.sections(in: bytes)
        let encodings = sections?.filter { $0.label == "X509 CRL" }.map(\.der) ?? [bytes]
        guard !encodings.isEmpty, encodings.count == sections?.count ?? 1 else {
            throw CertificateFault(
                "something else than revocation lists in it",
                remedy: "name a file that holds X509 CRL blocks only"
            )
        }
        var lists: [OpaquePointer] = []
        for der in encodings {
            let list = der.withUnsafeBufferPointer { raw -> OpaquePointer? in
                var place = raw.baseAddress
                return d2i_X509_CRL(nil, &place, raw.count)
            }
            guard let list else {
                lists.forEach { X509_CRL_free($0) }
                throw CertificateFault(
                    "not a revocation list in PEM or DER",
                    remedy: "name a file that holds an X.509 CRL",
                    underlying: OpenSSLError(draining: "d2i_X509_CRL")
                )
            }
            lists.append(list)
        }
        return lists
    }
}
