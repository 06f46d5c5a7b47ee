// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// One worker's TLS contexts for intercepted hosts: each has a certificate that the local CA signs when it is first
/// needed, and again before it expires.
final class LeafContexts {
    /// The reason why a host has no certificate.
    struct Refusal: Error {
        var reason: String
        var remedy = "Make one that takes the host in (pinproxy ca init)."
    }

    private struct Entry {
        var context: TLSServerContext
        /// Seconds since 1970.
        var until: Int64
    }

    /// The certificate's validity begins in the past, because clocks differ.
    private static let backdating: Int64 = 3600
    /// Together with the backdating less than seven days: longer certificates do not count as short-lived.
    private static let lifetime: Int64 = 6 * 86_400
    /// The least validity that is left when a client begins to use a certificate.
    private static let margin: Int64 = 86_400
    private static let bound = 1024

    private let authority: LocalAuthority
    private var entries: [Host: Entry] = [:]

    init(_ authority: LocalAuthority) { self.authority = authority }

    /// - Parameter now: seconds since 1970.
    func context(for host: Host, at now: Int64) throws(Refusal) -> TLSServerContext {
        if let entry = entries[host], now < entry.until - Self.margin { return entry.context }
        guard authority.isMade(for: host) else {
            throw Refusal(
                reason: "it was made when exec began, for the hosts that the rules of requests let through then",
                remedy: "Start exec anew."
            )
        }
        do throws(OpenSSLError) {
            if let objection = try authority.objection(to: host, at: now) {
                throw OpenSSLError(draining: objection)
            }
            // The authority ends in the future, or it would have objected. `max` keeps the range valid whatever it says.
            let until = max(now, min(now + Self.lifetime, authority.certificate.notAfter ?? .min))
            let leaf = try authority.leaf(
                for: host,
                key: authority.leafKey,
                validity: (now - Self.backdating)..<until
            )
            var settings = TLSServerContext.Settings()
            settings.host = host
            settings.applicationProtocols.insert("h2", at: 0)
            let context = try TLSServerContext(ServerIdentity(leaf), settings)
            // Clients choose the names, so the table is bounded.
            if entries.count >= Self.bound { entries = [:] }
            entries[host] = Entry(context: context, until: until)
            return context
        } catch {
            throw Refusal(reason: error.description)
        }
    }
}
