// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import StrictJSON

/// The errors and warnings of `check`, which looks further than a start does.
struct CheckFindings {
    private(set) var errors: [DocumentIssue]
    private(set) var warnings: [DocumentIssue]
    /// Nil for a configuration that no start takes.
    let snapshot: PolicySnapshot?

    /// - Parameters:
    ///   - path: the configuration's, for the places of warnings.
    ///   - expiredSetsAreErrors: whether a pin set that has ended and denies is an error. A start warns of it.
    init(_ outcome: ConfigurationLoader.Outcome, path: String, expiredSetsAreErrors: Bool) {
        snapshot = outcome.makeSnapshot()
        errors = outcome.issues
        warnings = outcome.warnings
        guard let snapshot else { return }
        if expiredSetsAreErrors {
            errors = Self.expiredSets(of: snapshot, outcome.warnings)
            warnings.removeAll { $0.code == DocumentIssue.pinSetExpired }
        }
        warnings +=
            PolicyAdvice.warnings(snapshot) + CredentialAdvice.warnings(snapshot, file: path)
            + PlaceholderAdvice.warnings(snapshot.configuration, file: path)
            + TraceAdvice.warnings(snapshot, file: path) + SharedCacheAdvice.warnings(snapshot, file: path)
    }

    /// The warnings of the load have their places. A load shows a limited number of warnings, and each of these counts.
    private static func expiredSets(of snapshot: PolicySnapshot, _ warnings: [DocumentIssue]) -> [DocumentIssue] {
        let shown = warnings.filter { $0.code == DocumentIssue.pinSetExpired }
        guard warnings.contains(where: { $0.others > 0 }) else { return shown }
        let now = Clock.seconds
        var list = IssueList()
        list.append(contentsOf: shown)
        for domain in snapshot.pinnedDomains.domains {
            guard let settings = domain.policy?.configuration, settings.onExpiration == .deny,
                let expiration = settings.expiration, expiration.end <= now
            else { continue }
            let pointer = JSONPointer.member(domain.host.description, of: "/pinnedDomains") + "/expiration"
            guard !shown.contains(where: { $0.file == domain.file && $0.pointer == pointer }) else { continue }
            list.append(
                DocumentIssue(
                    file: domain.file,
                    pointer: pointer,
                    message: "the pin set of \(domain.host) held until \(expiration): every request is refused",
                    remedy: "check the server's pins and renew the date"
                ),
                of: domain.file
            )
        }
        return list.elements
    }

    var json: JSONLine {
        var line = JSONLine()
        line.add("valid", errors.isEmpty)
        line.add("errors", array: errors.map { Self.json($0).object })
        line.add("warnings", array: warnings.map { Self.json($0).object })
        if let snapshot { line.add("policy", array: EffectivePolicy(snapshot).sections.map(\.json.object)) }
        return line
    }

    private static func json(_ issue: DocumentIssue) -> JSONLine {
        var line = JSONLine(issue)
        if let code = issue.code { line.add("code", code) }
        return line
    }
}
