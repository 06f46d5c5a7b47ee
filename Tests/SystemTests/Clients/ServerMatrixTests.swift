// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Real servers behind a pin; `make clients` runs all of them, and writes docs/clients.md.
@Suite("The matrix of real servers", .earlyOnOwnThreads)
struct ServerMatrixTests {
    private static let absent = MatrixServer.all.compactMap { server in server.absence.map { (server, $0) } }
    private static let present = MatrixServer.all.filter { server in !absent.contains { $0.0.name == server.name } }

    @Test("every server of the matrix is there", .enabled(if: RealPeers.areRequired))
    func complete() {
        for (server, why) in Self.absent { Issue.record("\(server.name): \(why)") }
    }

    @Test("docs/clients.md has the table of the servers")
    func table() throws {
        let rows = MatrixServer.all.map { server in [server.name] + MatrixServer.Action.allCases.map(server.cell) }
        let columns = ["server"] + MatrixServer.Action.allCases.map(\.rawValue)
        let (found, expected) = try SeenTable(name: "servers", columns: columns, rows: rows).compare()
        #expect(found == expected)
    }

    @Test("a real server's responses are understood", arguments: present)
    func server(one: MatrixServer) throws {
        let folder = try TemporaryFolder()
        for (name, bytes) in MatrixServer.files { try folder.write(bytes: bytes, as: "files/\(name)") }
        let server = try Stage.pki.server(Stage.host)
        let running = try one.start(server, folder)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: running.port)
        settings.hosts[Stage.host]?["httpVersion"] = one.version
        let proxy = try ProxyUnderTest(settings)
        for action in MatrixServer.Action.allCases where one.lacks[action] == nil {
            let problem = try Self.problem(action, of: one, through: proxy)
            #expect(problem == nil, "\(action)")
        }
        let lines = try Patience.poll(for: "the log") { () -> [LogLine]? in
            let lines = proxy.taskLines
            return lines.contains { $0.string("url")?.hasSuffix("?keep=2") == true } ? lines : nil
        }
        let last = try #require(lines.first { $0.string("url")?.hasSuffix("?keep=2") == true })
        #expect(last.transactions.first?["reusedConnection"] as? Bool == true)
        #expect(last.transactions.first?["networkProtocolName"] as? String == (one.version == "2" ? "h2" : "http/1.1"))
        #expect(lines.allSatisfy { $0.object("pinning")?["verdict"] as? String == "pass" })
        #expect(try proxy.terminate().exitCode == 0)
        withExtendedLifetime(running) {}
    }

    /// What was not as it has to be; nil when all was.
    private static func problem(
        _ action: MatrixServer.Action,
        of server: MatrixServer,
        through proxy: ProxyUnderTest
    ) throws -> String? {
        let page = Array(MatrixServer.page.utf8)
        func ask(_ method: String, _ path: String, _ fields: [String] = [], body: String? = nil) throws -> HTTPMessage {
            let url = "http://\(Stage.host)\(path)"
            let request = ProxyUnderTest.request(method, url, fields: fields, body: body)
            return try proxy.exchange(request, method: method)
        }
        func told(_ response: HTTPMessage, _ isRight: Bool) -> String? {
            isRight ? nil : "\(response.startLine) \(response.fields) \(response.text.prefix(200))"
        }
        let (method, path) = server.takes
        func isTaken(_ response: HTTPMessage, _ body: String) -> Bool {
            method == "POST" ? response.status == 200 && response.text == body : [201, 204].contains(response.status)
        }
        switch action {
        case .get:
            let response = try ask("GET", "/files/page.txt")
            return told(response, response.status == 200 && response.body == page)
        case .head:
            let response = try ask("HEAD", "/files/page.txt")
            return told(response, response.status == 200 && response.body.isEmpty)
        case .body:
            let response = try ask(method, path, body: "some words")
            return told(response, isTaken(response, "some words"))
        case .revalidate:
            let first = try ask("GET", "/files/page.txt")
            let condition =
                first["ETag"].map { "If-None-Match: \($0)" } ?? "If-Modified-Since: \(first["Last-Modified"] ?? "")"
            let response = try ask("GET", "/files/page.txt", [condition])
            return told(response, response.status == 304 && response.body.isEmpty)
        case .range:
            let response = try ask("GET", "/files/page.txt", ["Range: bytes=100-199"])
            return told(response, response.status == 206 && response.body == Array(page[100..<200]))
        case .chunked:
            let response = try ask("GET", server.chunked.path, server.chunked.fields)
            let isWhole =
                server.chunked.fields.isEmpty
                ? response.text == "piece piece piece " : response.body.starts(with: [0x1F, 0x8B])
            return told(
                response,
                response.status == 200 && response["Content-Length"] == nil && isWhole && !response.isTruncated
            )
        case .gzip:
            let response = try ask("GET", "/files/page.txt", ["Accept-Encoding: gzip"])
            let isPacked = response.body.starts(with: [0x1F, 0x8B]) && response.body.count < 1000
            return told(response, response["Content-Encoding"] == "gzip" && isPacked)
        case .early:
            let client = try proxy.connect()
            let fields = ["Content-Length: 8000000"]
            try client.send(ProxyUnderTest.request("POST", "http://\(Stage.host)/refuse", fields: fields))
            try client.send([UInt8](repeating: 1, count: 10_000))
            let response = try client.readResponse(to: "POST")
            return told(response, response.status == 413)
        case .expect:
            let client = try proxy.connect()
            let fields = ["Expect: 100-continue", "Content-Length: 10"]
            try client.send(ProxyUnderTest.request(method, "http://\(Stage.host)\(path)", fields: fields))
            let word = String(decoding: try client.receive(), as: UTF8.self)
            guard word == "HTTP/1.1 100 Continue\r\n\r\n" else { return word }
            try client.send("more words")
            let response = try client.readResponse(to: method)
            return told(response, isTaken(response, "more words"))
        case .keep:
            let client = try proxy.connect()
            for number in 1...2 {
                try client.send(ProxyUnderTest.request("GET", "http://\(Stage.host)/files/page.txt?keep=\(number)"))
                let response = try client.readResponse()
                guard response.body == page else { return told(response, false) }
            }
            return nil
        }
    }
}
