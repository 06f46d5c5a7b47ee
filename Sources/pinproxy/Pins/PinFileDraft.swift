// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

/// The text of a proposed pin file: mode `publicKey`, ready to load.
struct PinFileDraft {
    struct Domain {
        var host: Host
        /// Written unless the only port is 443.
        var ports: [UInt16]
        var comment = ""
        /// With fewer than two distinct keys the file says `allowSinglePin`.
        var pins: [Pin]
        /// Public CAs whose root sets are pinned.
        var authorities: [PublicAuthority] = []
        /// Files of the only anchors, as absolute paths; empty for those of the configuration.
        var anchorFiles: [String] = []
    }

    var domains: [Domain]

    var text: String {
        """
        {
          \(FileSchema.pinFile.member),
          "version": 1,
          "pinnedDomains": {
        \(domains.map(Self.entry).joined(separator: ",\n"))
          }
        }

        """
    }

    private static func entry(_ domain: Domain) -> String {
        var members: [String] = []
        if !domain.comment.isEmpty { members.append("\"comment\": \(JSONString.quoted(domain.comment))") }
        if domain.ports != [443] {
            members.append("\"ports\": [\(domain.ports.map(String.init).joined(separator: ", "))]")
        }
        members.append("\"pinningMode\": \"publicKey\"")
        let keys = (domain.pins + domain.authorities.flatMap(\.pins)).map(\.key)
        if Set(keys).count < 2 { members.append("\"allowSinglePin\": true") }
        if !domain.pins.isEmpty {
            let pins = domain.pins.map(pin).joined(separator: ",\n        ")
            members.append("\"pins\": [\n        \(pins)\n      ]")
        }
        if !domain.authorities.isEmpty {
            let names = domain.authorities.map { JSONString.quoted($0.rawValue) }.joined(separator: ", ")
            members.append("\"authorities\": [\(names)]")
        }
        if !domain.anchorFiles.isEmpty {
            let files = domain.anchorFiles.map(JSONString.quoted).joined(separator: ", ")
            members.append("\"trustAnchors\": { \"system\": false, \"files\": [\(files)] }")
        }
        return """
                \(JSONString.quoted(domain.host.description)): {
                  \(members.joined(separator: ",\n      "))
                }
            """
    }

    private static func pin(_ pin: Pin) -> String {
        var members = ["\"spki-sha256\": \"\(pin.key.base64)\""]
        if pin.scope != .any { members.append("\"scope\": \"\(pin.scope.rawValue)\"") }
        if pin.isBackup { members.append("\"backup\": true") }
        let comment = pin.comment.isEmpty ? "" : ",\n          \"comment\": \(JSONString.quoted(pin.comment))"
        return "{ \(members.joined(separator: ", "))\(comment) }"
    }
}
