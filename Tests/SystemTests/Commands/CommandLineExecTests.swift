import Foundation
import TestSupport
import Testing

@Suite("Command line: exec")
struct CommandLineExecTests {
    /// `exec` of a shell's script, with nothing but the shell's own output on the standard output.
    private func exec(
        _ script: String,
        options: [String] = [],
        settings: ProxySettings? = nil,
        environment: [String: String] = [:]
    ) throws -> Programs.Finished {
        let folder = try TemporaryFolder()
        let path = try (settings ?? ProxySettings(trusting: try TestPKI())).write(to: folder)
        return try pinproxy(
            ["exec", "--config", path] + options + ["--", "sh", "-c", script],
            environment: environment
        )
    }

    @Test("it ends with the exit code of the program, 128 and the number for a signal", arguments: [0, 1, 7, 255, 137])
    func exitCode(code: Int32) throws {
        let finished = try exec(code == 137 ? "kill -KILL $$" : "exit \(code)")
        #expect(finished.exitCode == code)
        #expect(finished.output.isEmpty)
    }

    @Test("the program gets the descriptors that exec was started with, and none of the proxy's own")
    func descriptors() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        // `ls` lists those of the shell, which has it wait.
        let words = [
            try Programs.built("pinproxy"), "exec", "--config", path, "--", "/bin/sh", "-c", "ls /proc/$$/fd; :",
        ]
        let line = words.map { "'\($0)'" }.joined(separator: " ")
        for (redirection, expected) in [("", "0 1 2"), (" 5</dev/null 9</dev/null", "0 1 2 5 9")] {
            let finished = try Programs.run("/bin/sh", ["-c", line + redirection], environment: Programs.environment)
            #expect(finished.output.split(separator: "\n").joined(separator: " ") == expected, "\(finished.errors)")
        }
    }

    @Test("a program that is not found ends with 127, one that cannot be run with 126")
    func noProgram() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let missing = try pinproxy("exec", "--config", path, "--", "\(folder.path)/none")
        #expect(missing.exitCode == 127)
        #expect(missing.errors.contains("No such file or directory"))
        let unfit = try pinproxy("exec", "--config", path, "--", path)
        #expect(unfit.exitCode == 126)
        #expect(unfit.errors.contains("Permission denied"))
    }

    @Test("the proxy variables lead to the listener, and what could lead around it is gone")
    func environment() throws {
        let outside = [
            "HTTP_PROXY": "http://other:1", "HTTPS_PROXY": "http://other:1", "ALL_PROXY": "http://other:1",
            "no_proxy": "*", "NO_PROXY": "*", "http_proxy": "http://other:1", "KEPT": "yes",
        ]
        let finished = try exec("env", environment: outside)
        let lines = finished.output.split(separator: "\n").map(String.init)
        let proxies = lines.filter { $0.lowercased().contains("_proxy=") }.sorted()
        try #require(proxies.count == 3, "\(proxies)")
        let value = try #require(proxies[1].wholeMatch(of: /http_proxy=(http:\/\/127\.0\.0\.1:\d+)/)).1
        #expect(proxies == ["all_proxy=\(value)", "http_proxy=\(value)", "https_proxy=\(value)"])
        #expect(lines.contains("KEPT=yes"))
    }

    @Test("--keep-no-proxy leaves the exceptions to the program")
    func keepNoProxy() throws {
        let finished = try exec(
            "echo $no_proxy $NO_PROXY",
            options: ["--keep-no-proxy"],
            environment: ["no_proxy": "a"]
        )
        #expect(finished.output == "a\n")
    }

    @Test("curl and Python reach a pinned origin, and a task log for stdout goes to stderr")
    func clients() throws {
        let pki = try TestPKI()
        let server = try pki.server("api.test")
        let origin = try ScriptedOrigin(server) { _ in OriginAnswer.text("pinned") }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        settings.members["log"] = ["tasks": "stdout"]
        let script = """
            curl -sS http://api.test/
            python3 -c 'import urllib.request as r; print(r.urlopen("http://api.test/").read().decode(), end="")'
            """
        let finished = try exec(script, settings: settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output == "pinnedpinned")
        let tasks = finished.errors.split(separator: "\n").compactMap { LogLine(String($0)) }
            .filter { $0.string("event") == "task" }
        #expect(tasks.count == 2)
        #expect(tasks.allSatisfy { $0.object("pinning")?["verdict"] as? String == "pass" })
    }

    @Test("an https URL of the program is refused with 403, not led around the pins")
    func httpsURL() throws {
        let finished = try exec("curl -sS https://api.test/")
        #expect(finished.exitCode == 56)
        #expect(finished.errors.contains("403"))
    }

    @Test("the listeners of the file are not opened, and what the first of them allows holds")
    func listeners() throws {
        let (descriptor, port) = try TestSocket.listen()
        defer { close(descriptor) }
        var settings = ProxySettings(trusting: try TestPKI())
        settings.listeners = [["address": "127.0.0.1:\(port)", "mode": "forward", "allowHosts": ["only.test"]]]
        let finished = try exec("curl -s -o /dev/null -w '%{http_code}' http://other.test/", settings: settings)
        #expect(finished.exitCode == 0)
        #expect(finished.output == "403")
    }

    @Test(
        "a signal is handed on, and the program's way of ending with it is the exit code",
        arguments: [SIGTERM, SIGHUP]
    )
    func signals(signal: Int32) throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let script = "trap 'exit 5' TERM; trap 'exit 6' HUP; echo ready; while :; do sleep 0.05; done"
        let process = try ChildProcess(
            try Programs.built("pinproxy"),
            ["exec", "--config", path, "--", "sh", "-c", script]
        )
        _ = try process.waitForOutput("the program") { $0 == "ready\n" ? true : nil }
        process.signal(signal)
        #expect(try process.waitForExit().exitCode == (signal == SIGTERM ? 5 : 6))
    }

    @Test("the program starts with no signal blocked and SIGPIPE in effect")
    func signalMask() throws {
        let finished = try exec("grep -E '^Sig(Blk|Ign)' /proc/self/status")
        let masks = finished.output.split(separator: "\n").compactMap { line in
            line.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) }
        }
        try #require(masks.count == 2)
        #expect(masks[0] == 0)
        #expect(masks[1] & 1 << UInt64(SIGPIPE - 1) == 0)
    }
}
