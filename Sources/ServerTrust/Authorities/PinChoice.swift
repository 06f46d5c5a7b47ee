// SPDX-License-Identifier: Apache-2.0
/// Which keys of a server's validated chain to pin.
///
/// - A public CA of the table: the server's key and the CA's root set. Operators and CAs change intermediates without
///   notice, and with ACME most servers change their key at each renewal.
/// - Another CA: the server's key, and the root's as a backup. Who runs a private CA decides what is signed below its
///   root, and may change intermediates as well.
package struct PinChoice {
    /// The certificate whose key is pinned first.
    package enum Place: String, Sendable, CaseIterable {
        case leaf
        /// The authority that issued the server's certificate, below the root.
        case intermediate
        case root
    }

    /// The certificate whose key is pinned; nil for the root set alone.
    package let pinned: Certificate?
    /// The one whose key is the backup.
    package let backup: Certificate?
    /// The CA whose root set is pinned.
    package let authority: PublicAuthority?

    /// - Parameters:
    ///   - chain: the server's certificate first.
    ///   - place: of the certificate that is pinned.
    /// - Returns: nil when the chain has no certificate at that place.
    package init?(_ chain: [Certificate], _ place: Place) {
        guard let certificate = Self.certificate(at: place, of: chain) else { return nil }
        authority = PublicAuthority(ofChain: chain.map(\.publicKeyPin))
        pinned = place == .root && authority != nil ? nil : certificate
        let root = authority == nil && place != .root && chain.count > 1 ? chain.last : nil
        backup = root.flatMap { $0.publicKeyPin == certificate.publicKeyPin ? nil : $0 }
    }

    /// The places at which a chain has a certificate.
    package static func places(of chain: [Certificate]) -> [Place] {
        Place.allCases.filter { certificate(at: $0, of: chain) != nil }
    }

    private static func certificate(at place: Place, of chain: [Certificate]) -> Certificate? {
        switch place {
        case .leaf: chain.first
        case .intermediate: chain.count > 2 ? chain[1] : nil
        case .root: chain.count > 1 ? chain.last : nil
        }
    }
}
