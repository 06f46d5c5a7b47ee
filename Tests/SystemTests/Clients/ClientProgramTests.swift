// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Real clients under pinproxy exec, without settings of their own", .onOwnThreads)
struct ClientProgramTests {
    private let folder: TemporaryFolder
    private let origin: NginxOrigin
    private let configuration: String
    private let host = Stage.host

    init() throws {
        folder = try TemporaryFolder()
        let server = try Stage.pki.server(Stage.host)
        origin = try NginxOrigin(server)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["log"] = ["tasks": "\(folder.path)/task.log"]
        configuration = try settings.write(to: folder)
    }

    private func exec(_ program: String, _ arguments: String...) throws -> Programs.Finished {
        let environment = Programs.environment.merging([
            "HOME": folder.path, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
        ]) { $1 }
        return try Programs.run(
            try Programs.built("pinproxy"),
            ["exec", "--config", configuration, "--", try Programs.path(of: program)] + arguments,
            environment: environment,
            seconds: 60
        )
    }

    @Test("curl reaches a pinned origin, also by a redirect to https")
    func curl() throws {
        let finished = try exec(
            "curl",
            "-sS",
            "-L",
            "-w",
            "%{http_code} %{num_redirects} %{url_effective}",
            "http://\(host)/redirect"
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output == "plain text from the origin\n200 1 http://\(host)/plain", "\(finished.output)")
    }

    @Test("Python's urllib reaches a pinned origin, also by a redirect to https")
    func python() throws {
        let script = """
            import urllib.request
            with urllib.request.urlopen("http://\(host)/redirect", timeout=30) as answer:
                print(answer.status, answer.geturl(), answer.read().decode().strip())
            """
        let finished = try exec("python3", "-c", script)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output == "200 http://\(host)/plain plain text from the origin\n")
    }

    @Test("git clones a repository from a pinned origin")
    func git() throws {
        let work = "\(folder.path)/work"
        let bare = "\(origin.folder.path)/files/repository.git"
        func git(_ arguments: String...) throws {
            let environment = Programs.environment.merging([
                "HOME": folder.path, "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
                "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
            ]) { $1 }
            let finished = try Programs.run("git", arguments, environment: environment)
            try #require(finished.exitCode == 0, "git \(arguments): \(finished.errors)")
        }
        try git("init", "-q", work)
        try folder.write("what git brings\n", as: "work/file.txt")
        try git("-C", work, "add", "file.txt")
        try git("-C", work, "commit", "-q", "-m", "first")
        try git("clone", "-q", "--bare", work, bare)
        try git("-C", bare, "update-server-info")

        let finished = try exec("git", "clone", "-q", "http://\(host)/files/repository.git", "\(folder.path)/clone")
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let text = try String(contentsOfFile: "\(folder.path)/clone/file.txt", encoding: .utf8)
        #expect(text == "what git brings\n")
    }

    @Test("exec has its command's exit code, also when the pin fails")
    func exitCode() throws {
        #expect(try exec("sh", "-c", "exit 7").exitCode == 7)
        // curl's 22: the server answered with an error.
        #expect(try exec("curl", "-sS", "-f", "-o", "/dev/null", "http://\(host)/missing").exitCode == 22)
    }
}
