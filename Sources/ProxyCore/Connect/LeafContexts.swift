import HTTPCore
import ServerTrust

/// What one worker shows to its clients in the place of intercepted origins: a certificate for each host, signed by the local
/// CA when it is first needed, and again before it ends.
final class LeafContexts {
    /// Why there is none for a host.
    struct Refusal: Error {
        var reason: String
    }

    private struct Entry {
        var context: TLSServerContext
        /// Seconds since 1970.
        var until: Int64
    }

    /// Clocks differ: it begins a little in the past.
    private static let backdating: Int64 = 3600
    /// With the backdating less than the seven days after which a certificate counts as more than short-lived.
    private static let lifetime: Int64 = 6 * 86_400
    /// What is left of a certificate for a client that begins to use it now.
    private static let margin: Int64 = 86_400
    private static let bound = 1024

    private let authority: LocalAuthority
    private var entries: [Host: Entry] = [:]

    init(_ authority: LocalAuthority) { self.authority = authority }

    /// - Parameter now: seconds since 1970.
    func context(for host: Host, at now: Int64) throws(Refusal) -> TLSServerContext {
        if let entry = entries[host], now < entry.until - Self.margin { return entry.context }
        do throws(OpenSSLError) {
            if let objection = try authority.objection(to: host, at: now) {
                throw OpenSSLError(draining: objection)
            }
            let until = min(now + Self.lifetime, authority.certificate.notAfter)
            let leaf = try authority.leaf(
                for: host,
                key: authority.leafKey,
                validity: (now - Self.backdating)..<until
            )
            var settings = TLSServerContext.Settings()
            settings.host = host
            let context = try TLSServerContext(ServerIdentity(leaf), settings)
            // Clients choose the names.
            if entries.count >= Self.bound { entries = [:] }
            entries[host] = Entry(context: context, until: until)
            return context
        } catch {
            throw Refusal(reason: error.description)
        }
    }
}
