// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Command line: usage", .onOwnThreads)
struct CommandLineUsageTests {
    static let commands = [
        "run", "check", "exec", "pins show", "pins from", "pins verify", "pins diff", "pins learn", "pins authorities",
        "health",
        "cache stats", "cache list", "cache purge", "redirect", "demo",
        "version", "help",
    ]

    @Test("without a command the overview goes to stderr, with code 64")
    func nothingAtAll() throws {
        let finished = try pinproxy()
        #expect(finished.exitCode == 64)
        #expect(finished.output.isEmpty)
        for command in Self.commands { #expect(finished.errors.contains("  \(command) ")) }
    }

    @Test("help, --help and -h print the same overview and end with 0", arguments: ["help", "--help", "-h"])
    func overview(word: String) throws {
        let finished = try pinproxy(word)
        #expect(finished.exitCode == 0)
        #expect(finished.errors.isEmpty)
        #expect(finished.output.hasPrefix("pinproxy: "))
        for command in Self.commands { #expect(finished.output.contains("  \(command) ")) }
    }

    @Test("a command's help names its options, in 80 columns", arguments: commands)
    func helpOfACommand(command: String) throws {
        let words = command.split(separator: " ").map(String.init)
        let help = try pinproxy(["help"] + words)
        #expect(help.exitCode == 0)
        #expect(help.output.contains("Usage: pinproxy \(command)"))
        for line in help.output.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
        let option = try pinproxy(words + ["--help"])
        #expect(option.exitCode == 0)
        #expect(option.output == help.output)
    }

    @Test("version and --version name the program and its libraries", arguments: ["version", "--version"])
    func version(word: String) throws {
        let finished = try pinproxy(word)
        #expect(finished.exitCode == 0)
        let lines = finished.output.split(separator: "\n")
        #expect(lines[0].wholeMatch(of: /pinproxy \d+\.\d+\.\d+( \(commit [0-9a-z-]+\))?/) != nil)
        #expect(lines[1].hasPrefix("OpenSSL 3."))
        let names = ["OpenSSL", "libcurl", "c-ares", "nghttp2", "SQLite", "libidn2", "libpsl", "zlib"]
        #expect(lines.dropFirst().map { String($0.split(separator: " ")[0]) } == names)
        for line in lines.dropFirst() { #expect(line.firstMatch(of: /[0-9]+\.[0-9]+/) != nil, "\(line)") }
        let object = try json(try pinproxy(word, "--json").output)
        #expect((object["libraries"] as? [String: String])?.keys.sorted() == names.sorted())
        #expect(lines[0].hasPrefix("pinproxy \(try #require(object["version"] as? String))"))
    }

    @Test("pins authorities prints the table, whole or for one CA")
    func authorities() throws {
        let text = try pinproxy("pins", "authorities")
        #expect(text.exitCode == 0 && text.errors.isEmpty)
        for line in text.output.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
        for name in ["letsencrypt", "google", "amazon", "digicert", "sectigo", "globalsign", "microsoft"] {
            #expect(text.output.contains("\(name)  "))
        }
        #expect(text.output.contains("NOT VERIFIED"))
        let one = try json(try pinproxy("pins", "authorities", "letsencrypt", "--json").output)
        let authorities = try #require(one["authorities"] as? [[String: Any]])
        #expect(authorities.map { $0["name"] as? String } == ["letsencrypt"])
        let roots = try #require(authorities[0]["roots"] as? [[String: Any]])
        #expect(
            roots.map { $0["name"] as? String } == ["ISRG Root X1", "ISRG Root X2", "ISRG Root YR", "ISRG Root YE"]
        )
        #expect(
            roots.allSatisfy { $0["pinned"] as? Bool == true && ($0["pin"] as? String)?.hasPrefix("sha256/") == true }
        )
        #expect(one["verified"] as? String == "2026-11-26")
    }

    @Test("help --json has every command with its options, for manual pages and completions")
    func tables() throws {
        let object = try json(try pinproxy("help", "--json").output)
        let commands = try #require(object["commands"] as? [[String: Any]])
        let overview = try pinproxy("help").output
        for command in commands {
            let name = try #require(command["name"] as? String)
            #expect(overview.contains("  \(name) "))
            let help = try pinproxy(["help"] + name.split(separator: " ").map(String.init)).output
            for option in try #require(command["options"] as? [[String: Any]]) {
                #expect(help.contains("--\(try #require(option["name"] as? String))"))
            }
        }
        #expect(Set(Self.commands).isSubset(of: commands.compactMap { $0["name"] as? String }))
        #expect((object["exitCodes"] as? [[String: Any]])?.contains { $0["code"] as? Int == 78 } == true)
    }

    @Test(
        "the help fits the terminal, between 40 and 120 columns",
        arguments: [(60, 60), (110, 110), (300, 120), (20, 40)]
    )
    func width(columns: Int, limit: Int) throws {
        let command = "stty cols \(columns) && '\(try Programs.built("pinproxy"))' help run"
        let shown = try Programs.run(try Programs.path(of: "script"), ["-qec", command, "/dev/null"])
        let widths = shown.output.split(whereSeparator: \.isNewline).map(\.count)
        let widest = try #require(widths.max())
        // A word that is longer than the line stays whole: the example of a JSON line is one.
        #expect(widest <= max(limit, 80), "\(widest)")
        #expect(widths.contains { $0 > limit - 12 })
    }

    private func json(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    @Test(
        "a wrong command line ends with 64 and the reason",
        arguments: [
            (["rnu"], "did you mean pinproxy run?"),
            (["ca", "init"], "there is no host"),
            (["pins"], "pins show"),
            (["help", "nothing"], "unknown command"),
            (["check", "--config"], "--config needs a value"),
            (["check", "--config="], "--config needs a value"),
            (["check", "--config", "a", "--config", "b"], "--config is given twice"),
            (["check", "--confg", "a"], "did you mean --config?"),
            (["check", "--config", "a", "b"], "\"b\" is one argument too many"),
            (["run", "--config", "a", "--demo-origin=yes"], "--demo-origin takes no value"),
            (["exec", "--config", "a", "--"], "CMD [ARGUMENT…] is missing"),
            (["pins", "from"], "FILE is missing"),
            (["pins", "diff"], "OLD is missing"),
            (["cache"], "cache stats"),
            (["cache", "purge"], "nothing is named"),
            (["cache", "purge", "--all", "http://a.example/"], "more than one thing is named"),
            (["cache", "purge", "http://a.example/", "http://b.example/"], "more than one thing is named"),
            (["cache", "list", "more"], "one argument too many"),
            (["cache", "stats", "--admin", "localhost:1"], "takes an address"),
            (["pins", "diff", "a"], "NEW is missing"),
            (["pins", "diff", "a", "b", "c"], "\"c\" is one argument too many"),
            (["pins", "authorities", "letsencript"], "did you mean letsencrypt? known: letsencrypt, google, amazon"),
            (["pins", "show", "host:port"], "no port"),
            (["pins", "show", "http://api.example.com/"], "a server that is reached without TLS has no certificate"),
            (["pins", "show", "https://api.example.com/v1"], "has a path"),
            (["pins", "shwo", "api.example.com"], "did you mean pinproxy pins show?"),
            (["ca", "sign"], "there is pinproxy ca init, pinproxy ca show"),
            (["pins", "show", "a host"], "\"a host\""),
        ] as [([String], String)]
    )
    func wrongCommandLine(words: [String], message: String) throws {
        try expectUsage(words, message)
    }

    @Test(
        "the configuration must be named where none is installed",
        .enabled(if: access("/etc/pinproxy/config.json", F_OK) != 0, "this machine has the package's configuration"),
        arguments: [["pins", "learn"], ["pins", "verify"], ["check"]]
    )
    func withoutConfiguration(words: [String]) throws {
        try expectUsage(words, "--config FILE is missing")
    }

    private func expectUsage(_ words: [String], _ message: String) throws {
        let finished = try pinproxy(words)
        #expect(finished.exitCode == 64)
        #expect(finished.output.isEmpty)
        #expect(finished.errors.hasPrefix("pinproxy: "))
        #expect(finished.errors.contains(message), "\(finished.errors)")
    }

    @Test("a wrong option shows the usage of its command")
    func usageOfTheCommand() throws {
        let finished = try pinproxy("exec", "--nothing", "--", "true")
        #expect(finished.exitCode == 64)
        let words = finished.errors.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let options = "[--config FILE] [--intercept] [--report] [--propose FOLDER] [--user NAME] [--keep-no-proxy]"
        #expect(words.contains("Usage: pinproxy exec \(options) -- CMD [ARGUMENT…]"))
    }

    @Test("a control character of the command line is not echoed")
    func controlCharacters() throws {
        let finished = try pinproxy("\u{1b}[31mred")
        #expect(finished.exitCode == 64)
        #expect(!finished.errors.contains("\u{1b}"))
    }
}
