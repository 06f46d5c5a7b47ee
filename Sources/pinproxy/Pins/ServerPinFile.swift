import HTTPCore
import IOCore
import ServerTrust

/// A pin file for one host, made from a valid chain.
struct ServerPinFile {
    /// The certificate whose key is pinned.
    enum Place: String, CaseIterable {
        case leaf
        /// The authority that issued the server's certificate, below the root.
        case intermediate
        case root
    }

    private let draft: PinFileDraft
    /// A description of the pins and their meaning, for the standard error.
    let explanation: String

    /// - Parameters:
    ///   - chain: the validated chain, the server's certificate first.
    ///   - anchorFile: the absolute path of anchors that the system does not have.
    ///   - newKey: the pin of a new key, and its file.
    /// - Throws: when the chain has no certificate at that place.
    init(
        server: ServerAddress,
        chain: [Certificate],
        place: Place,
        anchorFile: String?,
        newKey: (pin: PublicKeyPin, file: String)?
    ) throws(CommandFailure) {
        guard let pinned = Self.certificate(at: place, of: chain) else {
            let others = Place.allCases.filter { Self.certificate(at: $0, of: chain) != nil }
            throw CommandFailure(
                .failed,
                "the chain of \(server) has \(chain.count == 1 ? "1 certificate" : "\(chain.count) certificates") "
                    + "and no \(place.rawValue)",
                remedy: others.map { "--pin \($0.rawValue)" }.joined(separator: " or ")
            )
        }
        let pin = Pin(pinned.publicKeyPin, scope: place == .leaf ? .leaf : .ca, comment: Self.comment(pinned))
        let authority = Self.backup(for: place, of: chain).flatMap {
            $0.publicKeyPin == pin.key ? nil : $0
        }
        let backup =
            newKey.map {
                Pin($0.pin, scope: .leaf, isBackup: true, comment: "a spare key of \(Self.today), not in use yet")
            }
            ?? authority.map { Pin($0.publicKeyPin, scope: .ca, isBackup: true, comment: Self.comment($0)) }
        draft = PinFileDraft(
            domains: [
                PinFileDraft.Domain(
                    host: server.host,
                    ports: [server.port],
                    pins: [pin] + (backup.map { [$0] } ?? []),
                    anchorFiles: anchorFile.map { [$0] } ?? []
                )
            ]
        )
        explanation = [
            Self.explain(place, pinned), Self.explainBackup(newKey, authority),
            """
            These are the keys that this connection showed: have the server's operator confirm them before you rely on \
            them.
            """,
        ]
        .flatMap { TextLayout.lines($0, width: TextLayout.width) }
        .map { $0 + "\n" }
        .joined()
    }

    var text: String { draft.text }

    private static func certificate(at place: Place, of chain: [Certificate]) -> Certificate? {
        switch place {
        case .leaf: chain[0]
        case .intermediate: chain.count > 2 ? chain[1] : nil
        case .root: chain.count > 1 ? chain[chain.count - 1] : nil
        }
    }

    /// The backup key for the pinned one: the key of the next certificate up.
    private static func backup(for place: Place, of chain: [Certificate]) -> Certificate? {
        switch place {
        case .leaf: chain.count > 1 ? chain[1] : nil
        case .intermediate: chain[chain.count - 1]
        case .root: nil
        }
    }

    private static var today: String { Certificate.day(Clock.realtime / 1_000_000) }

    private static func comment(_ certificate: Certificate) -> String {
        "\(certificate.subject), \(certificate.keyDescription), until \(certificate.lastDay), seen \(today)"
    }

    private static func explain(_ place: Place, _ certificate: Certificate) -> String {
        switch place {
        case .leaf: "Pinned is the key of the server."
        case .intermediate, .root:
            """
            Pinned is the key of "\(certificate.subject)": every server whose certificate it has signed, for this \
            name, passes.
            """
        }
    }

    private static func explainBackup(_ newKey: (pin: PublicKeyPin, file: String)?, _ authority: Certificate?) -> String
    {
        if let newKey {
            return """
                The backup is a new key in \(Arguments.shown(newKey.file)) (EC P-256, PKCS #8, for its owner's eyes \
                alone): keep it away from the server until the server needs it. What comes then is in \
                docs/pin-rotation.md.
                """
        }
        if let authority {
            return """
                The backup is the key of "\(authority.subject)": a new key passes when that authority has signed it. \
                To hold the server to keys of its own, put the pin of the next key in its place (--new-backup-key \
                FILE, or pinproxy pins from NEXT.key).
                """
        }
        return """
            It is pinned alone ("allowSinglePin"): when it changes, every request fails. Add the pin of the next key \
            (--new-backup-key FILE, or pinproxy pins from NEXT.key).
            """
    }
}
