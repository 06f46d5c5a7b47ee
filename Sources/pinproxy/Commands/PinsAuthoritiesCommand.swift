// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import StrictJSON

extension Command {
    static let pinsAuthorities = Command(
        name: "pins authorities",
        summary: "the root sets of public CAs that pin files may name",
        options: [Option(name: "json", summary: "print one JSON object instead")],
        operands: .any("NAME"),
        explanation: [
            """
            Prints the roots of each public CA of the table, or of those named: key, days of validity, and the source \
            that the key was compared with, when. "authorities": ["NAME"] in a domain of a pin file pins the whole set.
            """,
            """
            A root that is retired (trust stores drop it) or whose key is not verified is listed, and is not pinned. \
            Nothing is read and nobody is asked: the table is part of the program.
            """,
        ],
        examples: [
            Example(line: "pinproxy pins authorities", meaning: "All of them."),
            Example(line: "pinproxy pins authorities letsencrypt", meaning: "What a pin file gets by that name."),
        ]
    ) { arguments throws(CommandFailure) in
        let known = PublicAuthority.allCases.map(\.rawValue)
        var authorities: [PublicAuthority] = []
        for word in arguments.operands {
            guard let authority = PublicAuthority(rawValue: word) else {
                let guess = Spelling.nearest(to: word, among: known).map { "did you mean \($0)? " } ?? ""
                throw CommandFailure(
                    .usage,
                    "\(Arguments.shown(word)) is no authority of the table",
                    remedy: guess + "known: " + known.joined(separator: ", ")
                )
            }
            authorities.append(authority)
        }
        let report = AuthorityTable(
            authorities: authorities.isEmpty ? PublicAuthority.allCases : authorities,
            style: .standardOutput
        )
        try Output.standard(arguments.has("json") ? report.jsonLine : report.text)
        return .success
    }
}

/// The table of public CAs, for people and for programs.
private struct AuthorityTable {
    var authorities: [PublicAuthority]
    var style: TerminalStyle

    var text: String { authorities.map(section).joined(separator: "\n") }

    private func section(_ authority: PublicAuthority) -> String {
        var text = style(authority.rawValue, .bold) + "  \(authority.title)\n"
        for root in authority.roots {
            func row(_ label: String, _ words: String) { text += TextLayout.row("      \(label)", words, column: 14) }
            text += TextLayout.row("", root.name + Self.note(root.state), column: 4) { style($0, .bold) }
            if let pin = root.pin { row("pin", "\(pin)") }
            if let first = root.firstDay, let last = root.lastDay { row("dates", "\(first) to \(last)") }
            row("source", root.pin == nil ? root.source : "\(root.source), \(PublicAuthority.verified)")
        }
        return text
    }

    private static func note(_ state: PublicAuthority.Root.State) -> String {
        switch state {
        case .trusted: ""
        case .new: " (not in every trust store yet)"
        case .retired: " (retired: not pinned by the set)"
        case .unverified: " (NOT VERIFIED: no key, not pinned)"
        }
    }

    var jsonLine: String {
        var line = JSONLine()
        line.add("verified", PublicAuthority.verified.description)
        line.add("authorities", array: authorities.map { Self.json($0).object })
        return line.text
    }

    private static func json(_ authority: PublicAuthority) -> JSONLine {
        var line = JSONLine()
        line.add("name", authority.rawValue)
        line.add("title", authority.title)
        line.add("roots", array: authority.roots.map { json($0).object })
        return line
    }

    private static func json(_ root: PublicAuthority.Root) -> JSONLine {
        var line = JSONLine()
        line.add("name", root.name)
        line.add("state", root.state.rawValue)
        line.add("pinned", root.pinOfSet != nil)
        if let pin = root.pin { line.add("pin", pin.description) }
        if let day = root.firstDay { line.add("notBefore", day.description) }
        if let day = root.lastDay { line.add("notAfter", day.description) }
        line.add("source", root.source)
        return line
    }
}
