/// Chain and host checks, without pins: mode `none`.
public struct DefaultTrustEvaluator: ServerTrustEvaluating {
    public let policies: [SecurityPolicy]

    /// - Parameter validateHost: `false` waives the name: any server with a valid chain passes, whoever it is, with the
    ///   verdict `unverified`.
    public init(validateHost: Bool = true) {
        var configuration = SecurityPolicy.Configuration()
        configuration.validatesDomainName = validateHost
        policies = SecurityPolicy.list(configuration)
    }
}

/// Chain and host checks, and revocation by lists (CRLs) that the program holds. Nothing is fetched, and there is no
/// OCSP: a certificate that no current list covers is refused.
public struct RevocationTrustEvaluator: ServerTrustEvaluating {
    public let policies: [SecurityPolicy]

    /// - Parameters:
    ///   - revocationLists: the lists; they take the place of Alamofire's `options`.
    ///   - scope: which certificates of the chain a list has to cover.
    ///   - performDefaultValidation: has to be `true`. A list says something about a certificate only below a CA that
    ///     is trusted, so `false` has no safe meaning and is thrown as a contradiction.
    ///   - validateHost: `false` waives the name; the verdict is `unverified` then. Put a pinning evaluator beside it.
    /// - Throws: every contradiction in the settings.
    public init(
        revocationLists: RevocationLists,
        scope: RevocationLists.Scope = .leaf,
        performDefaultValidation: Bool = true,
        validateHost: Bool = true
    ) throws(SecurityPolicy.Faults) {
        var configuration = SecurityPolicy.Configuration()
        configuration.revocationLists = revocationLists
        configuration.revocationScope = scope
        configuration.allowInvalidCertificates = !performDefaultValidation
        configuration.validatesDomainName = validateHost
        policies = [try SecurityPolicy(configuration)]
    }
}

/// No check at all: every server passes, with the verdict `unverified`. For tests on closed networks only; for a
/// self-signed server pin its certificate instead.
public struct DisabledTrustEvaluator: ServerTrustEvaluating {
    public let policies: [SecurityPolicy]

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
