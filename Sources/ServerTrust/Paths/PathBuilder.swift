// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// The candidate paths from a server's certificate to the trust anchors, best first (RFC 4158).
///
/// A certificate can have several issuers of one name: a root that another one has signed too, an old certificate beside its
/// renewal. Each choice is a path of its own. A candidate is not validated; `ChainVerification` does that. What it finds is given
/// back, so that no other candidate with the same fault is built.
struct PathBuilder {
    /// What the work for one server may cost; all searches for it share one budget. A server chooses its certificates, and there
    /// are certificates that sign each other without end.
    final class Budget {
        /// Signatures to verify, by their cost (`Certificate.signatureCost`). A validation takes one for each certificate below the
        /// anchor.
        private(set) var signatures: Int
        /// Paths to validate.
        private(set) var paths = 32
        /// Certificates to append to a path.
        private(set) var steps = 1_024

        /// Whether something was left out because of it.
        private(set) var isExceeded = false

        init(signatures: Int = 64) { self.signatures = signatures }

        /// Takes the price of one more certificate of a path.
        ///
        /// - Returns: whether it may be appended.
        fileprivate func spendStep() -> Bool { spend(1, of: &steps) }

        /// Takes the price of one signature by the key of `issuer`.
        ///
        /// - Returns: whether it may be verified.
        func spendSignature(by issuer: Certificate) -> Bool { spend(issuer.signatureCost, of: &signatures) }

        /// Takes the price of validating a path.
        ///
        /// - Returns: whether it may be validated.
        func spendValidation(of path: [Certificate]) -> Bool {
            spend(1, of: &paths) && spend(path.dropFirst().reduce(0) { $0 + $1.signatureCost }, of: &signatures)
        }

        private func spend(_ amount: Int, of part: inout Int) -> Bool {
            isExceeded = isExceeded || part < amount
            if part < amount { return false }
            part -= amount
            return true
        }
    }

    /// The largest number of certificates of a path. OpenSSL's bound is for those between the ends.
    static let longest = ChainVerification.depth + 2

    let leaf: Certificate
    private let sent: [Certificate]
    private let intermediates: [CertificatePool]
    private let anchors: CertificatePool
    private let now: Int64
    /// The certificates of the path that is being built, leaf first.
    private var links: [Link]
    private var faulty: [Certificate] = []
    private var signatures: [Signature: Bool] = [:]
    /// The first certificate that ended a path without being an anchor: nobody has its issuer, or it cannot be read.
    private(set) var deadEnd: Certificate?

    private struct Link {
        let certificate: Certificate
        let isAnchor: Bool
        /// Nil until they are asked for.
        var issuers: [Issuer]?
        var next = 0
        var wasGiven = false
    }

    private struct Issuer {
        let certificate: Certificate
        let isAnchor: Bool
        /// Whether other certificates of the name have other keys, so that only the signature tells which one is the issuer.
        var isAmbiguous = false
    }

    private struct Signature: Hashable {
        let subject: ObjectIdentifier
        let key: PublicKeyPin
    }

    /// - Parameters:
    ///   - leaf: the server's certificate.
    ///   - sent: the others that it sent, in any order.
    ///   - intermediates: certificates that help to build a path. They are no anchors.
    ///   - now: seconds since 1970. Certificates that are valid then come first.
    init(
        leaf: Certificate,
        sent: [Certificate],
        intermediates: [CertificatePool] = [],
        anchors: CertificatePool,
        now: Int64
    ) {
        self.leaf = leaf
        self.sent = sent
        self.intermediates = intermediates
        self.anchors = anchors
        self.now = now
        links = []
        restart()
    }

    /// Begins again with the best path. What is known of certificates and signatures is kept.
    mutating func restart() {
        links = []
        if isFaulty(leaf) {
            deadEnd = deadEnd ?? leaf
        } else {
            links = [Link(certificate: leaf, isAnchor: anchors.contains(leaf))]
        }
    }

    /// The next path, leaf first, its anchor last; nil when there is no other, or when the budget is exceeded.
    mutating func next(_ budget: Budget) -> [Certificate]? {
        while var link = links.last {
            if link.isAnchor, !link.wasGiven {
                links[links.count - 1].wasGiven = true
                return links.map(\.certificate)
            }
            if link.issuers == nil {
                link.issuers = issuers(of: link.certificate)
                if link.issuers?.isEmpty == true, !link.isAnchor, deadEnd == nil { deadEnd = link.certificate }
            }
            guard let issuers = link.issuers, link.next < issuers.count else {
                links.removeLast()
                continue
            }
            let issuer = issuers[link.next]
            link.next += 1
            links[links.count - 1] = link
            guard links.count < PathBuilder.longest, !isInPath(issuer.certificate), !isFaulty(issuer.certificate) else {
                continue
            }
            guard budget.spendStep() else { return nil }
            switch isSigned(link.certificate, by: issuer, budget) {
            case nil: return nil
            case false?: continue
            case true?: links.append(Link(certificate: issuer.certificate, isAnchor: issuer.isAnchor))
            }
        }
        return nil
    }

    /// Leaves out every path with this certificate from now on.
    mutating func exclude(_ certificate: Certificate) {
        faulty.append(certificate)
        if let index = links.firstIndex(where: { $0.certificate.isSame(as: certificate) }) {
            links.removeSubrange(index...)
        }
    }

    /// Leaves out every path in which the key of `issuer` has signed `subject`: it has not.
    mutating func excludeSignature(of subject: Certificate, by issuer: Certificate) {
        signatures[Signature(subject: ObjectIdentifier(subject), key: issuer.publicKeyPin)] = false
        if let index = links.firstIndex(where: { $0.certificate === subject }) {
            links.removeSubrange((index + 1)...)
        }
    }

    // MARK: - Issuers

    /// Whoever else may have issued the certificate, best first.
    private func issuers(of certificate: Certificate) -> [Issuer] {
        let name = X509_get_issuer_name(certificate.pointer)
        var issuers: [Issuer] = []
        func add(_ candidates: [Certificate], areAnchors: Bool = false) {
            for candidate in candidates where !issuers.contains(where: { $0.certificate.isSame(as: candidate) }) {
                issuers.append(Issuer(certificate: candidate, isAnchor: areAnchors))
            }
        }
        add(anchors.issuers(of: certificate), areAnchors: true)
        add(sent.filter { X509_NAME_cmp(X509_get_subject_name($0.pointer), name) == 0 })
        for pool in intermediates { add(pool.issuers(of: certificate)) }
        // A self-signed certificate is among its issuers, and distinguishes itself from others of its name by the signature.
        let isAmbiguous = Set(issuers.map(\.certificate.publicKeyPin)).count > 1
        issuers.removeAll { $0.certificate.isSame(as: certificate) }
        guard !issuers.isEmpty else { return [] }
        for place in issuers.indices { issuers[place].isAmbiguous = isAmbiguous }
        let ranks = issuers.map { rank($0, of: certificate) }
        // The order of equals stays: anchors, then as sent.
        return issuers.indices.sorted { (ranks[$0], $1) > (ranks[$1], $0) }.map { issuers[$0] }
    }

    private func rank(_ issuer: Issuer, of certificate: Certificate) -> Int {
        // Key identifiers, and the right to sign certificates.
        var rank = X509_check_issued(issuer.certificate.pointer, certificate.pointer) == X509_V_OK ? 4 : 0
        if let start = issuer.certificate.notBefore, let end = issuer.certificate.notAfter, start <= now, now <= end {
            rank += 2
        }
        return rank + (issuer.isAnchor ? 1 : 0)
    }

    /// Whether the path has the same CA already: the same name with the same key (RFC 4158, section 2.4.2).
    private func isInPath(_ certificate: Certificate) -> Bool {
        links.contains {
            $0.certificate.publicKeyPin == certificate.publicKeyPin
                && X509_NAME_cmp(
                    X509_get_subject_name($0.certificate.pointer),
                    X509_get_subject_name(certificate.pointer)
                ) == 0
        }
    }

    /// OpenSSL takes a certificate with an extension that it cannot decode for nobody's issuer and nobody's subject, and this
    /// alone keeps it out of a path: where the issuers are given, that is decided here.
    private func isFaulty(_ certificate: Certificate) -> Bool {
        certificate.hasUnreadableExtension || faulty.contains { $0.isSame(as: certificate) }
    }

    /// Whether the issuer may be the one that signed. Where only one key is in question the validation tells.
    ///
    /// - Returns: nil when the budget is exceeded.
    private mutating func isSigned(_ subject: Certificate, by issuer: Issuer, _ budget: Budget) -> Bool? {
        let signature = Signature(subject: ObjectIdentifier(subject), key: issuer.certificate.publicKeyPin)
        if let known = signatures[signature] { return known }
        guard issuer.isAmbiguous else { return true }
        guard budget.spendSignature(by: issuer.certificate) else { return nil }
        let isSigned = OpenSSLError.keepingQueueClean {
            X509_verify(subject.pointer, X509_get0_pubkey(issuer.certificate.pointer)) == 1
        }
        signatures[signature] = isSigned
        return isSigned
    }
}
