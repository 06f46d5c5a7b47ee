// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// Looks up the certificates of a validated path in revocation lists (RFC 5280, section 6.3): those of files, and those that were
/// fetched.
///
/// OpenSSL's own check verifies the signature of each list with each chain, over all its bytes. Here a list is verified once for an
/// issuer's key, and the rest of the rules is OpenSSL's: issuer, key usage, validity, scope, and then the entry.
struct RevocationCheck {
    /// What becomes of lists that are fetched.
    enum Fetched {
        /// None are asked for.
        case none
        /// Those of a store count; without one, none are there.
        case held(RevocationListStore?)
        /// A certificate whose list could be fetched counts as good: to see whether everything else holds.
        case passedOver
    }

    var files: RevocationLists?
    var fetched = Fetched.none
    var scope: RevocationLists.Scope
    /// Seconds since 1970.
    var now: Int64

    /// The first certificate of a path that is revoked, or about which no list decides.
    ///
    /// - Parameter path: validated, leaf first.
    /// - Returns: OpenSSL's code (X509_STORE_CTX_get_error(3)), and the place in the path; nil when no certificate is revoked.
    func objection(in path: [Certificate]) -> (code: Int32, depth: Int)? {
        for depth in places(in: path) {
            if let code = objection(to: path[depth], issuer: issuer(at: depth, of: path)) { return (code, depth) }
        }
        return nil
    }

    /// The second at which the first of the lists ends that decide about a path.
    func end(of path: [Certificate]) -> Int64 {
        places(in: path).map { depth in
            let issuer = issuer(at: depth, of: path)
            return lists(for: path[depth], issuer: issuer)
                .filter { $0.objection(to: path[depth], issuer: issuer ?? path[depth], at: now) == nil }
                .map(\.nextUpdate).max() ?? .max
        }.min() ?? .max
    }

    /// The certificates of a path whose lists are fetched: those about which no file's list decides.
    ///
    /// - Returns: what each needs, and the first that names no distribution point that could be used; then nothing is fetched.
    func needs(of path: [Certificate]) -> (needs: [RevocationListNeed], without: Certificate?) {
        var needs: [RevocationListNeed] = []
        for depth in places(in: path) {
            guard let issuer = issuer(at: depth, of: path) else { return ([], path[depth]) }
            if filesDecide(about: path[depth], issuer: issuer) { continue }
            guard let need = RevocationListNeed(path[depth], issuer: issuer) else { return ([], path[depth]) }
            needs.append(need)
        }
        return (needs, nil)
    }

    /// Whether no list decides about the certificate of a need.
    func isMissing(_ need: RevocationListNeed) -> Bool {
        objection(to: need.certificate, issuer: need.issuer) != nil
    }

    /// A list for the anchor at the end can be in a file. No issuer publishes one for its own root.
    private func places(in path: [Certificate]) -> Range<Int> {
        switch (scope, fetched) {
        case (.leaf, _): 0..<min(1, path.count)
        case (.chain, .none): 0..<path.count
        case (.chain, _): 0..<max(min(1, path.count), path.count - 1)
        }
    }

    /// The certificate above, or itself where the path ends with one that has issued itself.
    private func issuer(at depth: Int, of path: [Certificate]) -> Certificate? {
        if depth + 1 < path.count { return path[depth + 1] }
        return path[depth].isSelfIssued ? path[depth] : nil
    }

    private func lists(for certificate: Certificate, issuer: Certificate?) -> [RevocationList] {
        var lists = files?.lists ?? []
        if case .held(let store?) = fetched, let issuer, let need = RevocationListNeed(certificate, issuer: issuer),
            let list = store.list(for: need.key, usedAt: now)
        {
            lists.append(list)
        }
        return lists
    }

    private func filesDecide(about certificate: Certificate, issuer: Certificate) -> Bool {
        files?.lists.contains { $0.objection(to: certificate, issuer: issuer, at: now) == nil } ?? false
    }

    private func objection(to certificate: Certificate, issuer: Certificate?) -> Int32? {
        var objection = X509_V_ERR_UNABLE_TO_GET_CRL
        var decisive: RevocationList?
        for list in lists(for: certificate, issuer: issuer) {
            guard let issuer else {
                if list.isIssued(forCertificatesLike: certificate) { objection = X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER }
                continue
            }
            switch list.objection(to: certificate, issuer: issuer, at: now) {
            case nil where decisive.map({ $0.thisUpdate < list.thisUpdate }) ?? true: decisive = list
            case nil, X509_V_ERR_UNABLE_TO_GET_CRL: continue
            case let code?: objection = code
            }
        }
        if let decisive { return decisive.revokes(certificate) ? X509_V_ERR_CERT_REVOKED : nil }
        if case .passedOver = fetched { return nil }
        return objection
    }
}
