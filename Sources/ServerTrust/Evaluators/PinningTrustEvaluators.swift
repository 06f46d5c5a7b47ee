// SPDX-License-Identifier: Apache-2.0
/// Pins whole certificates: mode `certificate`.
///
/// Pinned certificates are looked for in the chain that OpenSSL validated, never among the certificates as sent. This
/// is stricter than Alamofire, which compares the certificates as sent.
public struct PinnedCertificatesTrustEvaluator: ServerTrustEvaluating {
    /// The policies that servers have to meet; see the initialiser.
    public let policies: [SecurityPolicy]

    /// - Parameters:
    ///   - certificates: at least one; programs on Linux have no app bundle that could supply them.
    ///   - acceptSelfSignedCertificates: makes the pinned certificates the only anchors, so that a self-signed server
    ///     or a private CA passes if it is pinned (`allowInvalidCertificates`). Dates and host still count.
    ///   - performDefaultValidation: whether the chain has to be valid to the trust anchors. Alamofire's `false`
    ///     compares certificates and verifies nothing; that has no safe meaning, so `false` does here what
    ///     `acceptSelfSignedCertificates` does: the chain has to be valid up to a pinned certificate.
    ///   - validateHost: `false` skips the check of the name; only the server's own certificate counts as a match then.
    /// - Throws: every contradiction in the settings; no certificate is one.
    public init(
        certificates: [Certificate],
        acceptSelfSignedCertificates: Bool = false,
        performDefaultValidation: Bool = true,
        validateHost: Bool = true
    ) throws(SecurityPolicy.Faults) {
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .certificate
        configuration.pinnedCertificates = certificates
        configuration.allowInvalidCertificates = acceptSelfSignedCertificates || !performDefaultValidation
        configuration.validatesDomainName = validateHost
        policies = [try SecurityPolicy(configuration)]
    }
}

/// Pins public keys: mode `publicKey`.
public struct PublicKeysTrustEvaluator: ServerTrustEvaluating {
    /// The policies that servers have to meet; see the initialiser.
    public let policies: [SecurityPolicy]

    /// - Parameters:
    ///   - keys: at least two, one of them a backup; `Certificate.publicKeyPin` is the key of a certificate.
    ///   - performDefaultValidation: whether the chain has to be valid to the trust anchors. Alamofire's `false`
    ///     compares keys and verifies nothing; here the server's own certificate then has to hold a pinned key, or its
    ///     path has to verify up to a certificate that holds one (`allowInvalidCertificates`). Dates do not count.
    ///   - validateHost: `false` skips the check of the name; only the key of the server's own certificate counts then.
    ///   - allowSinglePin: accepts a single key, as Alamofire always does: if the server loses this key, every request
    ///     fails.
    /// - Throws: every contradiction in the settings; no key, or a single one unasked, is one.
    public init(
        keys: [PublicKeyPin],
        performDefaultValidation: Bool = true,
        validateHost: Bool = true,
        allowSinglePin: Bool = false
    ) throws(SecurityPolicy.Faults) {
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = keys.map { Pin($0) }
        configuration.allowInvalidCertificates = !performDefaultValidation
        configuration.validatesDomainName = validateHost
        configuration.allowSinglePin = allowSinglePin
        policies = [try SecurityPolicy(configuration)]
    }
}

/// Several evaluators, all of which have to accept. An empty one refuses every server.
public struct CompositeTrustEvaluator: ServerTrustEvaluating {
    /// The policies that servers have to meet; see the initialiser.
    public let policies: [SecurityPolicy]

    /// - Parameter evaluators: evaluated in this order. A `DisabledTrustEvaluator` does not weaken the others.
    public init(evaluators: [any ServerTrustEvaluating]) {
        // An evaluator without policies refuses every server, and must not be lost in the joined list.
        let lists = evaluators.map(\.policies)
        policies = lists.contains(where: \.isEmpty) ? [] : lists.flatMap { $0 }
    }
}
