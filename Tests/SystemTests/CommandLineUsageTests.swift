import Foundation
import TestSupport
import Testing

@Suite("Command line: usage")
struct CommandLineUsageTests {
    static let commands = [
        "run", "check", "exec", "pins show", "pins from", "pins verify", "pins diff", "pins learn", "health",
        "cache stats", "cache list", "cache purge", "demo",
        "version", "help",
    ]

    @Test("without a command the overview goes to the standard error and the exit code is 64")
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

    @Test("the help of a command names its options and is at most 80 columns wide", arguments: commands)
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

    @Test("version and --version name the program and OpenSSL", arguments: ["version", "--version"])
    func version(word: String) throws {
        let finished = try pinproxy(word)
        #expect(finished.exitCode == 0)
        let lines = finished.output.split(separator: "\n")
        #expect(lines[0].wholeMatch(of: /pinproxy \d+\.\d+\.\d+/) != nil)
        #expect(lines[1].hasPrefix("OpenSSL 3."))
    }

    @Test(
        "a wrong command line ends with 64 and says what is wrong",
        arguments: [
            (["rnu"], "did you mean pinproxy run?"),
            (["ca", "init"], "there is no host"),
            (["pins"], "pins show"),
            (["pins", "learn"], "--config FILE is missing"),
            (["pins", "verify"], "--config FILE is missing"),
            (["help", "nothing"], "unknown command"),
            (["check"], "--config FILE is missing"),
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
            (["pins", "show", "host:port"], "no port"),
            (["pins", "show", "a host"], "\"a host\""),
        ] as [([String], String)]
    )
    func wrongCommandLine(words: [String], message: String) throws {
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
        #expect(finished.errors.contains("Usage: pinproxy exec --config FILE [--keep-no-proxy] -- CMD [ARGUMENT…]"))
    }

    @Test("a control character of the command line is not played back to the terminal")
    func controlCharacters() throws {
        let finished = try pinproxy("\u{1b}[31mred")
        #expect(finished.exitCode == 64)
        #expect(!finished.errors.contains("\u{1b}"))
    }
}
