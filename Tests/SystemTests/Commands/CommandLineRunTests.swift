// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Command line: run", .earlyOnOwnThreads)
struct CommandLineRunTests {
    @Test("each listener has a line on the standard error, in order")
    func listeningLines() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.addUnixSocket("\(folder.path)/s")
        settings.addGateway(to: "api.test")
        let proxy = try ProxyUnderTest(settings)
        let lines = proxy.errors.split(separator: "\n").map(String.init)
        let listening = lines.filter { $0.contains("\"listening\"") }
        try #require(listening.count == 3)
        #expect(listening[0] == #"{"event":"listening","listener":"forward","address":"127.0.0.1:\#(proxy.port)"}"#)
        #expect(listening[1] == #"{"event":"listening","listener":"forward","unixSocket":"\#(folder.path)/s"}"#)
        let gateway = proxy.port(of: 2)
        #expect(listening[2] == #"{"event":"listening","listener":"gateway","address":"127.0.0.1:\#(gateway)"}"#)
    }

    @Test("SIGTERM and SIGINT end an idle proxy, and remove its Unix socket", arguments: [SIGTERM, SIGINT])
    func cleanStop(signal: Int32) throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/s"
        var settings = ProxySettings(trusting: try TestPKI())
        settings.addUnixSocket(path)
        let proxy = try ProxyUnderTest(settings)
        #expect(FileManager.default.fileExists(atPath: path))
        proxy.signal(signal)
        #expect(try proxy.waitForExit().exitCode == 0)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    /// An origin that answers when it is told to, a proxy that has been told to end, and one request of a client that
    /// waits at the origin.
    private func requestUnderWay(
        _ body: (ProxyUnderTest, TestClient, _ release: () -> Void) throws -> Void
    ) throws {
        let pki = try TestPKI()
        let server = try pki.server("api.test")
        let isReleased = Monitor(false)
        let origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/wait" { try isReleased.wait(for: "the release") { $0 ? true : nil } }
                try connection.respond()
            }
        }
        defer { isReleased.with { $0 = true } }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        let proxy = try ProxyUnderTest(settings)
        let client = try proxy.connect()
        let idle = try proxy.connect()
        try idle.send(ProxyUnderTest.request("GET", "http://api.test/"))
        #expect(try idle.readResponse(to: "GET").status == 200)
        try client.send(ProxyUnderTest.request("GET", "http://api.test/wait"))
        try origin.wait(for: "the request") { records in
            records.contains { $0.requests.contains { $0.target == "/wait" } } ? true : nil
        }
        proxy.signal(SIGTERM)
        // The drain has begun when a connection without a request is closed.
        #expect(try idle.receive().isEmpty)
        try body(proxy, client) { isReleased.with { $0 = true } }
    }

    @Test("after SIGTERM a running request gets its whole response")
    func drain() throws {
        try requestUnderWay { proxy, client, release in
            release()
            let response = try client.readResponse(to: "GET")
            #expect(response.status == 200)
            #expect(response.text == "hello")
            #expect(try proxy.waitForExit().exitCode == 0)
        }
    }

    @Test("a second signal ends the drain at once, with 0")
    func secondSignal() throws {
        try requestUnderWay { proxy, client, _ in
            proxy.signal(SIGTERM)
            #expect(try proxy.waitForExit(seconds: 15).exitCode == 0)
            let rest = try client.receive()
            #expect(rest.isEmpty, "\(String(decoding: rest, as: UTF8.self))")
        }
    }

    @Test("SIGHUP reloads the files, and the proxy serves on")
    func hangUp() throws {
        let proxy = try ProxyUnderTest(ProxySettings(trusting: try TestPKI()))
        #expect(try proxy.hangUp().integer("generation") == 2)
        #expect(try proxy.exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n").status == 400)
        #expect(try proxy.terminate().exitCode == 0)
    }

    @Test("a second instance on the port ends with 69")
    func secondInstance() throws {
        let pki = try TestPKI()
        let first = try ProxyUnderTest(ProxySettings(trusting: pki))
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: pki)
        settings.listeners = [["address": "127.0.0.1:\(first.port)"]]
        let second = try pinproxy("run", "--config", settings.write(to: folder))
        #expect(second.exitCode == 69)
        #expect(second.errors.contains("pinproxy: cannot listen on 127.0.0.1:\(first.port): Address already in use ("))
        #expect(!second.errors.contains("\"listening\""))
        #expect(try first.exchange("GET / HTTP/1.1\r\nHost: x\r\n\r\n").status == 400)
    }

    /// `run` in a shell that has lowered its limits of open files; waits for the listening line.
    private func run(soft: Int, hard: Int) throws -> (process: ChildProcess, lines: [String]) {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let command = "ulimit -Sn \(soft) && ulimit -Hn \(hard) && exec '\(try Programs.built("pinproxy"))' run"
        let process = try ChildProcess(try Programs.path(of: "bash"), ["-c", "\(command) --config '\(path)'"])
        let lines = try process.waitForErrors("the listening line") { text in
            text.contains("\"listening\"") ? text.split(separator: "\n").map(String.init) : nil
        }
        return (process, lines)
    }

    @Test("the soft limit of open files is raised; a low one is a warning")
    func openFiles() throws {
        let (process, lines) = try run(soft: 200, hard: 300)
        let limits = try String(contentsOfFile: "/proc/\(process.identifier)/limits", encoding: .utf8)
        let words = limits.split(separator: "\n").first { $0.hasPrefix("Max open files") }?.split(separator: " ") ?? []
        #expect(words.dropFirst(3) == ["300", "300", "files"])
        let warnings = lines.filter { $0.contains("allows 300 open files") }
        #expect(warnings.count == 1)
        #expect(warnings.first.flatMap { LogLine($0) }?.string("event") == "warning")
    }

    @Test("a task log that cannot be opened ends with 78")
    func unwritableLog() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.members["log"] = ["tasks": "\(folder.path)/no/such/folder/tasks.log"]
        let finished = try pinproxy("run", "--config", settings.write(to: folder))
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains("log.tasks"))
    }

    @Test("--demo-origin adds a pinned host that responds, and prints its URL")
    func demoOrigin() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let process = try ChildProcess(try Programs.built("pinproxy"), ["run", "--config", path, "--demo-origin"])
        let lines = try process.waitForErrors("the demo's line") { text in
            let lines = text.split(separator: "\n").map(String.init)
            return lines.last == #"{"event":"demoOrigin","url":"http://demo.pinproxy.test/"}"# ? lines : nil
        }
        let listening = try #require(lines.dropLast().last.flatMap { LogLine($0) })
        let port = try #require(listening.string("address")?.split(separator: ":").last.flatMap { UInt16($0) })
        let client = try TestClient(port: port)
        let body = String(repeating: "b", count: 1 << 20)
        try client.send(ProxyUnderTest.request("POST", "http://demo.pinproxy.test/a", body: body))
        let response = try client.readResponse(to: "POST")
        #expect(response.status == 200)
        #expect(response.text.contains("POST https://demo.pinproxy.test/a"))
        process.signal(SIGTERM)
        let finished = try process.waitForExit()
        #expect(finished.exitCode == 0)
        let line = try #require(LogLine(String(finished.output.split(separator: "\n").first ?? "")))
        #expect(line.object("pinning")?["verdict"] as? String == "pass")
    }

    @Test("--demo-origin ends with 78 if the configuration has its host")
    func demoHostIsTaken() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: try TestPKI())
        settings.hosts["demo.pinproxy.test"] = ["upgrade": true]
        let finished = try pinproxy("run", "--config", settings.write(to: folder), "--demo-origin")
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains("demo.pinproxy.test"))
    }
}
