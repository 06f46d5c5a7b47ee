// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON

/// A pin file proposed from a log.
struct PinProposal {
    /// The limit of proposed keys for one server: the latest are chosen.
    static let keys = 8
    static let authorityKeys = 2

    let servers: [SeenServers.Server]

    /// Servers with a new connection in the log whose chain and host were valid.
    var proposed: [SeenServers.Server] { servers.filter { $0.connections.count > 0 } }

    static func keys(of server: SeenServers.Server) -> [SeenServers.Key] {
        Array(server.keys.latest.prefix(keys))
    }

    static func authorities(of server: SeenServers.Server) -> [PublicAuthority] {
        server.authorities.sorted { $0.rawValue < $1.rawValue }
    }

    static func authorityKeys(of server: SeenServers.Server) -> [SeenServers.Key] {
        Array(server.authorityKeys.latest.prefix(authorityKeys))
    }

    /// The pin file. A defect of this program must not become the user's problem: it can be loaded.
    var text: String {
        get throws(CommandFailure) {
            let text = draft.text
            do throws(DocumentIssues) {
                _ = try PinFile.load(text: text, file: "proposal", at: Clock.seconds)
            } catch {
                Output.error(error.issues.map { "\($0)\n" }.joined())
                throw CommandFailure(.internal, "the proposal does not load")
            }
            return text
        }
    }

    /// The servers' own keys, with the root sets of public CAs, and the keys of other issuing authorities as backups.
    private var draft: PinFileDraft {
        PinFileDraft(
            domains: proposed.map { server in
                let own = Self.keys(of: server)
                let authorities = Self.authorityKeys(of: server).filter { key in !own.contains { $0.pin == key.pin } }
                return PinFileDraft.Domain(
                    host: server.host,
                    ports: server.ports.sorted(),
                    comment: "learned from a log, confirmed by nobody yet: \(server.connections)",
                    pins: own.map { Pin($0.pin, scope: .leaf, comment: "the server's key, \($0.seen)") }
                        + authorities.map {
                            Pin($0.pin, scope: .ca, isBackup: true, comment: "its authority's key, \($0.seen)")
                        },
                    authorities: Self.authorities(of: server)
                )
            }
        )
    }
}

extension SeenServers.Sightings: CustomStringConvertible {
    /// `12 connections, 2026-11-01 to 2026-11-21`
    var description: String {
        let days =
            first.prefix(10) == last.prefix(10) ? "on \(first.prefix(10))" : "\(first.prefix(10)) to \(last.prefix(10))"
        return "\(count == 1 ? "1 connection" : "\(count) connections"), \(days)"
    }
}
