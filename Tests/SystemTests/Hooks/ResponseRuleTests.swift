// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Rules for responses", .onOwnThreads)
struct ResponseRuleTests {
    private func stage(
        _ responses: [String: Any],
        _ change: (inout ProxySettings) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws -> Stage {
        try Stage(
            {
                $0.hosts[Stage.host]?["responses"] = responses
                change(&$0)
            },
            script: script
        )
    }

    private func downloads(
        _ folder: TemporaryFolder,
        _ members: [String: Any] = [:],
        script: @escaping ScriptedOrigin.Script
    ) throws -> Stage {
        let rule: [String: Any] = ["contentType": "application/*", "then": "becomeDownload", "directory": folder.path]
        return try stage(members.merging(["rules": [rule]]) { $1 }, script: script)
    }

    private func files(_ folder: TemporaryFolder) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path)
    }

    private static func respond(_ connection: OriginConnection, _ body: [UInt8], chunked: Bool = false) throws {
        let framing = chunked ? "Transfer-Encoding: chunked" : "Content-Length: \(body.count)"
        try connection.write("HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n\(framing)\r\n\r\n")
        if chunked { try connection.write("\(String(body.count, radix: 16))\r\n") }
        try connection.write(body)
        if chunked { try connection.write("\r\n0\r\n\r\n") }
    }

    @Test("a cancelled response does not reach the client")
    func cancelled() throws {
        let responses: [String: Any] = [
            "rules": [["contentType": "text/html", "then": "cancel"]], "acceptableStatusCodes": "2xx",
        ]
        let stage = try stage(responses, { $0.members["workers"] = 1 }) {
            while let request = try $0.readRequest() {
                let type = request.target == "/html" ? "text/html; charset=utf-8" : "text/plain"
                try $0.respond(
                    "body",
                    status: request.target == "/bad" ? "404 Not Found" : "200 OK",
                    fields: ["Content-Type: \(type)"]
                )
            }
        }
        for (target, status) in [("/", 200), ("/html", 502), ("/bad", 502)] {
            let response = try stage.get(target)
            #expect(response.status == status)
            if status == 502 {
                #expect(response.problemCode == "response_denied")
                #expect(response["Proxy-Status"]?.contains("error=http_request_denied") == true)
                #expect(response.text.contains("hosts/\(Stage.host)/responses/"), "\(response.text)")
            }
        }
        // The first and the second request had one connection, the third needed another.
        #expect(stage.origin.connections.count == 2)
        let lines = try stage.proxy.waitForTaskLines(3)
        #expect(lines.filter { $0.string("error") == "response_denied" }.count == 2)
    }

    @Test("a body that turns out too long is visibly truncated", arguments: ["1.0", "1.1"])
    func cutOff(version: String) throws {
        let stage = try stage(["maxBytes": "1MB"]) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            let piece = String(repeating: "x", count: 64 << 10)
            for _ in 0..<32 { try connection.write("10000\r\n\(piece)\r\n") }
            try connection.write("0\r\n\r\n")
        }
        let curl = try Programs.run(
            "curl",
            [
                "-sS", "--http\(version)", "-x", "http://127.0.0.1:\(stage.proxy.port)", "-o", "/dev/null",
                stage.url("/"),
            ]
        )
        #expect(curl.exitCode != 0, "\(curl.output)")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "response_too_large")
        #expect((line.integer("bytesReceived") ?? 0) <= 1 << 20)
    }

    @Test("a body with too large a length is refused at once")
    func tooLong() throws {
        let stage = try stage(["maxBytes": "1KB"]) { connection in
            while try connection.readRequest() != nil {
                try connection.respond(String(repeating: "x", count: connection.number == 0 ? 1025 : 1024))
            }
        }
        let response = try stage.get("/")
        #expect(response.status == 502 && response.problemCode == "response_too_large")
        #expect(response["Proxy-Status"]?.contains("error=http_response_body_size") == true)
        #expect(try stage.get("/").body.count == 1024)
    }

    @Test("a response becomes a file, and the client learns of it", arguments: [true, false])
    func download(chunked: Bool) throws {
        let folder = try TemporaryFolder()
        let body = patternBytes(3 << 20)
        let stage = try downloads(folder) { connection in
            while try connection.readRequest() != nil { try Self.respond(connection, body, chunked: chunked) }
        }
        let client = try stage.proxy.connect()
        for number in 1...2 {
            try client.send(ProxyUnderTest.request("GET", stage.url("/files/report%20(1).zip?key=x")))
            let response = try client.readResponse()
            #expect(response.status == 201 && response["Content-Type"] == "application/json")
            let told = try #require(try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any])
            let path = try #require(told["path"] as? String)
            #expect(path.hasPrefix("\(folder.path)/") && path.hasSuffix("-report_20_1_.zip"))
            #expect(response["Location"] == "file://\(path)")
            #expect(told["bytes"] as? Int == body.count)
            let isIntact = try Array(Data(contentsOf: URL(fileURLWithPath: path))) == body
            #expect(isIntact)
            let sum = try Programs.run("sha256sum", [path])
            #expect(sum.output.split(separator: " ").first.map(String.init) == told["sha256"] as? String)
            #expect(try files(folder).count == number)
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode.map { $0 & 0o007 } == 0)
        }
        let line = try #require(try stage.proxy.waitForTaskLines(2).last)
        #expect(line.integer("status") == 201 && line.integer("bytesReceived") == 0)
        #expect(line.string("download")?.hasPrefix(folder.path) == true)
    }

    @Test("an empty response becomes an empty file")
    func emptyDownload() throws {
        let folder = try TemporaryFolder()
        let stage = try downloads(folder) { connection in
            while try connection.readRequest() != nil { try Self.respond(connection, []) }
        }
        let response = try stage.get("/")
        #expect(response.status == 201 && response.text.contains("\"bytes\":0"))
        #expect(try files(folder).first?.hasSuffix("-download") == true)
    }

    @Test("a response that breaks off or grows too long leaves no file", arguments: ["cut", "long"])
    func brokenDownload(how: String) throws {
        let folder = try TemporaryFolder()
        let stage = try downloads(folder, how == "long" ? ["maxBytes": "1MB"] : [:]) { connection in
            _ = try connection.readRequest()
            try connection.write(
                "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            let piece = String(repeating: "x", count: 64 << 10)
            for _ in 0..<32 { try connection.write("10000\r\n\(piece)\r\n") }
        }
        let response = try stage.get("/")
        #expect(response.status == 502)
        #expect(response.problemCode == (how == "long" ? "response_too_large" : "response_truncated"))
        #expect(try files(folder).isEmpty)
    }

    @Test("a client that leaves, leaves no file")
    func goneDuringDownload() throws {
        let folder = try TemporaryFolder()
        let hasBegun = Gate()
        let stage = try downloads(folder) { connection in
            _ = try connection.readRequest()
            try connection.write(
                "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Length: 100000\r\n\r\nabc"
            )
            hasBegun.open()
            connection.readToEnd()
        }
        let client = try stage.proxy.connect()
        try client.send(ProxyUnderTest.request("GET", stage.url("/")))
        try hasBegun.pass()
        client.reset()
        try stage.origin.waitForClosed()
        #expect(try stage.proxy.waitForTaskLines(1).first?.string("error") == "client_closed")
        #expect(try files(folder).isEmpty)
    }

    @Test("a folder that cannot be written to is an error that says so")
    func unwritable() throws {
        let folder = try TemporaryFolder()
        let stage = try downloads(folder) { connection in
            while try connection.readRequest() != nil { try Self.respond(connection, patternBytes(2 << 20)) }
        }
        try FileManager.default.removeItem(atPath: folder.path)
        let response = try stage.get("/")
        #expect(response.status == 500 && response.problemCode == "file_failed")
        #expect(response.text.contains(folder.path))
    }

    @Test("HEAD of a file response is relayed unchanged")
    func headOfDownload() throws {
        let folder = try TemporaryFolder()
        let stage = try downloads(folder) { connection in
            while try connection.readRequest() != nil {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Length: 10\r\n\r\n")
            }
        }
        let response = try stage.proxy.exchange(ProxyUnderTest.request("HEAD", stage.url("/")), method: "HEAD")
        #expect(response.status == 200 && response["Content-Length"] == "10")
        #expect(try files(folder).isEmpty)
    }

    // MARK: Quotas

    private func quota(
        _ folder: TemporaryFolder,
        _ quota: String,
        _ change: (inout ProxySettings) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws -> Stage {
        let rule: [String: Any] = [
            "contentType": "application/*", "then": "becomeDownload", "directory": folder.path, "quota": quota,
        ]
        return try stage(["rules": [rule]], change, script: script)
    }

    @Test(
        "a folder's quota counts existing files, and not removed ones",
        arguments: [true, false]
    )
    func quota(chunked: Bool) throws {
        let folder = try TemporaryFolder()
        let body = patternBytes(300 << 10)
        // Two have room beside it, three have not.
        try folder.write(String(repeating: "x", count: 400 << 10), as: "there-before")
        let admin: (inout ProxySettings) -> Void = { $0.members["admin"] = ["address": "127.0.0.1:0"] }
        let stage = try quota(folder, "1MB", admin) { connection in
            while try connection.readRequest() != nil { try Self.respond(connection, body, chunked: chunked) }
        }
        let first = try [stage.get("/1"), stage.get("/2")]
        #expect(first.map(\.status) == [201, 201], "\(first.map(\.text))")
        let refused = try stage.get("/3")
        #expect(refused.status == 507 && refused.problemCode == "quota_reached", "\(refused.text)")
        #expect(refused.text.contains(folder.path) && refused.text.contains("quota"), "\(refused.text)")
        // The refused file goes on the thread for files, perhaps after the response.
        try Patience.poll(for: "the refused file to go") { try files(folder).count == 3 ? true : nil }
        #expect(try files(folder).count == 3)
        // Two workers write it, each when it comes to that.
        #expect(try stage.proxy.waitForTaskLines(3).compactMap { $0.string("error") } == ["quota_reached"])
        let metrics = try stage.proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        #expect(metrics.text.contains("pinproxy_task_errors_total{error=\"quota_reached\"} 1\n"))
        // A proxy that starts anew counts what is there.
        let again = try ProxyUnderTest(stage.settings)
        #expect(try again.get(stage.url("/4")).status == 507)
        try FileManager.default.removeItem(atPath: "\(folder.path)/there-before")
        #expect(try again.get(stage.url("/5")).status == 201)
        try Patience.poll(for: "the room to be found") { try stage.get("/6").status == 507 ? true : nil }
        try Patience.poll(for: "the refused file to go") { try files(folder).count == 3 ? true : nil }
        #expect(try files(folder).count == 3)
    }

    @Test("a response above the folder's quota is refused before its body")
    func quotaByLength() throws {
        let folder = try TemporaryFolder()
        let stage = try quota(folder, "1MB") { connection in
            while let request = try connection.readRequest() {
                let length = request.target == "/large" ? (1 << 20) + 1 : 1 << 20
                try connection.write(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Length: \(length)\r\n\r\n"
                )
                guard request.target == "/large" else {
                    try connection.write(patternBytes(length))
                    continue
                }
                connection.readToEnd()
            }
        }
        #expect(try stage.get("/large").status == 507)
        #expect(try files(folder).isEmpty)
        #expect(try stage.get("/exact").status == 201)
        #expect(try files(folder).count == 1)
    }

    @Test("simultaneous responses share a folder's quota")
    func sharedQuota() throws {
        let folder = try TemporaryFolder()
        let gate = Gate()
        let hasBegun = Gate()
        let stage = try quota(folder, "1MB") { connection in
            while let request = try connection.readRequest() {
                try connection.write(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Length: \(800 << 10)\r\n\r\n"
                )
                let body = patternBytes(800 << 10)
                guard request.target == "/slow" else {
                    try connection.write(body)
                    continue
                }
                try connection.write(Array(body[..<(700 << 10)]))
                hasBegun.open()
                try gate.pass()
                return connection.close(.reset)
            }
        }
        let slow = try stage.proxy.connect()
        try slow.send(ProxyUnderTest.request("GET", stage.url("/slow")))
        try hasBegun.pass()
        let descriptors = "/proc/\(stage.proxy.identifier)/fd"
        try Patience.poll(for: "its file, which has no name yet") {
            try FileManager.default.contentsOfDirectory(atPath: descriptors).contains { number in
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(descriptors)/\(number)")
                return target?.hasPrefix("\(folder.path)/") == true
            } ? true : nil
        }
        // Whatever part of it has come to the disk: it has its whole length.
        #expect(try stage.get("/other").status == 507)
        gate.open()
        #expect(try slow.readResponse().status == 502)
        #expect(try files(folder).isEmpty)
        try Patience.poll(for: "its share to be free") { try stage.get("/next").status == 201 ? true : nil }
    }
}
