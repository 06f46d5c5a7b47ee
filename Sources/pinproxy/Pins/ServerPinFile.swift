// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

/// A pin file for one host, made from a valid chain.
struct ServerPinFile {
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
        place: PinChoice.Place,
        anchorFile: String?,
        newKey: (pin: PublicKeyPin, file: String)?
    ) throws(CommandFailure) {
        guard let choice = PinChoice(chain, place) else {
            throw CommandFailure(
                .failed,
                "the chain of \(server) has \(chain.count == 1 ? "1 certificate" : "\(chain.count) certificates") "
                    + "and no \(place.rawValue)",
                remedy: PinChoice.places(of: chain).map { "--pin \($0.rawValue)" }.joined(separator: " or ")
            )
        }
        // A key in reserve takes the place of the CA: then nothing but the server's own keys passes.
        let authority = newKey == nil || choice.pinned == nil ? choice.authority : nil
        let backup = newKey == nil ? choice.backup : nil
        let pins = [
            choice.pinned.map {
                Pin($0.publicKeyPin, scope: place == .leaf ? .leaf : .ca, comment: Self.comment($0))
            },
            newKey.map {
                Pin($0.pin, scope: .leaf, isBackup: true, comment: "a spare key of \(Self.today), not in use yet")
            },
            backup.map { Pin($0.publicKeyPin, scope: .ca, isBackup: true, comment: Self.comment($0)) },
        ]
        draft = PinFileDraft(
            domains: [
                PinFileDraft.Domain(
                    host: server.host,
                    ports: [server.port],
                    pins: pins.compactMap { $0 },
                    authorities: authority.map { [$0] } ?? [],
                    anchorFiles: anchorFile.map { [$0] } ?? []
                )
            ]
        )
        explanation = [
            choice.pinned.map { Self.explain(place, $0) } ?? "",
            authority.map { Self.explain($0, place) } ?? "",
            authority == nil || newKey != nil ? Self.explainBackup(newKey, backup) : "",
            """
            These are the keys that this connection showed: have the server's operator confirm them before you rely on \
            them.
            """,
        ]
        .filter { !$0.isEmpty }
        .flatMap { TextLayout.lines($0, width: TextLayout.width) }
        .map { $0 + "\n" }
        .joined()
    }

    var text: String { draft.text }

    private static var today: String { Certificate.day(Clock.seconds) }

    private static func comment(_ certificate: Certificate) -> String {
        "\(certificate.subject), \(certificate.keyDescription), until \(certificate.lastDay), seen \(today)"
    }

    private static func explain(_ place: PinChoice.Place, _ certificate: Certificate) -> String {
        switch place {
        case .leaf: "Pinned is the key of the server."
        case .intermediate, .root:
            """
            Pinned is the key of "\(certificate.subject)": every server whose certificate it has signed, for this \
            name, passes.
            """
        }
    }

    /// A public CA of the table: what a pin of each certificate is worth.
    private static func explain(_ authority: PublicAuthority, _ place: PinChoice.Place) -> String {
        """
        \(place == .root ? "Pinned are" : "Pinned with it are") the roots of \(authority.title) ("authorities"; pinproxy \
        pins authorities \(authority.rawValue) lists them). The server's own key is narrow, and breaks at each renewal \
        with a new key; an intermediate's breaks without notice and is better not pinned; the root set is wide (each \
        certificate of \(authority.title) for this name passes), and lasts.
        """
    }

    private static func explainBackup(_ newKey: (pin: PublicKeyPin, file: String)?, _ authority: Certificate?) -> String
    {
        if let newKey {
            return """
                The backup is a new key in \(Arguments.shown(path: newKey.file)) (EC P-256, PKCS #8, for its owner's eyes \
                alone): keep it away from the server until the server needs it. What comes then is in \
                docs/pin-rotation.md.
                """
        }
        if let authority {
            return """
                The backup is the key of "\(authority.subject)", the root of this chain: a new key passes when an \
                authority below it has signed it. Of a private CA that is the right one, since its operator decides what \
                is signed there, and may change what is in between. To hold the server to keys of its own, put the pin \
                of the next key in its place (--new-backup-key FILE, or pinproxy pins from NEXT.key).
                """
        }
        return """
            It is pinned alone ("allowSinglePin"): when it changes, every request fails. Add the pin of the next key \
            (--new-backup-key FILE, or pinproxy pins from NEXT.key).
            """
    }
}
