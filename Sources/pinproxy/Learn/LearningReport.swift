// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

/// The evidence for a proposal: for people, or one JSON object for each server.
struct LearningReport {
    var seen: SeenServers
    var lines: LogLines
    var style: TerminalStyle

    private var servers: [SeenServers.Server] { seen.servers }

    // MARK: For people

    /// The amount of the log that was read, and the unreadable parts.
    var summary: String {
        var text = "read \(lines.count) lines: \(seen.tasks) requests, \(seen.pinnedTasks) of them to pinned hosts\n"
        let troubles = [
            (seen.notJSON, "are not JSON"), (seen.foreign, "are no lines of a task log"),
            (lines.tooLong, "are longer than \(LogLines.bound >> 20) MB"),
            (seen.surplus, "name more hosts than can be told apart here (\(SeenServers.bound))"),
        ]
        for (count, what) in troubles where count > 0 {
            text += style("\(count) of the lines \(what): left out", .yellow) + "\n"
        }
        if !seen.plainHosts.isEmpty {
            let names = seen.plainHosts.keys.map(\.description).sorted()
            let more = names.count > 12 ? " and \(names.count - 12) more" : ""
            text += paragraph(
                "asked without TLS, so that there was no key to see: "
                    + names.prefix(12).joined(separator: ", ") + more
            )
        }
        return text
    }

    var text: String { summary + "\n" + servers.map(entry).joined() }

    private func entry(_ server: SeenServers.Server) -> String {
        let requests = server.requests == 1 ? "1 request" : "\(server.requests) requests"
        let ports = server.ports.sorted().map(String.init).joined(separator: ", ")
        var text = style("\(server.host)", .bold) + (ports.isEmpty ? "" : " on port \(ports)") + ": \(requests)\n"
        if server.connections.count == 0 {
            text +=
                style("  not proposed: no new connection in the log whose chain and host were valid", .yellow) + "\n"
        } else {
            let own = PinProposal.keys(of: server)
            text += own.map { "  \($0.pin)  the server's own, \($0.seen)\n" }.joined()
            text += PinProposal.authorities(of: server)
                .map { "  its authority is \($0.title): the root set \"\($0.rawValue)\"\n" }.joined()
            text += PinProposal.authorityKeys(of: server)
                .map { "  \($0.pin)  its authority's, \($0.seen)\n" }.joined()
            let left = server.keys.keys.count - own.count
            if left > 0 || server.keys.surplus > 0 {
                text +=
                    style(
                        "  it shows many keys: \(server.keys.surplus > 0 ? "more than " : "")\(left) not proposed",
                        .yellow
                    )
                    + "\n"
            } else if own.count > 1 {
                text +=
                    style("  more than one key: a rotation, several machines, or somebody in between", .yellow) + "\n"
            }
        }
        for (code, count) in server.failures.sorted(by: { $0.key < $1.key }) {
            text += style("  \(count == 1 ? "1 request" : "\(count) requests") refused or failed: \(code)", .red) + "\n"
        }
        return text
    }

    /// The recommended steps for using the proposal.
    var advice: String {
        paragraph(
            """
            Nothing is pinned by this. These are the keys that this machine saw: compare them with what the servers' \
            operators say, or with pinproxy pins show HOST from another network. The authorities' keys stand in as \
            backups; put the pins of keys of your own in their place where you run the server (pinproxy pins from \
            NEXT.key). Then put the file into the folder that "pins" names, and try it: pinproxy check, pinproxy pins \
            verify.
            """
        )
    }

    private func paragraph(_ text: String) -> String {
        TextLayout.lines(text, width: TextLayout.width).map { $0 + "\n" }.joined()
    }

    // MARK: For programs

    var jsonLines: String { servers.map(jsonLine).joined() }

    private func jsonLine(_ server: SeenServers.Server) -> String {
        var line = JSONLine()
        line.add("host", server.host.description)
        line.add("ports", array: server.ports.sorted().map(String.init))
        line.add("proposed", server.connections.count > 0)
        line.add("requests", server.requests)
        add(server.connections, to: &line)
        let own = Set(PinProposal.keys(of: server).map(\.pin))
        let authorities = Set(PinProposal.authorityKeys(of: server).map(\.pin))
        line.add(
            "keys",
            array: server.keys.latest.map { key($0, "server", isProposed: own.contains($0.pin)) }
                + server.authorityKeys.latest.map { key($0, "authority", isProposed: authorities.contains($0.pin)) }
        )
        if !server.authorities.isEmpty {
            line.add("authorities", strings: PinProposal.authorities(of: server).map(\.rawValue))
        }
        var failures = JSONLine()
        for (code, count) in server.failures.sorted(by: { $0.key < $1.key }) { failures.add(code, count) }
        line.add("failures", failures)
        return line.text
    }

    private func key(_ key: SeenServers.Key, _ role: String, isProposed: Bool) -> String {
        var line = JSONLine()
        line.add("pin", key.pin.description)
        line.add("of", role)
        line.add("proposed", isProposed)
        add(key.seen, to: &line)
        return line.object
    }

    private func add(_ seen: SeenServers.Sightings, to line: inout JSONLine) {
        line.add("connections", seen.count)
        guard seen.count > 0 else { return }
        line.add("firstSeen", seen.first)
        line.add("lastSeen", seen.last)
    }
}
