import HTTPCore
import IOCore
import ServerTrust

/// A pin file of one host, ready to load, from a chain that was found valid.
struct PinFileText {
    var server: ServerAddress
    /// Leaf first.
    var chain: [Certificate]
    /// Anchors that the system does not have: a file, by its whole path.
    var anchorFile: String?

    /// The certificate that signed the server's; none when the server's own certificate is the anchor.
    private var issuer: Certificate? {
        chain.dropFirst().first.flatMap { $0.publicKeyPin == chain[0].publicKeyPin ? nil : $0 }
    }

    var text: String {
        var members = ["\"pinningMode\": \"publicKey\""]
        if server.port != 443 { members.insert("\"ports\": [\(server.port)]", at: 0) }
        var pins = [pin(chain[0], "\"scope\": \"leaf\"")]
        if let issuer {
            pins.append(pin(issuer, "\"scope\": \"ca\", \"backup\": true"))
        } else {
            members.append("\"allowSinglePin\": true")
        }
        members.append("\"pins\": [\n        \(pins.joined(separator: ",\n        "))\n      ]")
        if let anchorFile {
            members.append("\"trustAnchors\": { \"system\": false, \"files\": [\(JSONString.quoted(anchorFile))] }")
        }
        return """
            {
              "version": 1,
              "pinnedDomains": {
                \(JSONString.quoted(server.host.description)): {
                  \(members.joined(separator: ",\n      "))
                }
              }
            }

            """
    }

    private func pin(_ certificate: Certificate, _ scope: String) -> String {
        let seen = Certificate.day(Clock.realtime / 1_000_000)
        let comment =
            "\(certificate.subject), \(certificate.keyDescription), until \(certificate.lastDay), seen \(seen)"
        return """
            { "spki-sha256": "\(certificate.publicKeyPin.base64)", \(scope),
                      "comment": \(JSONString.quoted(comment)) }
            """
    }

    /// What was pinned and what that means, for the standard error.
    var explanation: String {
        let what =
            issuer == nil
            ? """
            The key of the server is pinned, alone ("allowSinglePin"): when it changes, every request fails. Add the \
            pin of the next key as soon as there is one (pinproxy pins from NEXT.key).
            """
            : """
            Pinned are the key of the server and, as a backup, that of the CA that signed its certificate: a new key \
            passes when the same CA signs it. To hold the server to its own key, put the pin of the next key in the \
            place of the backup (pinproxy pins from NEXT.key).
            """
        let caution =
            "These are the keys that this connection showed: have the server's operator confirm them before you rely on them."
        return [what, caution]
            .flatMap { TextLayout.lines($0, width: TextLayout.width) }
            .map { $0 + "\n" }
            .joined()
    }
}
