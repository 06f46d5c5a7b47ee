// SPDX-License-Identifier: Apache-2.0
/// Chain and host checks, without pins: mode `none`.
public struct DefaultTrustEvaluator: ServerTrustEvaluating {
    /// A list with one policy.
    public let policies: [SecurityPolicy]

    /// - Parameter validateHost: `false` skips the check of the name: any server with a valid chain passes, with the
    ///   verdict `unverified`.
    public init(validateHost: Bool = true) {
        var configuration = SecurityPolicy.Configuration()
        configuration.validatesDomainName = validateHost
        policies = SecurityPolicy.list(configuration)
    }
}

/// Chain and host checks, and revocation: by lists (CRLs) that the program holds, by the OCSP response that the server
/// staples, or by both. Nothing is ever fetched: a certificate without a current list is refused, and so is a server
/// without a current staple.
public struct RevocationTrustEvaluator: ServerTrustEvaluating {
    /// A list with one policy.
    public let policies: [SecurityPolicy]

    /// - Parameters:
    ///   - revocationLists: the lists; together with `requireStaple` they replace Alamofire's `options`.
    ///   - scope: the certificates of the chain that a list has to cover.
    ///   - requireStaple: whether the server has to staple an OCSP response that says its certificate is good.
    ///   - performDefaultValidation: has to be `true`. A list is meaningful only below a trusted CA, so that `false`
    ///     has no safe meaning and is thrown as a contradiction.
    ///   - validateHost: `false` skips the check of the name; the verdict is `unverified` then. Combine it with a
    ///     pinning evaluator.
    /// - Throws: every contradiction in the settings; neither lists nor a staple is one.
    public init(
        revocationLists: RevocationLists? = nil,
        scope: RevocationLists.Scope = .leaf,
        requireStaple: Bool = false,
        performDefaultValidation: Bool = true,
        validateHost: Bool = true
    ) throws(SecurityPolicy.Faults) {
        guard revocationLists != nil || requireStaple else {
            let fault = SecurityPolicy.Fault(
                key: "revocation",
                message: "neither lists nor a staple: nothing would tell of a revoked certificate",
                remedy: "give it revocation lists, or require a staple"
            )
            throw SecurityPolicy.Faults(faults: [fault])
        }
        var configuration = SecurityPolicy.Configuration()
        configuration.revocationLists = revocationLists
        configuration.revocationScope = scope
        configuration.requiresStaple = requireStaple
        configuration.allowInvalidCertificates = !performDefaultValidation
        configuration.validatesDomainName = validateHost
        policies = [try SecurityPolicy(configuration)]
    }
}

/// No check at all: every server passes, with the verdict `unverified`. For tests on closed networks only; for a
/// self-signed server pin its certificate instead.
public struct DisabledTrustEvaluator: ServerTrustEvaluating {
    /// A list with one policy.
    public let policies: [SecurityPolicy]

    /// An evaluator that accepts every server.
    public init() {
        var configuration = SecurityPolicy.Configuration()
        configuration.allowInvalidCertificates = true
        configuration.validatesDomainName = false
        policies = SecurityPolicy.list(configuration)
    }
}

extension SecurityPolicy {
    /// The policy of settings that do not contradict each other. If they did, the list would be empty, and an
    /// evaluator without policies refuses.
    fileprivate static func list(_ configuration: Configuration) -> [SecurityPolicy] {
        do {
            return [try SecurityPolicy(configuration)]
        } catch {
            return []
        }
    }
}
