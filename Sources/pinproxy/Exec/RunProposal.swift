// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ProxyCore
import ServerTrust

/// The folder of `exec --propose`: a configuration with rules for what the program has asked for, and pin files of the servers that
/// it has reached, for a person to read and confirm. The folder is new, so that nothing in it is in force anywhere, and nothing is
/// overwritten.
struct RunProposal {
    private let folder: String
    private var pins: String { "\(folder)/pins" }
    /// Whether the folder was made here.
    private let isNew: Bool

    /// Makes the folder before the program runs: a run may be long.
    init(_ folder: String) throws(CommandFailure) {
        self.folder = folder
        isNew = mkdir(folder, 0o777) == 0
        let code = errno
        guard isNew || code == EEXIST && Self.isEmpty(folder) else {
            throw CommandFailure(
                .failed,
                "the folder \(Arguments.shown(path: folder)) cannot be made: "
                    + (code == EEXIST ? "it exists, and is not an empty folder" : String(cString: strerror(code))),
                remedy: "name a folder that does not exist yet: nothing is ever overwritten"
            )
        }
    }

    private static func isEmpty(_ folder: String) -> Bool {
        guard let list = opendir(folder) else { return false }
        defer { closedir(list) }
        while let entry = readdir(list) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { return false }
        }
        return true
    }

    /// As many servers get a file.
    private static let files = 1000

    /// Writes the files.
    ///
    /// - Returns: what was written, for the standard error.
    func write(_ content: RunRecord.Content) throws(CommandFailure) -> String {
        let rules = content.learned.learner.proposal
        let servers = PinProposal(servers: content.servers.unpinned).proposed
        guard !rules.isEmpty || !servers.isEmpty else {
            discard()
            return "Nothing is proposed: no server has responded to a request that can be read in one way.\n"
        }
        if !servers.isEmpty {
            guard mkdir(pins, 0o777) == 0 else {
                throw CommandFailure(
                    .failed,
                    "the folder \(Arguments.shown(path: pins)) cannot be made: \(String(cString: strerror(errno)))"
                )
            }
            var names: Set<String> = []
            for server in servers.prefix(Self.files) {
                try NewFile.create(
                    "\(pins)/\(Self.fileName(server.host, &names)).json",
                    try PinProposal(servers: [server]).text,
                    as: .ordinary
                )
            }
        }
        var members = [FileSchema.configuration.member, "\"version\": 1"]
        if !servers.isEmpty { members.append("\"pins\": \"pins\"") }
        let proposal = RequestProposal(rules: rules)
        if !rules.isEmpty { try proposal.check() }
        try NewFile.create("\(folder)/config.json", proposal.text(after: members), as: .ordinary)
        return text(content, rules: rules.count, servers: servers.count)
    }

    private func text(_ content: RunRecord.Content, rules: Int, servers: Int) -> String {
        let shown = Arguments.shown(path: folder)
        var parts: [String] = []
        if rules > 0 { parts.append(rules == 1 ? "1 rule" : "\(rules) rules") }
        if servers > 0 { parts.append(servers == 1 ? "the pins of 1 host" : "the pins of \(servers) hosts") }
        var text = "proposed in \(shown): \(parts.joined(separator: ", "))"
        if servers > Self.files { text += ", files of the first \(Self.files) alone" }
        text += "\n" + content.learned.leftOut.map { "  \($0): not proposed\n" }.joined()
        let advice = """
            Nothing is in force by this. The rules let through what the program has done, wanted or not: read them. The pins are the \
            keys that this machine saw: compare them with what the servers' operators say. Then config.json there is one to \
            run the program with, or to take from.
            """
        return text + TextLayout.lines(advice, width: TextLayout.width).map { $0 + "\n" }.joined()
    }

    /// A name without slashes, short enough, and not used yet.
    private static func fileName(_ host: Host, _ names: inout Set<String>) -> String {
        let base = String(host.description.map { $0 == ":" ? "-" : $0 }.prefix(200))
        var name = base
        var number = 2
        while !names.insert(name).inserted {
            name = "\(base)-\(number)"
            number += 1
        }
        return name
    }

    /// Removes the folder of a run that proposes nothing.
    func discard() { if isNew { rmdir(folder) } }
}
