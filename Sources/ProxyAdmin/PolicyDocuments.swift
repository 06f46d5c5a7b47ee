// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import StrictJSON

/// The documents of the admin listener about the policy in force.
enum PolicyDocuments {
    /// `/policy`: the domains of the pin files, with what their handshakes have shown.
    ///
    /// - Parameters:
    ///   - since: only domains with a handshake, or a request without a connection, from then on, in seconds since 1970;
    ///     nil for all.
    ///   - now: seconds since 1970.
    static func policy(
        _ status: ServerStatus.Values,
        _ verdicts: [PinUsage.Verdicts],
        credentials: [CredentialFigures] = [],
        since: Int64? = nil,
        at now: Int64
    ) -> String {
        let snapshot = status.snapshot
        let seen = Dictionary(verdicts.map { ($0.domain, $0) }) { first, _ in first }
        var line = JSONLine()
        line.add("generation", snapshot.generation)
        line.add("loaded", Timestamp.text(unixSeconds: status.reloads.lastLoad))
        if let files = status.files { line.add("files", files.json) }
        line.add("unpinnedHosts", snapshot.configuration.unpinnedHosts.rawValue)
        if let rules = snapshot.requests { line.add("requests", requests(rules)) }
        if !credentials.isEmpty { line.add("credentials", array: credentials.map { credential($0).object }) }
        let domains = snapshot.pinnedDomains.domains.filter { domain in
            guard let since else { return true }
            let verdicts = seen[domain.host]
            return max(verdicts?.last?.time ?? .min, verdicts?.failures.lastUnconnected?.time ?? .min) >= since
        }
        line.add("domains", array: domains.map { domain($0, seen[$0.host], at: now).object })
        return line.text
    }

    /// The rules about requests, with how often each has decided.
    private static func requests(_ rules: RequestRules) -> JSONLine {
        var line = JSONLine()
        line.add("policy", rules.configuration.policy.rawValue)
        let tallies = rules.tallies
        line.add(
            "rules",
            array: zip(rules.configuration.rules, tallies).map { rule, tally in
                var line = JSONLine()
                line.add("rule", rule.id)
                line.add("then", rule.action.rawValue)
                line.add("text", rule.conditions)
                line.add("matches", tally.count)
                return line.object
            }
        )
        line.add("unmatched", tallies.last?.count ?? 0)
        return line
    }

    private static func credential(_ figures: CredentialFigures) -> JSONLine {
        var line = JSONLine()
        line.add("credential", figures.name)
        line.add("hasValue", figures.hasValue)
        if let end = figures.end { line.add("expires", Timestamp.text(unixSeconds: end)) }
        if let time = figures.renewedAt { line.add("renewed", Timestamp.text(unixSeconds: time)) }
        if let fault = figures.fault { line.add("failure", fault.message) }
        return line
    }

    private static func domain(
        _ domain: PinnedDomains.Domain,
        _ seen: PinUsage.Verdicts?,
        at now: Int64
    ) -> JSONLine {
        var line = JSONLine()
        line.add("domain", domain.host.description)
        line.add("file", domain.file)
        line.add("includeSubdomains", domain.includeSubdomains)
        if let ports = domain.ports { line.add("ports", array: ports.map(String.init)) }
        guard let policy = domain.policy?.configuration else {
            line.add("excludedFromParentPolicy", true)
            return line
        }
        line.add("mode", policy.pinningMode.rawValue)
        line.add("enforcePinning", policy.enforcePinning)
        if policy.allowInvalidCertificates { line.add("allowInvalidCertificates", true) }
        if !policy.validatesDomainName { line.add("validatesDomainName", false) }
        line.add("pins", array: pins(policy, seen).map(\.object))
        line.add("pinnedCertificates", policy.pinnedCertificates.count)
        line.add("forbiddenPins", policy.forbiddenPins.count)
        if policy.hasRevocationLists || policy.requiresStaple {
            var revocation = JSONLine()
            revocation.add("fetch", policy.fetchesRevocationLists)
            revocation.add("crlFiles", policy.revocationLists?.count ?? 0)
            revocation.add("crlScope", policy.revocationScope.rawValue)
            revocation.add("requireStaple", policy.requiresStaple)
            line.add("revocation", revocation)
        }
        if let expiration = policy.expiration {
            line.add("expiration", expiration.description)
            line.add("expiresInDays", days(until: expiration.end, at: now))
            line.add("onExpiration", policy.onExpiration.rawValue)
        }
        guard let seen else { return line }
        var counts = JSONLine()
        for (verdict, count) in zip(TrustEvaluation.Verdict.allCases, seen.counts) where count > 0 {
            counts.add(verdict.rawValue, count)
        }
        line.add("handshakes", counts)
        if let last = seen.last { line.add("lastHandshake", handshake(last, policy, at: now)) }
        if let last = seen.failures.lastUnconnected {
            var failure = JSONLine()
            failure.add("time", Timestamp.text(unixSeconds: last.time))
            failure.add("error", last.error.rawValue)
            line.add("lastConnectFailure", failure)
        }
        return line
    }

    private static func pins(_ policy: SecurityPolicy.Configuration, _ seen: PinUsage.Verdicts?) -> [JSONLine] {
        policy.pins.map { pin in
            var line = JSONLine()
            line.add("pin", pin.key.description)
            line.add("scope", pin.scope.rawValue)
            line.add("backup", pin.isBackup)
            if !pin.comment.isEmpty { line.add("comment", pin.comment) }
            line.add("matched", seen?.matched[pin.key] ?? 0)
            return line
        }
            + policy.pinnedCertificates.map { certificate in
                var line = JSONLine()
                line.add("pin", certificate.publicKeyPin.description)
                line.add("certificate", certificate.subject)
                line.add("matched", seen?.matched[certificate.publicKeyPin] ?? 0)
                return line
            }
    }

    private static func handshake(
        _ last: LastHandshake,
        _ policy: SecurityPolicy.Configuration,
        at now: Int64
    ) -> JSONLine {
        let expected = Set(policy.pins.map(\.key)).union(policy.pinnedCertificates.map(\.publicKeyPin))
        var line = JSONLine()
        line.add("time", Timestamp.text(unixSeconds: last.time))
        line.add("host", last.host.description)
        line.add("verdict", last.verdict.rawValue)
        if let failure = last.failure { line.add("error", failure.rawValue) }
        if let end = last.certificateEnd { line.add("certificateExpiresInDays", days(until: end, at: now)) }
        if let left = last.certificateNotice?.share(at: now) { line.add("certificateLifetimeLeft", left.rawValue) }
        if last.hasUnreadableEnd { line.add("certificateEndUnreadable", true) }
        let keys = last.keys.map { key in
            var line = JSONLine()
            line.add("pin", key.pin.description)
            line.add("subject", key.subject)
            line.add("isPinned", expected.contains(key.pin))
            return line.object
        }
        line.add("keys", array: keys)
        return line
    }

    /// Whole days; 0 on the last one, negative afterwards.
    private static func days(until end: Int64, at now: Int64) -> Int {
        let seconds = Int(clamping: end.subtractingSaturated(now))
        return seconds > 0 ? seconds / 86_400 : seconds.subtractingSaturated(86_399) / 86_400
    }

    /// `/config`: the settings in force, as `pinproxy check` prints them. There is no secret among them: of fields and
    /// credentials only the names and the sources.
    static func configuration(_ snapshot: PolicySnapshot) -> String {
        var line = JSONLine()
        line.add("generation", snapshot.generation)
        line.add("sections", array: EffectivePolicy(snapshot).sections.map(\.json.object))
        return line.text
    }

    /// `/reloads`: the last loads of the files, the latest first.
    static func reloads(_ status: ServerStatus.Values) -> String {
        var line = JSONLine()
        line.add("generation", status.snapshot.generation)
        line.add("restartNeeded", strings: status.reloads.restartNeeds.map(\.rawValue))
        line.add("loads", array: status.reloads.history.reversed().map(\.json.object))
        return line.text
    }
}

extension ReloadRecord {
    /// The object in responses of the admin listener.
    var json: JSONLine {
        var line = JSONLine()
        line.add("time", Timestamp.text(unixSeconds: time))
        line.add("trigger", trigger)
        line.add("applied", isApplied)
        line.add("generation", generation)
        line.add("errors", array: issues.map { JSONLine($0).object })
        line.add("warnings", array: warnings.map { JSONLine($0).object })
        return line
    }
}

extension PolicyFiles {
    fileprivate var json: JSONLine {
        var line = JSONLine()
        line.add("current", isCurrent)
        line.add("inForce", Self.json(inForce, time: "loaded"))
        line.add("onDisk", Self.json(onDisk, time: "seen"))
        return line
    }

    private static func json(_ reading: Reading, time: String) -> JSONLine {
        var line = JSONLine()
        line.add("digest", reading.digest)
        line.add(time, Timestamp.text(unixSeconds: reading.time))
        return line
    }
}
