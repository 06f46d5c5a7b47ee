// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("The admin listener: tasks as they end", .onOwnThreads)
struct LiveTaskTests {
    private static let wrongHost = "wrong.example.com"

    private func stage(_ change: @escaping (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            // Two workers hand their lines over in either order.
            settings.members["workers"] = 1
            settings.members["log"] = ["redact": ["token"]]
            settings.resolve(Self.wrongHost, to: 1)
            change(&settings)
        } responding: {
            OriginResponse.text($0.target)
        }
    }

    private static func get(_ path: String, from proxy: ProxyUnderTest, fields: [String] = []) throws -> HTTPMessage {
        let lines = ["GET \(path) HTTP/1.1", "Host: localhost"] + fields
        return try proxy.exchange(lines.joined(separator: "\r\n") + "\r\n\r\n", on: proxy.listening.count - 1)
    }

    private static func object(_ path: String, from proxy: ProxyUnderTest) throws -> [String: Any] {
        let response = try get(path, from: proxy)
        try #require(response.status == 200, "\(response.startLine) \(response.text)")
        return try #require(try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any])
    }

    /// Waits until so many tasks are listed, the latest first.
    private static func tasks(_ count: Int, of proxy: ProxyUnderTest) throws -> [[String: Any]] {
        try Patience.poll(for: "\(count) tasks") {
            let tasks = try object("/tasks", from: proxy)["tasks"] as? [[String: Any]]
            return tasks.flatMap { $0.count >= count ? $0 : nil }
        }
    }

    @Test("ended tasks are listed, the latest first, masked as in the log")
    func list() throws {
        let stage = try stage()
        let proxy = stage.proxy
        #expect(try stage.get("/one?token=secret&b=2").status == 200)
        #expect(try proxy.get("http://\(Self.wrongHost)/two").problemCode == "connect_failed")
        let tasks = try Self.tasks(2, of: proxy)
        #expect(
            tasks.map { $0["url"] as? String } == [
                "http://\(Self.wrongHost)/two", "https://\(Stage.host)/one?token=***&b=2",
            ]
        )
        #expect(tasks[0]["error"] as? String == "connect_failed")
        #expect((tasks[1]["pinning"] as? [String: Any])?["verdict"] as? String == "pass")
        let lines = try proxy.waitForTaskLines(2)
        #expect(lines.map { $0.string("url") } == tasks.reversed().map { $0["url"] as? String })
        #expect(try Self.object("/tasks?limit=1", from: proxy)["next"] as? Int == 2)
        let archive = try Self.get("/tasks.har", from: proxy)
        #expect(archive["Content-Disposition"] == "attachment; filename=\"pinproxy.har\"")
        #expect(archive.text.contains("token=***") && !archive.text.contains("secret"))
        let log = try #require(try Self.object("/tasks.har", from: proxy)["log"] as? [String: Any])
        #expect((log["entries"] as? [Any])?.count == 2)
    }

    // MARK: The archive

    /// Members that HAR 1.2 demands of each object (w3c.github.io/web-performance/specs/HAR), and those that it allows.
    private static let archiveMembers: [String: (needed: [String: Any.Type], allowed: Set<String>)] = [
        "log": (
            ["version": String.self, "creator": Object.self, "entries": [Any].self], ["browser", "pages", "comment"]
        ),
        "creator": (["name": String.self, "version": String.self], ["comment"]),
        "entry": (
            [
                "startedDateTime": String.self, "time": Double.self, "request": Object.self, "response": Object.self,
                "cache": Object.self, "timings": Object.self,
            ], ["pageref", "serverIPAddress", "connection", "comment"]
        ),
        "request": (
            [
                "method": String.self, "url": String.self, "httpVersion": String.self, "cookies": [Any].self,
                "headers": [Any].self, "queryString": [Any].self, "headersSize": Double.self, "bodySize": Double.self,
            ], ["postData", "comment"]
        ),
        "response": (
            [
                "status": Double.self, "statusText": String.self, "httpVersion": String.self, "cookies": [Any].self,
                "headers": [Any].self, "content": Object.self, "redirectURL": String.self, "headersSize": Double.self,
                "bodySize": Double.self,
            ], ["comment"]
        ),
        "content": (["size": Double.self, "mimeType": String.self], ["compression", "text", "encoding", "comment"]),
        "timings": (
            ["send": Double.self, "wait": Double.self, "receive": Double.self],
            ["blocked", "dns", "connect", "ssl", "comment"]
        ),
        "queryString": (["name": String.self, "value": String.self], ["comment"]),
    ]

    private typealias Object = [String: Any]

    /// The object as such, with the members that it has to have, and no others but those with an underscore.
    private static func archived(_ value: Any?, as name: String) throws -> Object {
        let object = try #require(value as? Object, "\(name)")
        let (needed, allowed) = try #require(archiveMembers[name])
        for (member, type) in needed {
            let value = try #require(object[member], "\(name) has no \(member)")
            let fits =
                switch type {
                case is String.Type: value is String
                case is Double.Type: value is Double
                case is Object.Type: value is Object
                default: value is [Any]
                }
            #expect(fits, "\(name).\(member): \(value)")
        }
        for member in object.keys where !member.hasPrefix("_") {
            #expect(needed[member] != nil || allowed.contains(member), "\(name).\(member)")
        }
        return object
    }

    @Test("the archive is HAR 1.2, for tasks of every outcome")
    func archive() throws {
        let stage = try stage { settings in
            settings.members["cache"] = [String: Any]()
            settings.pin("other.example.com", to: .unrelated(2))
            settings.hosts["other.example.com"] = ["resolve": settings.hosts[Stage.host]?["resolve"] as Any]
        }
        let proxy = stage.proxy
        for path in ["/new?a=1&token=secret&c", "/kept"] { #expect(try stage.get(path).status == 200) }
        #expect(try proxy.get("http://other.example.com/").problemCode == "certificate_host_mismatch")
        #expect(try proxy.get("http://\(Self.wrongHost)/").problemCode == "connect_failed")
        #expect(try proxy.get("http://127.0.0.1:1/").problemCode == "address_denied")
        let tasks = Array(try Self.tasks(5, of: proxy).reversed())
        let log = try Self.archived(try Self.object("/tasks.har", from: proxy)["log"], as: "log")
        #expect(log["version"] as? String == "1.2")
        _ = try Self.archived(log["creator"], as: "creator")
        let entries = try #require(log["entries"] as? [Any])
        #expect(entries.count == 5)
        for (task, entry) in zip(tasks, entries) {
            let entry = try Self.archived(entry, as: "entry")
            let started = try #require(entry["startedDateTime"] as? String)
            #expect(started.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil, "\(started)")
            let request = try Self.archived(entry["request"], as: "request")
            #expect(request["url"] as? String == task["url"] as? String)
            for parameter in try #require(request["queryString"] as? [Any]) {
                _ = try Self.archived(parameter, as: "queryString")
            }
            let response = try Self.archived(entry["response"], as: "response")
            #expect(response["status"] as? Int == task["status"] as? Int)
            _ = try Self.archived(response["content"], as: "content")
            let timings = try Self.archived(entry["timings"], as: "timings")
            let times = timings.compactMapValues { $0 as? Double }
            for name in ["send", "wait", "receive"] { #expect((times[name] ?? -1) >= 0) }
            for (name, time) in times { #expect(time >= 0 || time == -1, "\(name): \(time)") }
            // -1 is a phase that did not happen; `ssl` is a part of `connect`.
            #expect(times["ssl"] ?? -1 <= times["connect"] ?? -1)
            let sum = times.filter { $0.key != "ssl" && $0.value > 0 }.values.reduce(0, +)
            let time = try #require(entry["time"] as? Double)
            #expect(abs(time - sum) < 0.002, "\(time) and \(timings)")
            let duration = try #require(task["duration"] as? Double)
            #expect(time <= duration + 0.002)
        }
        let first = try #require(entries[0] as? Object)
        #expect(first["serverIPAddress"] as? String == "127.0.0.1" && first["_pinningVerdict"] as? String == "pass")
        #expect((first["timings"] as? [String: Double])?["ssl"] ?? -1 > 0)
        #expect(((entries[1] as? Object)?["timings"] as? [String: Double])?["connect"] == -1)
        #expect((entries[2] as? Object)?["_error"] as? String == "certificate_host_mismatch")
    }

    @Test("without a task log, tasks are kept from the first request for them")
    func withoutLog() throws {
        let stage = try stage { $0.members["log"] = ["tasks": "off"] }
        #expect(try stage.get("/before").status == 200)
        #expect(try Self.object("/tasks", from: stage.proxy)["next"] as? Int == 0)
        // The workers hear of it in a turn of their own.
        _ = try Patience.poll(for: "a kept task") {
            _ = try stage.get("/then")
            return try Self.object("/tasks", from: stage.proxy)["next"] as? Int == 0 ? nil : true
        }
        try stage.reload { $0.members["log"] = ["tasks": "off", "redact": ["x"]] }
        #expect(try stage.get("/after?x=1").status == 200)
        let urls = try Self.tasks(1, of: stage.proxy).map { $0["url"] as? String }
        #expect(urls == ["https://\(Stage.host)/after?x=***"], "what was masked by other rules is forgotten")
    }

    // MARK: The stream

    /// A reader of the stream: its head has been read.
    private struct Reader {
        let client: TestClient
        private var text: String

        init(_ proxy: ProxyUnderTest, _ path: String = "/tasks/stream", fields: [String] = []) throws {
            client = try proxy.connect(to: proxy.listening.count - 1)
            let lines = ["GET \(path) HTTP/1.1", "Host: localhost"] + fields
            try client.send(lines.joined(separator: "\r\n") + "\r\n\r\n")
            text = ""
            let head = try read(to: "\r\n\r\n")
            try #require(head.hasPrefix("HTTP/1.1 200"), "\(head)")
            #expect(head.contains("\r\nContent-Type: text/event-stream\r\n") && head.hasSuffix("\r\nConnection: close"))
            #expect(try read(to: "\n\n") == "retry: 2000")
        }

        private mutating func read(to end: String) throws -> String {
            while true {
                if let range = text.range(of: end) {
                    defer { text = String(text[range.upperBound...]) }
                    return String(text[..<range.lowerBound])
                }
                let bytes = try client.receive()
                try #require(!bytes.isEmpty, "the stream has ended: \(text)")
                text += String(decoding: bytes, as: UTF8.self)
            }
        }

        /// The next event: name, id and data.
        mutating func next() throws -> (name: String, id: String, data: [String: Any]) {
            let lines = try read(to: "\n\n").split(separator: "\n")
            func value(_ name: String) -> String {
                lines.first { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) } ?? ""
            }
            let data = try JSONSerialization.jsonObject(with: Data(value("data").utf8)) as? [String: Any]
            return (value("event"), value("id"), try #require(data))
        }
    }

    @Test("readers get each task as an event, live or from a number")
    func stream() throws {
        let stage = try stage()
        #expect(try stage.get("/0").status == 200)
        _ = try Self.tasks(1, of: stage.proxy)
        var live = try Reader(stage.proxy)
        var whole = try Reader(stage.proxy, "/tasks/stream?from=0")
        #expect(try whole.next().data["url"] as? String == "https://\(Stage.host)/0")
        for number in 1...3 {
            #expect(try stage.get("/\(number)").status == 200)
            for event in [try live.next(), try whole.next()] {
                #expect(event.name == "task" && event.id == "\(number)")
                #expect(event.data["url"] as? String == "https://\(Stage.host)/\(number)")
            }
        }
        var resumed = try Reader(stage.proxy, "/tasks/stream?from=0", fields: ["Last-Event-ID: 1"])
        #expect(try resumed.next().id == "2")
        let head = try stage.proxy.exchange(
            "HEAD /tasks/stream HTTP/1.1\r\nHost: localhost\r\n\r\n",
            method: "HEAD",
            on: 1
        )
        #expect(head.status == 200 && head["Content-Type"] == "text/event-stream")
    }

    @Test("readers leave room for probes: an excess one is refused")
    func manyReaders() throws {
        let proxy = try stage().proxy
        var readers: [Reader] = []
        let refusal = try Patience.poll(for: "a refusal") { () -> HTTPMessage? in
            let client = try proxy.connect(to: 1)
            try client.send("HEAD /tasks/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let response = try client.readResponse(to: "HEAD")
            if response.status == 503 { return response }
            readers.append(try Reader(proxy))
            return nil
        }
        #expect(refusal.status == 503 && readers.count >= 8 && readers.count <= 32)
        #expect(try Self.get("/ready", from: proxy).status == 200)
        readers.removeAll()
        _ = try Patience.poll(for: "room") {
            let client = try proxy.connect(to: 1)
            try client.send("HEAD /tasks/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return try client.readResponse(to: "HEAD").status == 200 ? true : nil
        }
    }

    @Test("a reader that reads nothing costs no memory, and learns its losses")
    func slowReader() throws {
        let stage = try stage { $0.members["log"] = ["tasks": "off"] }
        let proxy = stage.proxy
        var slow = try Reader(proxy)
        // A path as long as this fills the kept megabyte, and the buffers of the sockets, with few tasks.
        let long = String(repeating: "x", count: 7_000)
        let client = try proxy.connect()
        let request = ProxyUnderTest.request("GET", "http://127.0.0.1:1/\(long)")
        var count = 0
        _ = try Patience.poll(for: "a loss", seconds: 4 * Patience.seconds) {
            for _ in 0..<100 {
                try client.send(request)
                #expect(try client.readResponse().status == 403)
                count += 1
            }
            let next = try Self.object("/tasks?limit=1", from: proxy)["next"] as? Int
            return (next ?? 0) * long.utf8.count > 16 << 20 ? true : nil
        }
        #expect(try Self.get("/live", from: proxy).status == 200)
        var seen = 0
        var lost = 0
        while lost == 0 {
            let event = try slow.next()
            if event.name == "lost" { lost = try #require(event.data["count"] as? Int) } else { seen += 1 }
        }
        #expect(lost > 0 && seen + lost <= count)
        #expect(try slow.next().name == "task")
    }

    @Test("streams end with the proxy")
    func end() throws {
        let stage = try stage()
        let reader = try Reader(stage.proxy)
        #expect(try stage.proxy.terminate().exitCode == 0)
        #expect(throws: Never.self) { _ = try reader.client.readToEnd() }
    }
}
