// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A public CA of the table that this program keeps: its root set, which outlasts leaf keys and intermediates.
///
/// CAs change intermediates without notice, and operators change CAs; a CA's roots stay for years. A root's key is in
/// the table only with a source and the date on which it was compared with it.
package enum PublicAuthority: String, Sendable, CaseIterable {
    case letsencrypt
    case google
    case amazon
    case digicert
    case sectigo
    case globalsign
    case microsoft

    /// A CA certificate of the table.
    package struct Root: Hashable, Sendable {
        /// Where its key stands among the trust stores.
        package enum State: String, Sendable {
            /// In the stores; its key is pinned by the set.
            case trusted
            /// Not in the stores yet: a chain gets to it by the signature of an older root. Pinned by the set.
            case new
            /// On its way out of the stores; not pinned by the set.
            case retired
            /// Its key has not been compared with a source: it is not in the table, and is not pinned.
            case unverified
        }

        package let name: String
        /// Nil where it is not verified.
        package let pin: PublicKeyPin?
        /// The first and the last day of its self-signed certificate (of an intermediate: of its certificate).
        package let firstDay: CalendarDate?
        package let lastDay: CalendarDate?
        package let state: State
        /// Where the key is from; for one that is not verified, why not.
        package let source: String

        /// The key of the set: nil for one that is retired or not verified.
        package var pinOfSet: PublicKeyPin? { state == .trusted || state == .new ? pin : nil }

        /// Whether it is near its end at that time (seconds since 1970), or has ended: less than a tenth of its lifetime
        /// is left, two years of twenty, in which pin files and stores everywhere have to change.
        package func endsSoon(at now: Int64) -> Bool {
            guard let firstDay, let lastDay else { return false }
            return lastDay.end.subtractingSaturated(now) < (lastDay.end - firstDay.end) / 10
        }
    }

    /// The name of the CA, for people.
    package var title: String {
        switch self {
        case .letsencrypt: "Let's Encrypt"
        case .google: "Google Trust Services"
        case .amazon: "Amazon Trust Services"
        case .digicert: "DigiCert"
        case .sectigo: "Sectigo"
        case .globalsign: "GlobalSign"
        case .microsoft: "Microsoft"
        }
    }

    /// Whether its certificates name an OCSP responder, without which no server can staple.
    var hasOCSP: Bool { self != .letsencrypt }

    /// The pins of its set, all of scope `ca`.
    package var pins: [Pin] {
        roots.compactMap { root in
            root.pinOfSet.map { Pin($0, scope: .ca, comment: "\(root.name), of the authority \(rawValue)") }
        }
    }

    /// The CAs whose whole set is among these pins.
    package static func sets(in pins: [Pin]) -> [PublicAuthority] {
        let keys = Set(pins.lazy.filter { $0.scope != .leaf }.map(\.key))
        return allCases.filter { $0.pins.allSatisfy { keys.contains($0.key) } }
    }

    /// The roots that are named in the table without a key.
    package var unverified: [Root] { roots.filter { $0.pin == nil } }

    /// The CA that a key is a root of, and the root.
    package static func root(_ key: PublicKeyPin) -> (authority: PublicAuthority, root: Root)? { rootsByKey[key] }

    /// The CA that a key is known to be an intermediate of.
    package static func intermediate(_ key: PublicKeyPin) -> (authority: PublicAuthority, root: Root)? {
        intermediatesByKey[key]
    }

    /// The CA whose set a validated chain passes by: that of the last certificate whose key is pinned by a set.
    ///
    /// - Parameter keys: of the chain, the server's own first.
    package init?(ofChain keys: [PublicKeyPin]) {
        for key in keys.dropFirst().reversed() {
            if let found = PublicAuthority.root(key), found.root.pinOfSet != nil {
                self = found.authority
                return
            }
        }
        return nil
    }

    private static let rootsByKey = index(\.roots)
    private static let intermediatesByKey = index(\.intermediates)

    private static func index(
        _ list: (PublicAuthority) -> [Root]
    ) -> [PublicKeyPin: (authority: PublicAuthority, root: Root)] {
        var index: [PublicKeyPin: (authority: PublicAuthority, root: Root)] = [:]
        for authority in allCases {
            for root in list(authority) { if let pin = root.pin { index[pin] = (authority, root) } }
        }
        return index
    }
}
