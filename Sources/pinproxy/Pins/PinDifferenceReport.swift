// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// The domains with different policies in two sets of pin files, for people.
struct PinDifferenceReport {
    private struct Entry {
        /// `+`, `-` or `~`.
        var sign: Character
        var host: Host
        /// The policy of a parent domain on the other side.
        var note: String
        var changes: [PolicyComparison.Change]
    }

    private let entries: [Entry]
    private let style: TerminalStyle

    var isEmpty: Bool { entries.isEmpty }

    init(_ old: PinFileSet, _ new: PinFileSet, style: TerminalStyle) {
        self.style = style
        let hosts = Set(old.domains.map(\.host)).union(new.domains.map(\.host))
        entries = hosts.sorted { $0.description < $1.description }.compactMap { host in
            let before = old.governing(host)
            let after = new.governing(host)
            let changes = PolicyComparison(before, in: old, after, in: new).changes
            if old.entry(host) == nil {
                let note = before.map { ", held to the policy of \($0.host) so far" } ?? ""
                return Entry(sign: "+", host: host, note: note, changes: changes)
            }
            if new.entry(host) == nil {
                let note = after.map { ", held to the policy of \($0.host) from now on" } ?? ""
                return Entry(sign: "-", host: host, note: note, changes: changes)
            }
            return changes.isEmpty ? nil : Entry(sign: "~", host: host, note: "", changes: changes)
        }
    }

    var text: String {
        guard !isEmpty else { return "no difference\n" }
        func count(_ sign: Character) -> Int { entries.count { $0.sign == sign } }
        var text = entries.map(self.text).joined()
        text += "\n\(count("+")) added, \(count("-")) removed, \(count("~")) changed\n"
        let weaker = entries.reduce(0) { $0 + $1.changes.count { $0.isWeaker } }
        if weaker > 0 {
            let words = weaker == 1 ? "1 change WEAKENS" : "\(weaker) changes WEAKEN"
            text += style("\(words) what is asked of servers", .red) + "\n"
        }
        return text
    }

    private func text(_ entry: Entry) -> String {
        let mark: TerminalStyle.Mark =
            switch entry.sign {
            case "+": .green
            case "-": .red
            default: .yellow
            }
        var text = style("\(entry.sign) \(entry.host)", .bold, mark) + entry.note + "\n"
        for change in entry.changes {
            // The line is not wrapped, so that it can be searched for.
            let line = (change.isWeaker ? "WEAKER: " : "") + TextLayout.printable(change.text)
            text += "    \(change.isWeaker ? style(line, .red) : line)\n"
        }
        return text
    }
}
