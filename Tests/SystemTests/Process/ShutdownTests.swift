// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@Suite("The end of the program", .onOwnThreads)
struct ShutdownTests {
    @Test(
        "SIGTERM and SIGINT let running requests finish, and end with 0",
        arguments: [SIGTERM, SIGINT]
    )
    func drain(signal: Int32) throws {
        let gate = Gate()
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nfirst")
            try gate.pass()
            try connection.write(" last ")
        }
        let idle = try stage.proxy.connect()
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        stage.proxy.signal(signal)
        try Patience.poll(for: "the listener to close") { (try? stage.proxy.connect()) == nil ? true : nil }
        #expect(try idle.isAtEnd())
        gate.open()
        #expect(try client.readResponse().text == "first last ")
        #expect(try client.isAtEnd())
        #expect(try stage.proxy.waitForExit().exitCode == 0)
        // The line of the last request is not lost.
        #expect(stage.proxy.taskLines.count == 1)
    }

    @Test("a response that begins during the drain says Connection: close")
    func closeSaid() throws {
        let gate = Gate()
        let stage = try Stage { connection in
            guard let request = try connection.readRequest() else { return }
            try gate.pass()
            try connection.respond(request.target)
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/late")))
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        stage.proxy.signal(SIGTERM)
        try Patience.poll(for: "the listener to close") { (try? stage.proxy.connect()) == nil ? true : nil }
        gate.open()
        let response = try client.readResponse()
        #expect(response.text == "/late")
        #expect(response["Connection"] == "close")
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }

    @Test("requests sent before the stop get responses")
    func nothingIsDropped() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let kept = try stage.proxy.connect()
        try kept.send(ProxyUnderTest.request("GET", stage.url("/first")))
        #expect(try kept.readResponse().text == "/first")
        // While the process stands still, the kernel takes both requests and the signal.
        stage.proxy.signal(SIGSTOP)
        try kept.send(ProxyUnderTest.request("GET", stage.url("/kept")))
        let new = try stage.proxy.connect()
        try new.send(ProxyUnderTest.request("GET", stage.url("/new")))
        stage.proxy.signal(SIGTERM)
        stage.proxy.signal(SIGCONT)
        #expect(try kept.readResponse().text == "/kept")
        #expect(try new.readResponse().text == "/new")
        #expect(try stage.proxy.waitForExit().exitCode == 0)
    }

    @Test("the drain is bounded by timeouts.drain")
    func bounded() throws {
        let stage = try Stage({ $0.setTimeouts(["drain": "200ms"]) }) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        #expect(try stage.proxy.terminate().exitCode == 0)
        #expect(try client.isAtEnd())
        try stage.origin.waitForClosed()
    }

    @Test("a proxy without requests ends soon, despite idle connections")
    func idle() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        #expect(try client.readResponse().status == 200)
        stage.proxy.signal(SIGTERM)
        // Well before the drain's bound of 30 s.
        #expect(try stage.proxy.waitForExit(seconds: 10).exitCode == 0)
        #expect(try client.isAtEnd())
    }

    @Test("Unix sockets are removed at the end")
    func unixSocket() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/proxy.sock"
        for _ in 0..<2 {
            let stage = try Stage({ $0.addUnixSocket(path) }) { OriginResponse.text($0.target) }
            let response = try stage.proxy.exchange(ProxyUnderTest.request("GET", stage.url("/unix")), on: 1)
            #expect(response.text == "/unix")
            #expect(try stage.proxy.terminate().exitCode == 0)
            #expect(access(path, F_OK) != 0)
        }
    }

    @Test("a killed proxy's Unix socket does not prevent the next start")
    func staleUnixSocket() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/proxy.sock"
        let killed = try Stage({ $0.addUnixSocket(path) }) { OriginResponse.text($0.target) }
        killed.proxy.signal(SIGKILL)
        try killed.proxy.waitForExit()
        #expect(access(path, F_OK) == 0)
        let next = try Stage({ $0.addUnixSocket(path) }) { OriginResponse.text($0.target) }
        let response = try next.proxy.exchange(ProxyUnderTest.request("GET", next.url("/again")), on: 1)
        #expect(response.text == "/again")
    }
}
