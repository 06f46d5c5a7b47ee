// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Signals that do not end the program", .onOwnThreads)
struct SignalTests {
    @Test("SIGUSR1 reopens the task log, and reads no file")
    func reopen() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/tasks.log"
        let stage = try Stage({ $0.members["log"] = ["tasks": path] }) { OriginResponse.text($0.target) }
        #expect(try stage.get("/first").status == 200)
        try Patience.poll(for: "the first line") { (try? lines(path)) == 1 ? true : nil }
        try FileManager.default.moveItem(atPath: path, toPath: "\(path).1")
        stage.proxy.signal(SIGUSR1)
        let event = try stage.proxy.waitForEvent("logReopened")
        #expect(event.string("signal") == "SIGUSR1")
        #expect(try stage.get("/second").status == 200)
        try Patience.poll(for: "the second line") { (try? lines(path)) == 1 ? true : nil }
        #expect(try lines("\(path).1") == 1)
        #expect(stage.proxy.events("reloaded").isEmpty)
        #expect(try stage.proxy.terminate().exitCode == 0)
    }

    @Test("a task log that cannot be reopened is a warning, and stays open")
    func cannotReopen() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/logs/tasks.log"
        try FileManager.default.createDirectory(atPath: "\(folder.path)/logs", withIntermediateDirectories: true)
        let stage = try Stage({ $0.members["log"] = ["tasks": path] }) { OriginResponse.text($0.target) }
        try FileManager.default.moveItem(atPath: "\(folder.path)/logs", toPath: "\(folder.path)/moved")
        stage.proxy.signal(SIGUSR1)
        let event = try stage.proxy.waitForEvent("warning") { $0.string("message")?.contains("task log") == true }
        #expect(event.string("message")?.contains(path) == true)
        #expect(try stage.get("/first").status == 200)
        try Patience.poll(for: "its line") { (try? lines("\(folder.path)/moved/tasks.log")) == 1 ? true : nil }
        #expect(stage.proxy.events("logReopened").isEmpty)
        #expect(try stage.proxy.terminate().exitCode == 0)
    }

    private func lines(_ path: String) throws -> Int {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").count
    }

    @Test(
        "an unused signal is reported, and nothing else happens",
        arguments: [
            (SIGUSR2, "SIGUSR2"), (SIGALRM, "SIGALRM"), (SIGVTALRM, "SIGVTALRM"), (SIGPROF, "SIGPROF"),
            (SIGIO, "SIGIO"), (SIGPWR, "SIGPWR"), (SIGSTKFLT, "SIGSTKFLT"), (Int32(64), "64"),
        ]
    )
    func unknown(signal: Int32, name: String) throws {
        let gate = Gate()
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst")
            try gate.pass()
            try connection.write(" last ")
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        stage.proxy.signal(signal)
        let event = try stage.proxy.waitForEvent("unknownSignal")
        #expect(event.string("signal") == name)
        gate.open()
        #expect(try client.readResponse().text == "first last ")
        #expect(try stage.proxy.terminate().exitCode == 0)
        #expect(stage.proxy.events("unknownSignal").count == 1)
    }

    @Test("SIGPIPE and SIGXFSZ have no effect", arguments: [SIGPIPE, SIGXFSZ])
    func ignored(signal: Int32) throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        stage.proxy.signal(signal)
        #expect(try stage.get("/").status == 200)
        #expect(try stage.proxy.terminate().exitCode == 0)
        #expect(stage.proxy.events("unknownSignal").isEmpty)
    }
}
