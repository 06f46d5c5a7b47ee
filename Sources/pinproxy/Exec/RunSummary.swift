// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyCore
import StrictJSON

/// What `exec --report` prints at the end of a run.
struct RunSummary {
    let content: RunRecord.Content
    /// Whether `unpinnedHosts` of the configuration is "deny".
    let deniesUnpinned: Bool
    /// Lines of the task log that the run has lost.
    let lost: Int
    let style: TerminalStyle

    /// As many rows of a table are printed.
    private static let rows = 50

    var text: String {
        let asked = content.asked
        guard asked.count > 0 || !content.objections.isEmpty else {
            return style("pinproxy: the program has asked for nothing", .bold) + "\n"
                + "A program that knows no proxy goes past it.\n"
        }
        var text = heading("pinproxy: \(Self.requests(asked.count)) of the program")
        text += table(asked.groups.map { ($0, "") })
        if content.surplus > 0 { text += "  \(content.surplus) more, to more hosts and paths than are told apart\n" }
        if lost > 0 { text += "  \(lost) lines of the task log were lost: there may have been more\n" }
        text += objections(.denied, "denied", .red)
        text += objections(.wouldBeDenied, "sent that would be denied", .yellow)
        text += objections(.failed, "failed", .red)
        return text + unpinned
    }

    private func heading(_ text: String, _ mark: TerminalStyle.Mark = .bold) -> String { style(text, mark) + "\n" }

    private static func requests(_ count: Int) -> String { count == 1 ? "1 request" : "\(count) requests" }

    // MARK: Requests

    private func table(_ rows: [(group: RequestGroups.Group, cause: String)]) -> String {
        let shown = rows.prefix(Self.rows)
        let widths = (
            count: shown.map { "\($0.group.count)".count }.max() ?? 0,
            method: min(shown.map { $0.group.method.count }.max() ?? 0, 16)
        )
        var text = ""
        for (group, cause) in shown {
            let count = "\(group.count)"
            let method = LegibleText.cut(group.method, at: 16).legible
            let place = LegibleText.cut(group.origin + group.path, at: 300).legible
            text += "  \(Self.spaces(widths.count - count.count))\(count)  \(method)"
            text +=
                "\(Self.spaces(widths.method - method.count))  \(place)\(cause.isEmpty ? "" : "  (\(cause.legible))")\n"
        }
        if rows.count > shown.count { text += "  and \(rows.count - shown.count) more of this kind\n" }
        return text
    }

    private static func spaces(_ count: Int) -> String { String(repeating: " ", count: max(0, count)) }

    private func objections(_ kind: RunRecord.Objection.Kind, _ title: String, _ mark: TerminalStyle.Mark) -> String {
        let objections = content.objections.filter { $0.key.kind == kind }
        let rows = objections.flatMap { objection, groups in groups.groups.map { (group: $0, cause: objection.cause) } }
            .sorted {
                ($1.group.count, $0.group.origin, $0.group.path) < ($0.group.count, $1.group.origin, $1.group.path)
            }
        guard !rows.isEmpty else { return "" }
        let count = objections.values.reduce(0) { $0 + $1.count }
        var text = heading("\(Self.requests(count)) \(title)", mark) + table(rows)
        // Rules explain themselves; what else there is has a remedy in its details.
        let details = objections.keys.filter { !$0.cause.contains(" ") }.sorted { $0.cause < $1.cause }
        for objection in details {
            guard let words = content.details[objection], !words.isEmpty else { continue }
            text += paragraph("\(objection.cause): \(LegibleText.cut(words, at: 400).legible)")
        }
        return text
    }

    private func paragraph(_ text: String) -> String {
        TextLayout.lines(text, width: TextLayout.width - 4).map { "    \($0)\n" }.joined()
    }

    // MARK: Hosts

    private var unpinned: String {
        let servers = content.servers.unpinned.sorted {
            ($1.requests, $0.host.description) < ($0.requests, $1.host.description)
        }
        let plain = content.servers.plainHosts.keys.map(\.description).sorted()
        let tunnels = content.tunnels.sorted()
        var text = ""
        if !servers.isEmpty {
            let denied = deniesUnpinned ? " (unpinnedHosts is \"deny\": refused without --report)" : ""
            text += heading(
                "\(servers.count == 1 ? "1 host" : "\(servers.count) hosts") without a pin\(denied)",
                .yellow
            )
            let lines = servers.prefix(Self.rows).map { server in
                (
                    command:
                        "pinproxy pins show --pin-file \(server.ports.sorted().first.map { Self.address(server.host, $0) } ?? "")",
                    requests: Self.requests(server.requests)
                )
            }
            let width = lines.map(\.command.count).max() ?? 0
            for line in lines {
                text += "  \(line.command)\(Self.spaces(width - line.command.count))  \(line.requests)\n"
            }
            if servers.count > lines.count { text += "  and \(servers.count - lines.count) more\n" }
        }
        text += list(tunnels, "in tunnels, whose servers only the program has judged (--intercept sees the requests)")
        return text + list(plain, "without TLS, so that there was no key to see")
    }

    private static func address(_ host: Host, _ port: UInt16) -> String {
        port == 443 ? host.description : "\(host.authorityText):\(port)"
    }

    private func list(_ names: [String], _ title: String) -> String {
        guard !names.isEmpty else { return "" }
        let more = names.count > 12 ? " and \(names.count - 12) more" : ""
        return heading(title, .yellow) + "  " + names.prefix(12).joined(separator: ", ").legible + more + "\n"
    }
}
