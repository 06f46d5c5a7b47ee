// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

/// Decides when a warning about a domain's pins is due again. A value without a clock: times are milliseconds that only
/// grow.
struct PinNotices: Sendable {
    enum Subject: Hashable, Sendable {
        /// Only a backup pin has matched.
        case backupOnly
        /// A certificate has less than this share of its lifetime left.
        case certificateExpiry(CertificateNotice.Share)
    }

    private struct Key: Hashable, Sendable {
        var subject: Subject
        var domain: Host
    }

    static let hour: Int64 = 3600 * 1000
    static let day = 24 * hour

    private var noticedAt: [Key: Int64] = [:]

    /// Whether a warning is due now; a due warning is remembered.
    mutating func isDue(_ subject: Subject, of domain: Host, now: Int64) -> Bool {
        let key = Key(subject: subject, domain: domain)
        let pause = subject == .backupOnly ? Self.hour : Self.day
        if let last = noticedAt[key], now - last < pause { return false }
        noticedAt[key] = now
        return true
    }

    /// Forgets domains that are no longer pinned.
    mutating func keepOnly(_ domains: PinnedDomains) {
        let hosts = Set(domains.domains.map(\.host))
        noticedAt = noticedAt.filter { hosts.contains($0.key.domain) }
    }
}

/// The event lines about pins.
enum PinEvents {
    static func backupOnly(_ domain: Host, _ pin: PublicKeyPin) -> EventLine {
        EventLine(event: "warning")
            .with("code", "pin_backup_only")
            .with("domain", domain.description)
            .with("pin", pin.description)
            .with("message", "\(domain) matches only through its backup pin: make it a main pin, and add a new backup")
    }

    static func certificateExpiry(_ domain: Host, _ expiry: Expiry) -> EventLine {
        EventLine(event: "warning")
            .with("code", "certificate_expiry")
            .with("domain", domain.description)
            .with("notAfter", Timestamp.text(unixSeconds: expiry.end))
            .with("expiresInDays", expiry.days)
            .with("lifetimeLeft", expiry.share?.rawValue ?? "")
            .with(
                "message",
                "a certificate of \(domain) ends soon, \(expiry.share?.words ?? ""): see to its renewal, and to the pins "
                    + "if its key changes"
            )
    }

    /// One line for each pin set that expires soon.
    static func pinSets(_ domains: PinnedDomains, at date: Int64) -> [EventLine] {
        domains.domains.compactMap { domain in
            guard let policy = domain.policy, let expiry = policy.pinSetExpiry(at: date),
                let day = policy.configuration.expiration
            else { return nil }
            let effect = policy.configuration.onExpiration == .deny ? "every request is refused" : "no pin is looked at"
            return EventLine(event: "warning")
                .with("code", DocumentIssue.pinSetExpiry)
                .with("domain", domain.host.description)
                .with("expiration", day.description)
                .with("expiresInDays", expiry.days)
                .with("message", "the pin set of \(domain.host) holds until \(day); after that day \(effect)")
        }
    }

    static func account(_ account: PinUsage.Account) -> EventLine {
        var matched = JSONLine()
        for (pin, count) in account.matched { matched.add(pin.description, count) }
        return EventLine(event: "pins")
            .with("domain", account.domain.description)
            .with("handshakes", account.handshakes)
            .with("matched", matched)
            .with("neverMatched", strings: account.neverMatched.map(\.description))
    }

    static func losses(_ losses: [ReportLoss: Int]) -> EventLine {
        var line = EventLine(event: "reports_dropped").with("count", losses.values.reduce(0, +))
        for loss in ReportLoss.allCases { if let count = losses[loss] { line = line.with(loss.rawValue, count) } }
        return line
    }
}
