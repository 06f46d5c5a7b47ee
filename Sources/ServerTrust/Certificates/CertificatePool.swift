// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// Certificates that are found by the name of their subject: trust anchors, and intermediates.
final class CertificatePool: Sendable {
    static let empty = CertificatePool([])

    let certificates: [Certificate]
    /// The same, as OpenSSL takes them.
    let stack: CertificateStack
    /// Places in `certificates`, by a hash of the name.
    private let places: [UInt: [Int]]
    /// The same, by the address of the `X509`.
    private let addresses: [UInt: Int]

    init(_ certificates: [Certificate]) {
        self.certificates = certificates
        stack = CertificateStack(certificates)
        var places: [UInt: [Int]] = [:]
        var addresses: [UInt: Int] = [:]
        for (place, certificate) in certificates.enumerated() {
            places[X509_subject_name_hash(certificate.pointer), default: []].append(place)
            addresses[UInt(bitPattern: certificate.pointer)] = place
        }
        self.places = places
        self.addresses = addresses
    }

    var isEmpty: Bool { certificates.isEmpty }

    /// The certificate that owns an `X509`: to make another one of it would encode and hash its key once more.
    func owner(of pointer: OpaquePointer) -> Certificate? {
        addresses[UInt(bitPattern: pointer)].map { certificates[$0] }
    }

    /// The certificates whose subject is the issuer of `certificate`.
    func issuers(of certificate: Certificate) -> [Certificate] {
        let name = X509_get_issuer_name(certificate.pointer)
        return (places[X509_issuer_name_hash(certificate.pointer)] ?? []).lazy.map { self.certificates[$0] }
            .filter { X509_NAME_cmp(X509_get_subject_name($0.pointer), name) == 0 }
    }

    func contains(_ certificate: Certificate) -> Bool {
        let places = places[X509_subject_name_hash(certificate.pointer)] ?? []
        return places.contains { certificates[$0].isSame(as: certificate) }
    }
}
