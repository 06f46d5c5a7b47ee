// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Clients that go away", .onOwnThreads)
struct ClientGoneTests {
    @Test("a client that resets while it waits cancels its transfer")
    func resetWhileWaiting() throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            // No answer: what ends the connection is the proxy.
            connection.readToEnd()
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        client.reset()
        try stage.origin.waitForClosed()
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "client_closed")
        #expect(line["status"] == nil)
    }

    @Test("a client that resets within a response cancels its transfer")
    func resetWhileReceiving() throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            connection.readToEnd()
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        #expect(try client.readResponseHead().status == 200)
        client.reset()
        try stage.origin.waitForClosed()
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "client_closed")
        #expect(line.integer("status") == 200)
    }

    @Test("a client that resets within its upload leaves a broken request")
    func resetWhileSending() throws {
        let stage = try Stage { connection in
            guard let head = try connection.readRequestHead() else { return }
            _ = try connection.readBody(of: head)
        }
        let client = try stage.proxy.connect()
        try client.send("PUT \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: 10\r\n\r\nabc")
        try stage.origin.wait(for: "the request's head") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        client.reset()
        let records = try stage.origin.waitForClosed()
        #expect(records[0].requests.allSatisfy { $0.isTruncated })
    }

    @Test("a client that half-closes after its request gets its response")
    func halfClose() throws {
        let gate = Gate()
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try gate.pass()
            try connection.respond("after the half-close")
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url()))
        client.finishSending()
        try stage.origin.wait(for: "the request") { $0.contains { !$0.requests.isEmpty } ? true : nil }
        gate.open()
        #expect(try client.readResponse().text == "after the half-close")
        #expect(try client.isAtEnd())
    }

    @Test("a client that half-closes after a whole upload gets its response")
    func halfCloseAfterUpload() throws {
        let stage = try Stage { OriginResponse.text("\($0.body.count)") }
        let client = try stage.proxy.connect()
        try client.send("POST \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nContent-Length: 100000\r\n\r\n")
        try client.send([UInt8](repeating: 98, count: 100_000))
        client.finishSending()
        #expect(try client.readResponse(to: "POST").text == "100000")
    }

    @Test(
        "rule 36: a truncated body is never whole to the origin",
        arguments: ["Content-Length: 10", "Transfer-Encoding: chunked"]
    )
    func truncatedUpload(framing: String) throws {
        let stage = try Stage { connection in
            while let request = try connection.readRequest() {
                if request.isTruncated { return }
                try connection.respond("whole")
            }
        }
        let client = try stage.proxy.connect()
        let start = framing.hasPrefix("Content") ? "abc" : "5\r\nab"
        try client.send("PUT \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\n\(framing)\r\n\r\n\(start)")
        client.finishSending()
        let response = try client.readResponse(to: "PUT")
        #expect(response.status == 400)
        #expect(response["Connection"] == "close")
        #expect(try client.isAtEnd())
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "request_invalid")
        #expect(stage.origin.requests.allSatisfy { $0.isTruncated })
    }
}
