// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

/// The cache's data from the admin listener, for people.
enum CacheReport {
    /// A stored response.
    struct Entry {
        var url: String
        var user: String?
        var status: Int
        /// The size of the body.
        var bytes: Int
        /// Times in the form of RFC 3339.
        var stored: String
        var freshUntil: String
        var tags: [String]
        var varies: [String]

        var jsonLine: String {
            var line = JSONLine()
            line.add("url", url)
            if let user { line.add("user", user) }
            line.add("status", status)
            line.add("bytes", bytes)
            line.add("stored", stored)
            line.add("freshUntil", freshUntil)
            if !varies.isEmpty { line.add("varies", strings: varies) }
            if !tags.isEmpty { line.add("tags", strings: tags) }
            return line.text
        }
    }

    // MARK: Reading

    /// - Parameter body: the document of `/cache/entries`.
    static func entries(_ body: String) throws(CommandFailure) -> [Entry] {
        let elements = try object(body).elements("entries")
        guard let elements else { throw strange }
        var entries: [Entry] = []
        for element in elements {
            guard let object = element.object(), let url = object.string("url"), let status = number(object, "status"),
                let bytes = number(object, "bytes"), let stored = object.string("stored"),
                let freshUntil = object.string("freshUntil")
            else { throw strange }
            entries.append(
                Entry(
                    url: url,
                    user: object.string("user"),
                    status: status,
                    bytes: bytes,
                    stored: stored,
                    freshUntil: freshUntil,
                    tags: object.strings("tags") ?? [],
                    varies: object.strings("varies") ?? []
                )
            )
        }
        return entries
    }

    /// The text for people in an error document; nil for another document.
    static func problem(_ body: String) -> String? {
        guard let object = try? object(body), let detail = object.string("detail") else { return nil }
        return TextLayout.printable(detail)
    }

    private static func object(_ body: String) throws(CommandFailure) -> DocumentObject {
        guard let object = DocumentReader(JSONDocument(text: body, file: "answer")).rootObject() else { throw strange }
        return object
    }

    private static func number(_ object: DocumentObject, _ name: String) -> Int? {
        object.int(name, in: 0...Int.max)
    }

    private static var strange: CommandFailure {
        CommandFailure(
            .protocolError,
            "the response is not one of an admin listener",
            remedy: "look at what listens there"
        )
    }

    // MARK: Text

    static func text(of entries: [Entry]) -> String {
        guard !entries.isEmpty else { return "" }
        var rows = [["STATUS", "SIZE", "STORED", "FRESH UNTIL", "URL"]]
        for entry in entries {
            rows.append([
                "\(entry.status)", size(entry.bytes), TextLayout.printable(entry.stored),
                TextLayout.printable(entry.freshUntil), TextLayout.printable(entry.url),
            ])
        }
        return table(rows)
    }

    /// - Parameter rows: of equal length, the first with the names of the columns.
    private static func table(_ rows: [[String]]) -> String {
        let widths = (0..<rows[0].count).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            zip(row, widths).dropLast().map { text, width in
                text + String(repeating: " ", count: width - text.count) + "  "
            }.joined() + "\(row[row.count - 1])\n"
        }.joined()
    }

    /// - Parameter body: the document of `/cache`.
    static func figures(_ body: String) throws(CommandFailure) -> String {
        let root = try object(body)
        guard let requests = root.object("requests"), let stored = number(root, "stored"),
            let collapsed = number(root, "collapsed"), let memory = root.object("memory")
        else { throw strange }
        var counts: [(name: String, count: Int)] = []
        for name in outcomes {
            guard let count = number(requests, name) else { throw strange }
            counts.append((name, count))
        }
        let byHost = try hosts(root)
        let byRule = try rules(root)
        let total = counts.reduce(0) { $0.addingSaturated($1.count) }
        let answered = counts[0].count.addingSaturated(counts[1].count).addingSaturated(counts[2].count)
        var rows = [
            (
                "requests",
                total == 0 ? "0" : "\(total), \(answered.multipliedSaturated(by: 100) / total) % of them from the cache"
            )
        ]
        for (name, count) in counts { rows.append(("  \(name)", "\(count)")) }
        rows.append(("stored", "\(stored)"))
        rows.append(("collapsed", "\(collapsed)"))
        rows.append(("memory", try store(memory)))
        if let disk = root.object("disk") {
            rows.append(
                ("disk", try store(disk) + (disk.string("path").map { ", in \(TextLayout.printable($0))" } ?? ""))
            )
            if let reason = disk.string("offBecause") { rows.append(("", "off: \(TextLayout.printable(reason))")) }
        }
        if let shared = root.object("redis") { rows += try redis(shared) }
        let width = (rows.map(\.0.count).max() ?? 0) + 2
        let figures = rows.map { label, text in
            label + String(repeating: " ", count: width - label.count) + text + "\n"
        }.joined()
        return figures + byHost + byRule
    }

    /// The rows about the cache that machines share.
    private static func redis(_ shared: DocumentObject) throws(CommandFailure) -> [(String, String)] {
        guard let lookUps = shared.object("lookups"), let stored = number(shared, "stored"),
            let pending = number(shared, "purgesPending"), let servers = shared.elements("servers")
        else { throw strange }
        var counts: [String] = []
        for result in ["hit", "miss", "timeout", "failed"] {
            guard let count = number(lookUps, result) else { throw strange }
            counts.append("\(count) \(result)")
        }
        var rows = [("Redis", "\(counts.joined(separator: ", ")), \(stored) stored")]
        if pending > 0 { rows.append(("", "\(pending) purges wait for it")) }
        for element in servers {
            guard let server = element.object(), let name = server.string("server") else { throw strange }
            let state = server.string("offBecause").map { "off: \(TextLayout.printable($0))" } ?? "in use"
            rows.append(("  \(TextLayout.printable(name))", state))
        }
        return rows
    }

    private static let outcomes = ["hit", "stale", "revalidated", "miss", "bypass"]

    /// A table of the counts by host, after an empty line; empty without a host.
    private static func hosts(_ root: DocumentObject) throws(CommandFailure) -> String {
        guard let elements = root.elements("hosts") else { throw strange }
        guard !elements.isEmpty else { return "" }
        var rows = [["HOST", "HIT", "STALE", "REVALIDATED", "MISS", "BYPASS", "STORED", "COLLAPSED"]]
        for element in elements {
            guard let host = element.object(), let name = host.string("host"), let requests = host.object("requests"),
                let stored = number(host, "stored"), let collapsed = number(host, "collapsed")
            else { throw strange }
            var row = [TextLayout.printable(name)]
            for outcome in outcomes {
                guard let count = number(requests, outcome) else { throw strange }
                row.append("\(count)")
            }
            rows.append(row + ["\(stored)", "\(collapsed)"])
        }
        return "\n" + table(rows)
    }

    /// A table of the rules with the number of their matches, after an empty line; empty without a rule.
    private static func rules(_ root: DocumentObject) throws(CommandFailure) -> String {
        guard let elements = root.elements("rules") else { throw strange }
        guard !elements.isEmpty else { return "" }
        var rows = [["HOST", "RULE", "MATCHES", "TEXT"]]
        for element in elements {
            guard let rule = element.object(), let host = rule.string("host"), let place = number(rule, "rule"),
                let matches = number(rule, "matches"), let text = rule.string("text")
            else { throw strange }
            rows.append([TextLayout.printable(host), "\(place)", "\(matches)", TextLayout.printable(text)])
        }
        return "\n" + table(rows)
    }

    private static func store(_ object: DocumentObject) throws(CommandFailure) -> String {
        guard let entries = number(object, "entries"), let bytes = number(object, "bytes"),
            let capacity = number(object, "capacity"), let evictions = number(object, "evictions")
        else { throw strange }
        return
            "\(entries == 1 ? "1 response" : "\(entries) responses"), \(size(bytes)) of \(size(capacity)), \(evictions) evicted"
    }

    /// - Parameter body: the document of a DELETE.
    static func removed(_ body: String) throws(CommandFailure) -> String {
        let object = try object(body)
        let isUnconfirmed = object.has("shared") && object.bool("shared") == false
        let rest =
            isUnconfirmed
            ? "the shared cache has not confirmed it: other machines may use these responses until it has\n" : ""
        if let count = number(object, "expired") {
            return (count == 1 ? "1 response is stale now\n" : "\(count) responses are stale now\n") + rest
        }
        guard let count = number(object, "removed") else { throw strange }
        return (count == 1 ? "1 response removed\n" : "\(count) responses removed\n") + rest
    }

    /// The size in the largest unit of which there is at least one, with one decimal: `1.5MB`.
    static func size(_ bytes: Int) -> String {
        for (unit, shift) in [("GB", 30), ("MB", 20), ("KB", 10)] where bytes >= 1 << shift {
            let tenths = (bytes >> shift) * 10 + ((bytes & ((1 << shift) - 1)) * 10) >> shift
            return tenths % 10 == 0 ? "\(tenths / 10)\(unit)" : "\(tenths / 10).\(tenths % 10)\(unit)"
        }
        return "\(bytes)B"
    }
}
