// SPDX-License-Identifier: Apache-2.0
import COpenSSL

/// The search for valid paths from a server's certificate to the anchors: OpenSSL's own path first, which is nearly always the
/// one, and then those of a `PathBuilder`, each validated as a whole.
///
/// OpenSSL follows one path and does not come back to a branch. With a root in the trust store that another root has signed too,
/// with an expired twin, or with a dead end among the certificates, that path is not the one that counts.
struct PathSearch {
    private let verification: ChainVerification
    private let presented: PresentedChain
    private let anchors: ChainVerification.Anchors
    private let intermediates: [CertificatePool]
    private var builder: PathBuilder?
    /// The paths that were validated, for better or worse.
    private var tried: [ChainVerification.Outcome] = []
    private let budget: PathBuilder.Budget
    /// Whether the leaf has to be an anchor itself; the other certificates are ignored then.
    var isOfLeafAlone = false

    /// - Parameters:
    ///   - intermediates: certificates that help to build a path, and that the server may have left out.
    ///   - budget: that of all searches for this server.
    init(
        _ presented: PresentedChain,
        anchors: ChainVerification.Anchors,
        intermediates: [CertificatePool],
        verification: ChainVerification,
        budget: PathBuilder.Budget
    ) {
        self.presented = presented
        self.anchors = anchors
        self.intermediates = intermediates
        self.verification = verification
        self.budget = budget
    }

    /// Why no path is valid: what is wrong with the most promising one.
    enum Failure {
        /// A path was refused.
        case refused(ChainVerification.Outcome)
        /// No path leads to an anchor. The certificate has no issuer, and is no anchor.
        case noIssuer(of: Certificate)
        case budgetExceeded

        /// OpenSSL's code. It is `X509_V_OK` where paths were valid, but none was wanted.
        var error: Int32 {
            switch self {
            case .refused(let outcome): outcome.error
            case .noIssuer: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
            case .budgetExceeded: X509_V_ERR_CERT_CHAIN_TOO_LONG
            }
        }

        /// Whether there was no such path, in contrast to one that was found and refused.
        var isMissingPath: Bool { error == X509_V_OK || ChainVerification.Outcome(error: error).isMissingPath }
    }

    /// Whether the latest path is the one that OpenSSL builds by itself.
    var isFirst: Bool { tried.count <= 1 }

    /// A valid path; nil when there is none.
    ///
    /// - Parameter isWanted: for a path that decides only if it holds a pin.
    mutating func first(where isWanted: ([Certificate]) -> Bool = { _ in true }) -> [Certificate]? {
        let outcome = verification.verify(presented, anchors: anchors, alone: isOfLeafAlone)
        if !outcome.chain.isEmpty { _ = budget.spendValidation(of: outcome.chain) }
        tried.append(outcome)
        if outcome.isValid, isWanted(outcome.chain) { return outcome.chain }
        return isOfLeafAlone ? nil : next(where: isWanted)
    }

    /// The next valid path that was not given before.
    ///
    /// - Parameter isWanted: which paths are validated at all.
    mutating func next(where isWanted: ([Certificate]) -> Bool = { _ in true }) -> [Certificate]? {
        var builder = self.builder ?? makeBuilder()
        defer { self.builder = builder }
        while let path = builder.next(budget) {
            guard isWanted(path), !tried.contains(where: { PathSearch.isSame($0.chain, path) }) else { continue }
            guard budget.spendValidation(of: path) else { return nil }
            let outcome = verification.verify(path: path, anchors: anchors)
            tried.append(outcome)
            if outcome.isValid { return outcome.chain }
            PathSearch.learn(from: outcome, &builder)
        }
        return nil
    }

    /// Any valid path that is wanted, among all of them; `next` goes on where it was.
    func any(where isWanted: ([Certificate]) -> Bool) -> [Certificate]? {
        var search = self
        search.builder?.restart()
        search.tried.removeAll { $0.isValid }
        return search.next(where: isWanted)
    }

    /// For a search that has found no path.
    var failure: Failure {
        if budget.isExceeded { return .budgetExceeded }
        if let valid = tried.first(where: \.isValid) { return .refused(valid) }
        let refused = tried.filter { !$0.isMissingPath }
        // A certificate that somebody else has signed is no issuer.
        if let best = refused.first(where: { $0.error != X509_V_ERR_CERT_SIGNATURE_FAILURE }) ?? refused.first {
            return .refused(best)
        }
        if let end = builder?.deadEnd { return .noIssuer(of: end) }
        return tried.first.map { .refused($0) } ?? .budgetExceeded
    }

    private func makeBuilder() -> PathBuilder {
        let certificates = presented.certificates()
        var builder = PathBuilder(
            leaf: certificates[0],
            sent: Array(certificates.dropFirst()),
            intermediates: intermediates,
            anchors: anchors.pool,
            now: verification.now
        )
        for outcome in tried where !outcome.isValid { PathSearch.learn(from: outcome, &builder) }
        return builder
    }

    private static func learn(from outcome: ChainVerification.Outcome, _ builder: inout PathBuilder) {
        guard let failed = outcome.failed else { return }
        if outcome.isOfCertificateAlone {
            builder.exclude(failed)
        } else if outcome.error == X509_V_ERR_CERT_SIGNATURE_FAILURE, outcome.depth + 1 < outcome.chain.count {
            builder.excludeSignature(of: failed, by: outcome.chain[outcome.depth + 1])
        }
    }

    private static func isSame(_ one: [Certificate], _ other: [Certificate]) -> Bool {
        one.count == other.count && zip(one, other).allSatisfy { $0.isSame(as: $1) }
    }
}
