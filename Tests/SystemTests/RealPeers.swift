// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport

/// The real clients and servers that the proxy is tried with. Tests run those that the machine has; with
/// `PINPROXY_REQUIRE_CLIENTS=1`, which CI sets, one that is missing fails.
enum RealPeers {
    static let areRequired = ProcessInfo.processInfo.environment["PINPROXY_REQUIRE_CLIENTS"] == "1"
    /// Debian's, which has Debian's modules.
    static let python = "/usr/bin/python3"

    private static let tests = Repository.folder.appending(path: "Tests")

    /// A script in `Clients` or `Servers`.
    static func script(_ name: String) -> String { tests.appending(path: name).path }

    private static let built = Monitor<[String: String]>([:])

    /// What a program of Go is once it is built, without modules or network. It is built once, for all that run it.
    static func built(_ source: String) throws -> String {
        try built.with { known in
            if known[source] == nil { known[source] = try build(source) }
            return known[source]!
        }
    }

    private static func build(_ source: String) throws -> String {
        let folder = tests.deletingLastPathComponent().appending(path: ".build/go").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let program = "\(folder)/\(source.split(separator: "/").last?.dropLast(3) ?? "")"
        let variables = ["GOCACHE": "\(folder)/cache", "GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOFLAGS": ""]
        let finished = try Programs.run(
            "go",
            ["build", "-o", program, script(source)],
            environment: Programs.environment.merging(variables) { $1 },
            seconds: 300
        )
        guard finished.exitCode == 0 else { throw ChildProcess.Failure(description: finished.errors) }
        return program
    }
}

/// A table of docs/clients.md, between two comments with its name. `PINPROXY_WRITE_TABLES=1` writes it.
struct SeenTable {
    let name: String
    let columns: [String]
    let rows: [[String]]

    private static let page = RealPeers.script("../docs/clients.md")
    private static let writes = ProcessInfo.processInfo.environment["PINPROXY_WRITE_TABLES"] == "1"

    private var text: String {
        ([columns, columns.map { _ in "---" }] + rows).map { "| " + $0.joined(separator: " | ") + " |\n" }.joined()
    }

    /// What the page says, and what it has to say.
    func compare() throws -> (found: String, expected: String) {
        var whole = try String(contentsOfFile: Self.page, encoding: .utf8)
        guard let start = whole.range(of: "<!-- \(name) -->\n"),
            let end = whole.range(of: "<!-- end -->", range: start.upperBound..<whole.endIndex)
        else { throw MessageReader.Malformed(description: "docs/clients.md has no place for \(name)") }
        let place = start.upperBound..<end.lowerBound
        if Self.writes {
            whole.replaceSubrange(place, with: text)
            try whole.write(toFile: Self.page, atomically: true, encoding: .utf8)
            return (text, text)
        }
        return (String(whole[place]), text)
    }
}
