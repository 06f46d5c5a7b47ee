// SPDX-License-Identifier: Apache-2.0
import Foundation
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("/etc/hosts", .onOwnThreads)
struct HostsFileTests {
    private func addresses(_ text: String, _ name: String) -> [String] {
        HostsFile(Array(text.utf8)).addresses(of: name).map(\.description)
    }

    @Test("a name has the addresses of all its lines, in order")
    func own() {
        // c-ares 1.34 gives all three names all addresses.
        let text = "192.0.2.1 a.test\n192.0.2.2 a.test\n192.0.2.1 b.test\n::1 b.test c.test\n192.0.2.2 a.test\n"
        #expect(addresses(text, "a.test") == ["192.0.2.1:0", "192.0.2.2:0"])
        #expect(addresses(text, "b.test") == ["192.0.2.1:0", "[::1]:0"])
        #expect(addresses(text, "c.test") == ["[::1]:0"])
        #expect(addresses(text, "d.test") == [])
    }

    @Test("the first 16 addresses of a family count")
    func many() {
        // A search for each line among all before it would take minutes.
        let lines = (0..<30_000).map {
            "10.\($0 >> 16).\($0 >> 8 & 255).\($0 & 255) a.test\nfd00::\(String($0, radix: 16)) a.test\n"
        }
        let file = HostsFile(Array((lines.joined() + "192.0.2.1 b.test\n").utf8))
        let found = file.addresses(of: "a.test").map(\.description)
        #expect(found.count == 32 && found.prefix(2) == ["10.0.0.0:0", "[fd00::]:0"])
        #expect(file.addresses(of: "b.test").map(\.description) == ["192.0.2.1:0"])
    }

    @Test("names have no case; comments and unreadable lines do no harm")
    func form() {
        let text =
            "# 192.0.2.9 a.test\n\t192.0.2.1\tA.Test  other.test # b.test\r\n\n   \n192.0.2.2\n127.1 c.test\nfe80::1%lo d.test\n"
            + "::ffff:192.0.2.3 e.test\n\u{1}\u{2} f.test\n192.0.2.4 last.test"
        #expect(addresses(text, "a.test") == ["192.0.2.1:0"])
        #expect(addresses(text, "other.test") == ["192.0.2.1:0"])
        for name in ["b.test", "c.test", "d.test", "f.test", "#", ""] {
            #expect(addresses(text, name) == [], "\(name)")
        }
        #expect(addresses(text, "e.test") == ["192.0.2.3:0"])
        #expect(addresses(text, "last.test") == ["192.0.2.4:0"])
        #expect(addresses("", "a.test") == [])
    }

    /// The addresses of a.test as a session finds them.
    private func look(_ hosts: SystemHosts, on loop: EventLoop) throws -> [String] {
        var isDone = false
        hosts.update { isDone = $0 == nil }
        let deadline = Date(timeIntervalSinceNow: Patience.seconds)
        while !loop.run(until: { isDone }, atMost: .milliseconds(20)) {
            if Date() > deadline { throw TimedOut("/etc/hosts") }
        }
        return hosts.addresses(of: "a.test").map(\.description)
    }

    @Test("a file that changes, comes or goes is followed")
    func followed() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/hosts"
        let loop = try EventLoop()
        let hosts = SystemHosts(HostsReader(path: path), loop: loop)
        defer { hosts.close() }
        #expect(!hosts.isCurrent)
        #expect(try look(hosts, on: loop) == [])
        #expect(hosts.isCurrent)
        try folder.write("192.0.2.1 a.test", as: "hosts")
        #expect(try look(hosts, on: loop) == ["192.0.2.1:0"])
        try folder.write("192.0.2.33 a.test", as: "hosts")
        #expect(try look(hosts, on: loop) == ["192.0.2.33:0"])
        try FileManager.default.removeItem(atPath: path)
        #expect(try look(hosts, on: loop) == [])
    }

    @Test("the last contents hold as long as the file cannot be read")
    func unreadable() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/hosts"
        try folder.write("192.0.2.1 a.test", as: "hosts")
        let loop = try EventLoop()
        let hosts = SystemHosts(HostsReader(path: path), loop: loop)
        defer { hosts.close() }
        #expect(try look(hosts, on: loop) == ["192.0.2.1:0"])
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        #expect(try look(hosts, on: loop) == ["192.0.2.1:0"])
        try FileManager.default.removeItem(atPath: path)
        try folder.write("192.0.2.2 a.test", as: "hosts")
        #expect(try look(hosts, on: loop) == ["192.0.2.2:0"])
    }

    @Test("a slow file does not block the loop: names wait for it")
    func slow() throws {
        let folder = try TemporaryFolder()
        try folder.write("192.0.2.1 a.test", as: "hosts")
        let gate = DispatchSemaphore(value: 0)
        let reads = Monitor(0)
        let reader = HostsReader(path: "\(folder.path)/hosts", lifetime: .milliseconds(50)) { path in
            reads.with { $0 += 1 }
            gate.wait()
            return FileContents.read(path, limit: 1 << 20)
        }
        let loop = try EventLoop()
        var configuration = SessionConfiguration()
        let server = try NameServer { _, _ in .address(0xC000_0263, lifetime: 60) }
        configuration.nameServers = server.text
        let names = NameResolver(loop: loop, configuration, hosts: reader)
        defer { names.close() }
        var answers: [String: NameAnswer] = [:]
        func run(until isSo: () -> Bool) throws {
            let deadline = Date(timeIntervalSinceNow: Patience.seconds)
            while !loop.run(until: isSo, atMost: .milliseconds(20)) {
                if Date() > deadline { throw TimedOut("names") }
            }
        }
        func ask(_ name: String) {
            answers[name] = names.answer(for: name)
            if answers[name] == nil { _ = names.wait(for: name) { answers[name] = $0 } }
        }
        ask("a.test")
        ask("b.test")
        names.withdraw(names.wait(for: "c.test") { _ in Issue.record("it was withdrawn") })
        try run { reads.with { $0 } == 1 }
        // The loop turns, and nothing is asked of the name servers meanwhile.
        for _ in 0..<3 { loop.run(atMost: .milliseconds(1)) }
        #expect(answers.isEmpty && server.questions.isEmpty)
        gate.signal()
        try run { answers.count == 2 }
        #expect(try answers["a.test"]?.get() == [SocketAddress(ipv4: 0xC000_0201, port: 0)])
        #expect(try answers["b.test"]?.get() == [SocketAddress(ipv4: 0xC000_0263, port: 0)])
        #expect(server.questions == ["b.test"])

        // The file changes, and cannot be read at first.
        try folder.write("192.0.2.22 a.test", as: "hosts")
        try run {
            ask("a.test")
            return reads.with { $0 } == 2
        }
        try run { answers["a.test"] != nil }
        #expect(try answers["a.test"]?.get() == [SocketAddress(ipv4: 0xC000_0201, port: 0)])
        gate.signal()
        try run {
            ask("a.test")
            return (try? answers["a.test"]?.get()) == [SocketAddress(ipv4: 0xC000_0216, port: 0)]
        }
    }

    @Test(
        "no name server is asked before the file was read once",
        arguments: [(EMFILE, NameFailure.Reason.withoutDescriptor), (EACCES, .failed)]
    )
    func neverRead(code: Int32, reason: NameFailure.Reason) throws {
        let folder = try TemporaryFolder()
        try folder.write("192.0.2.1 a.test", as: "hosts")
        let isReadable = Monitor(false)
        let reader = HostsReader(path: "\(folder.path)/hosts") { path in
            guard isReadable.with({ $0 }) else {
                return .failure(FileContents.Fault(message: "cannot be read", remedy: "make it readable", code: code))
            }
            return FileContents.read(path, limit: 1 << 20)
        }
        let loop = try EventLoop()
        var configuration = SessionConfiguration()
        let server = try NameServer { _, _ in .address(0xC000_0263, lifetime: 60) }
        configuration.nameServers = server.text
        let names = NameResolver(loop: loop, configuration, hosts: reader)
        defer { names.close() }
        func ask(_ name: String) throws -> NameAnswer {
            var answer = names.answer(for: name)
            if answer == nil { _ = names.wait(for: name) { answer = $0 } }
            let deadline = Date(timeIntervalSinceNow: Patience.seconds)
            while !loop.run(until: { answer != nil }, atMost: .milliseconds(20)) {
                if Date() > deadline { throw TimedOut(name) }
            }
            return answer!
        }
        guard case .failure(let failure) = try ask("a.test") else { throw TimedOut("a failure") }
        #expect(failure.reason == reason && failure.words.contains("/etc/hosts"), "\(failure)")
        #expect(server.questions.isEmpty)
        isReadable.with { $0 = true }
        #expect(try ask("a.test").get() == [SocketAddress(ipv4: 0xC000_0201, port: 0)])
        #expect(try ask("b.test").get() == [SocketAddress(ipv4: 0xC000_0263, port: 0)])
        #expect(server.questions == ["b.test"])
    }
}
