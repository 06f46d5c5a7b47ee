// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionStubs
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("HTTP archives", .onOwnThreads)
struct HTTPArchiveTests {
    /// A manager that replays an archive, and never retries.
    private func replaying(
        _ har: [UInt8],
        base: String = StubStage.base,
        matchesBodies: Bool = false,
        repeatsLast: Bool = false
    ) throws -> (origin: StubOrigin, manager: HTTPSessionManager) {
        let origin = StubOrigin()
        try origin.replay(har: har, named: "items.har", matchesBodies: matchesBodies, repeatsLast: repeatsLast)
        var configuration = HTTPSessionManager.Configuration()
        configuration.answerRequests(with: origin)
        let trust = SessionTrust(anchors: TestPKI.shared.anchors)
        return (origin, try HTTPSessionManager(baseURL: base, configuration: configuration, serverTrust: trust))
    }

    /// An archive of responses to GET of paths of the stub's base.
    private static func archive(_ entries: [(path: String, status: Int, text: String)]) -> [UInt8] {
        archive(
            entries.map { path, status, text in
                [
                    "request": ["method": "GET", "url": .string(StubStage.base + path)],
                    "response": ["status": .number(JSONNumber(status)), "content": ["text": .string(text)]],
                ]
            }
        )
    }

    private static func archive(_ entries: [JSONValue]) -> [UInt8] {
        let document: JSONValue = ["log": ["version": "1.2", "entries": .array(entries)]]
        return document.serialized()
    }

    // MARK: Recording

    /// What an origin says to each path.
    private static func response(_ request: HTTPMessage) -> [UInt8] {
        switch request.target.split(separator: "?").first {
        case "/v1/old":
            let location = "https://user:word@127.0.0.1/x?token=hidden"
            let fields = ["Location: /v1/coded?page=1", "Link: <\(location)>", "Set-Cookie: session=hidden; Secure"]
            return Array(OriginResponse.text("moved", status: "302 Found", fields: fields).utf8)
        case "/v1/coded":
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: \(CodedBody.gzip.count)\r\n\r\n"
            return Array(head.utf8) + CodedBody.gzip
        case "/v1/token":
            let text = "{\"access_token\": \"hidden\", \"kind\": \"bearer\"}"
            return Array(OriginResponse.text(text, fields: ["Content-Type: application/json"]).utf8)
        case "/v1/bytes":
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 4\r\n\r\n"
            return Array(head.utf8) + [0xFF, 0x00, 0x80, 0x0A]
        case "/v1/cut": return Array("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234".utf8)
        default: return Array(OriginResponse.text("no such path", status: "404 Not Found").utf8)
        }
    }

    /// The requests of a program, and what it learns.
    private static func use(_ manager: HTTPSessionManager) async throws -> [String] {
        var learned: [String] = []
        let headers: HTTPHeaders = ["Authorization": "Bearer hidden", "X-Own": "seen"]
        learned.append(try await manager.get("old", headers: headers, serializer: .string).value)
        let parameters: ParameterValue = ["user": "ada", "password": "hidden"]
        let token = try await manager.post("token", parameters: parameters, serializer: .json).value
        learned.append(token["kind"]?.string ?? "")
        learned.append("\(try await manager.get("bytes?api_key=hidden&page=2", serializer: .data).value)")
        for path in ["cut", "missing"] {
            do {
                learned.append(try await manager.get(path, serializer: .string).value)
            } catch {
                learned.append(error.sessionError?.code.rawValue ?? "\(error.responseStatus ?? 0)")
            }
        }
        return learned
    }

    private static let learned = [
        String(decoding: CodedBody.text, as: UTF8.self), "bearer", "[255, 0, 128, 10]", "response_truncated", "404",
    ]

    @Test("a recorded session is replayed, without a network and without secrets")
    func roundTrip() async throws {
        let recorder = HARRecorder()
        let stage = try HTTPStage({ $0.recordExchanges(with: recorder) }) { connection in
            while let request = try connection.readRequest() {
                try connection.write(Self.response(request))
                if request.target == "/v1/cut" { return connection.close() }
            }
        }
        #expect(try await Self.use(stage.manager) == Self.learned)
        let base = try #require(stage.manager.baseURL)
        await stage.end()
        #expect(recorder.count == 6)
        let har = recorder.serialized()
        #expect(!String(decoding: har, as: UTF8.self).contains("hidden"))
        #expect(!String(decoding: har, as: UTF8.self).contains("word@"))

        let replay = try replaying(har, base: base, matchesBodies: true)
        #expect(try await Self.use(replay.manager) == Self.learned)
        #expect(
            replay.origin.requests.map(\.path) == [
                "/v1/old", "/v1/coded", "/v1/token", "/v1/bytes", "/v1/cut", "/v1/missing",
            ]
        )
        #expect(replay.origin.unmatchedRequests.isEmpty)
        await replay.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a recording has what HAR 1.2 asks for, with the times of the metrics")
    func form() async throws {
        let recorder = HARRecorder(options: HARRecorder.Options(redaction: .none))
        let stage = try HTTPStage({
            $0.recordExchanges(with: recorder)
            $0.cookieStorage = CookieStorage()
        }) { connection in
            while let request = try connection.readRequest() { try connection.write(Self.response(request)) }
        }
        stage.manager.requestSerializer = HTTPRequestSerializer()
        _ = try await stage.manager.get("old?a=b", headers: ["Cookie": "c=d; e=f"], serializer: .string)
        _ = try await stage.manager.post("token", parameters: ["password": "shown"], serializer: .json)
        await stage.end()
        let log = try #require(recorder.archive["log"])
        #expect(log["version"] == "1.2" && log["creator"]?["name"]?.string != nil && log["pages"] == [])
        let entries = try #require(log["entries"]?.array)
        #expect(entries.count == 3)
        for entry in entries {
            let timings = try #require(entry["timings"])
            let phases = try ["blocked", "dns", "connect", "send", "wait", "receive"].map {
                try #require(timings[$0]?.double)
            }
            let total = try #require(entry["time"]?.double)
            #expect(abs(phases.filter { $0 >= 0 }.reduce(0, +) - total) < 0.001 && entry["cache"] == [:])
            let started = try #require(entry["startedDateTime"]?.string)
            #expect(started.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
            #expect(entry["serverIPAddress"] == "127.0.0.1" && entry["connection"]?.string != nil)
            for name in ["request", "response"] {
                let message = try #require(entry[name])
                #expect(message["httpVersion"] == "HTTP/1.1" && message["cookies"]?.array != nil)
                #expect(message["headers"]?.array?.isEmpty == false)
                #expect(try #require(message["headersSize"]?.int) > 0 && message["bodySize"]?.int != nil)
            }
        }
        let (moved, coded, token) = (entries[0], entries[1], entries[2])
        #expect(try #require(moved["timings"]?["ssl"]?.double) > 0 && token["timings"]?["ssl"]?.double == -1)
        #expect(moved["request"]?["method"] == "GET" && moved["response"]?["status"]?.int == 302)
        #expect(moved["request"]?["queryString"] == [["name": "a", "value": "b"]])
        #expect(moved["request"]?["cookies"] == [["name": "c", "value": "d"], ["name": "e", "value": "f"]])
        #expect(moved["response"]?["cookies"] == [["name": "session", "value": "hidden"]])
        #expect(moved["response"]?["redirectURL"] == "/v1/coded?page=1")
        let content = try #require(coded["response"]?["content"])
        #expect(
            content["text"]?.string == String(decoding: CodedBody.text, as: UTF8.self) && content["encoding"] == nil
        )
        #expect(content["size"]?.int == CodedBody.text.count && content["mimeType"] == "text/plain")
        #expect(content["compression"]?.int == CodedBody.text.count - CodedBody.gzip.count)
        #expect(coded["response"]?["bodySize"]?.int == CodedBody.gzip.count)
        #expect(token["request"]?["postData"]?["text"] == "password=shown")
        #expect(
            token["request"]?["postData"]?["mimeType"]?.string?.hasPrefix("application/x-www-form-urlencoded") == true
        )
    }

    @Test("failures of connections and refused servers are recorded, and are the same failures again")
    func failures() async throws {
        let recorder = HARRecorder()
        let stage = try StubStage(isPinned: true) { $0.recordExchanges(with: recorder) }
        try stage.origin.route(.get, "/pinned", failure: StubFailure(.pinMismatch))
        try stage.origin.route(.get, "/away", failure: StubFailure(.connectFailed, details: "no way"))
        for path in ["/pinned", "/away"] { _ = try? await stage.manager.data(for: StubStage.base + path) }
        await stage.end()
        let replay = try replaying(recorder.serialized())
        for (path, code) in [("/pinned", SessionError.Code.pinMismatch), ("/away", .connectFailed)] {
            await #expect { try await replay.manager.data(for: StubStage.base + path) } throws: {
                $0.sessionCode == code
            }
        }
        await replay.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("streamed uploads are recorded; a body above the limit is left out")
    func uploads() async throws {
        let recorder = HARRecorder(options: HARRecorder.Options(maximumBodySize: 100_000))
        let stage = try StubStage { $0.recordExchanges(with: recorder) }
        try stage.origin.route(.put, "*", response: .text("kept"))
        for size in [100_000, 100_001] {
            let pieces = AsyncStream<[UInt8]> { continuation in
                continuation.yield([UInt8](repeating: 0x61, count: 50_000))
                continuation.yield([UInt8](repeating: 0x61, count: size - 50_000))
                continuation.finish()
            }
            let request = HTTPSessionRequest(url: StubStage.base + "/\(size)", method: .put)
            _ = try await stage.manager.session.uploadTask(with: request, from: .sequence(pieces)).value()
        }
        await stage.end()
        let entries = try #require(recorder.archive["log"]?["entries"]?.array)
        let (kept, long) = (try #require(entries[0]["request"]), try #require(entries[1]["request"]))
        #expect(kept["postData"]?["text"]?.string == String(repeating: "a", count: 100_000))
        #expect(long["postData"]?["text"] == "" && long["bodySize"]?.int == 100_001)
        #expect(long["postData"]?["comment"]?.string?.contains("maximumBodySize") == true)
    }

    @Test("entries are bounded in number and memory, and the latest stay")
    func bounds() async throws {
        for options in [HARRecorder.Options(maximumEntries: 3), HARRecorder.Options(maximumSize: 3 * 12_048 + 100)] {
            let recorder = HARRecorder(options: options)
            let stage = try StubStage { $0.recordExchanges(with: recorder) }
            try stage.origin.route(nil, "*", response: .bytes([UInt8](repeating: 1, count: 10_000)))
            for number in 0..<7 { _ = try await stage.manager.data(for: StubStage.base + "/\(number)") }
            await stage.end()
            #expect(recorder.count == 3 && recorder.droppedCount == 4)
            let entries = recorder.archive["log"]?["entries"]?.array?.compactMap { $0["request"]?["url"]?.string }
            #expect(entries == (4..<7).map { "\(StubStage.base)/\($0)" })
            #expect(recorder.archive["log"]?["comment"]?.string?.hasPrefix("4 earlier") == true)
            recorder.removeAll()
            #expect(recorder.count == 0 && recorder.archive["log"]?["entries"] == [])
        }
    }

    @Test("a response from the cache is an entry that says so")
    func cache() async throws {
        let recorder = HARRecorder()
        let stage = try StubStage {
            $0.recordExchanges(with: recorder)
            $0.cache = try? SessionCache(memoryCapacity: 1 << 20)
        }
        try stage.origin.route(nil, "*", response: .text("kept").adding("Cache-Control", "max-age=60"))
        for _ in 0..<2 { _ = try await stage.manager.data(for: StubStage.base) }
        await stage.end()
        let entries = try #require(recorder.archive["log"]?["entries"]?.array)
        #expect(entries.map { $0["_fromCache"]?.string } == [nil, "memory"])
        #expect(entries.map { $0["response"]?["content"]?["text"]?.string } == ["kept", "kept"])
    }

    @Test("an archive file is private, and its errors have its name")
    func files() async throws {
        let folder = try TemporaryFolder()
        let recorder = HARRecorder()
        let stage = try StubStage { $0.recordExchanges(with: recorder) }
        try stage.origin.route(nil, "*", response: .text("text"))
        _ = try await stage.manager.data(for: StubStage.base + "/file")
        await stage.end()
        let path = folder.path + "/new/session.har"
        for _ in 0..<2 { try recorder.write(to: path) }
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/new") == ["session.har"])
        #expect(throws: SessionError.self) { try recorder.write(to: "/proc/none/session.har") }
        var configuration = HTTPSessionManager.Configuration()
        configuration.answerRequests(with: try StubOrigin(har: path))
        let manager = try HTTPSessionManager(configuration: configuration)
        #expect(try await manager.data(for: StubStage.base + "/file").data == Array("text".utf8))
        await manager.invalidateSession(cancelingTasks: true)
        #expect {
            _ = try StubOrigin(har: folder.path + "/none.har")
        } throws: {
            ($0 as? SessionError)?.details.contains("none.har") == true
        }
        for text in ["", "[]", "{\"log\": {}}", "{\"log\": {\"entries\": [{}]}}"] {
            #expect(throws: SessionError.self) { try StubOrigin().replay(har: Array(text.utf8)) }
        }
    }

    // MARK: Redaction

    @Test("secrets are found in URLs, fields and forms, whatever their spelling")
    func redaction() async throws {
        let recorder = HARRecorder()
        let stage = try StubStage { $0.recordExchanges(with: recorder) }
        let rows = [
            ("/a?access_token=s1&b=c", "/a?access_token=REDACTED&b=c"),
            ("/a?Access%5fToken=s1", "/a?Access%5fToken=REDACTED"),
            ("/a?b=c&password=s1;s2", "/a?b=c&password=REDACTED"),
            (
                "/a?user[password]=s1&c=d".replacing("[", with: "%5B").replacing("]", with: "%5D"),
                "/a?user%5Bpassword%5D=REDACTED&c=d"
            ),
            ("/a?tokens=shown&b", "/a?tokens=shown&b"),
            ("/a?signature=s1%26x", "/a?signature=REDACTED"),
            ("/a?code=s1&jwt=s1&keys=shown", "/a?code=REDACTED&jwt=REDACTED&keys=shown"),
            ("/a?accessToken=s1;api-key=s1", "/a?accessToken=REDACTED"),
        ]
        try stage.origin.route(nil, "*") { request in
            StubResponse.text("x").adding("X-Seen", "https://me:s1@host/?sig=s1&c=d and token=s1")
        }
        for (path, _) in rows { _ = try await stage.manager.data(for: StubStage.base + path) }
        let headers: HTTPHeaders = [
            "Cookie": "s1", "x-api-key": "s1", "Proxy-Authorization": "s1",
            "Referer": "https://h/?token=s1#id_token=s1",
        ]
        let parameters: ParameterValue = [
            "a": ["b", ["password": "s1"]], "token": nil, "user": "ada", "code": "shown",
        ]
        stage.manager.requestSerializer = JSONRequestSerializer()
        _ = try await stage.manager.post("/json", parameters: parameters, headers: headers, serializer: .string)
        await stage.end()
        let text = String(decoding: recorder.serialized(), as: UTF8.self)
        #expect(!text.contains("s1") && !text.contains("s2"))
        let entries = try #require(recorder.archive["log"]?["entries"]?.array)
        #expect(entries.dropLast().map { $0["request"]?["url"]?.string } == rows.map { StubStage.base + $0.1 })
        let seen = entries[0]["response"]?["headers"]?.array?.first { $0["name"] == "X-Seen" }
        #expect(seen?["value"] == "https://host/?sig=REDACTED&c=d and token=REDACTED")
        let body = try JSONValue(
            parsing: Array(try #require(entries.last?["request"]?["postData"]?["text"]?.string).utf8)
        )
        #expect(body == ["a": ["b", ["password": "REDACTED"]], "token": nil, "user": "ada", "code": "shown"])
    }

    // MARK: Replaying

    @Test("each recorded response is given once, in order, or the last one again")
    func repeats() async throws {
        let har = Self.archive([("/n", 200, "1"), ("/other", 200, "x"), ("/n", 200, "2")])
        let once = try replaying(har)
        for text in ["1", "2"] {
            #expect(try await once.manager.data(for: StubStage.base + "/n").data == Array(text.utf8))
        }
        await #expect { try await once.manager.data(for: StubStage.base + "/n") } throws: { error in
            let details = (error as? SessionError)?.details ?? ""
            return error.sessionCode == .requestInvalid && details.contains("items.har has 2 responses to GET")
                && details.contains("repeatsLast")
        }
        #expect(once.origin.unmatchedRequests.map(\.url) == [StubStage.base + "/n"])
        await once.manager.invalidateSession(cancelingTasks: true)
        let again = try replaying(har, repeatsLast: true)
        for text in ["1", "2", "2"] {
            #expect(try await again.manager.data(for: StubStage.base + "/n").data == Array(text.utf8))
        }
        await again.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("an unrecorded request is an error that names its neighbours; routes come first")
    func unmatched() async throws {
        let replay = try replaying(Self.archive([("/n?page=1", 200, "1"), ("/m", 200, "2")]))
        for (path, method) in [("/n?page=2", HTTPMethod.get), ("/n", .get), ("/n?page=1", .post)] {
            await #expect { try await replay.manager.data(for: StubStage.base + path, method: method) } throws: {
                error in
                (error as? SessionError)?.details.contains("It has: GET https://api.example.com/n?page=1") == true
            }
        }
        #expect(replay.origin.requests.isEmpty && replay.origin.unmatchedRequests.count == 3)
        try replay.origin.route(.get, "/m", times: 1, failure: StubFailure(.connectFailed))
        await #expect { try await replay.manager.data(for: StubStage.base + "/m") } throws: {
            $0.sessionCode == .connectFailed
        }
        #expect(try await replay.manager.data(for: StubStage.base + "/m").data == Array("2".utf8))
        await replay.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("with matchesBodies a request has to have the recorded body, left-out values apart")
    func bodies() async throws {
        func entry(_ type: String, _ body: String, _ response: String) -> JSONValue {
            [
                "request": [
                    "method": "POST", "url": "https://api.example.com/b",
                    "postData": ["mimeType": .string(type), "text": .string(body)],
                ],
                "response": ["status": 200, "content": ["text": .string(response)]],
            ]
        }
        let har = Self.archive([
            entry("text/plain", "one", "1"), entry("text/plain", "two", "2"),
            entry("application/x-www-form-urlencoded", "a=b&password=REDACTED", "form"),
            entry("application/json", "{\"a\": 1, \"token\": \"REDACTED\"}", "json"),
        ])
        let replay = try replaying(har, matchesBodies: true, repeatsLast: true)
        func post(_ body: String) async throws -> String {
            let response = try await replay.manager.data(
                for: StubStage.base + "/b",
                method: .post,
                body: Array(body.utf8)
            )
            return String(decoding: response.data, as: UTF8.self)
        }
        #expect(try await post("two") == "2")
        #expect(try await post("one") == "1")
        #expect(try await post("a=b&password=x%20y") == "form")
        #expect(try await post("{\"token\": [1], \"a\": 1}") == "json")
        for other in ["three", "a=c&password=x", "a=b&password", "{\"a\": 2, \"token\": 1}", "{\"a\": 1}"] {
            await #expect { try await post(other) } throws: { error in
                (error as? SessionError)?.details.contains("with this body") == true
            }
        }
        await replay.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("an archive of a browser is replayed")
    func browser() async throws {
        let cookies: JSONValue = ["name": "set-cookie", "value": "a=b\nc=d"]
        let fields: JSONValue = [
            ["name": ":status", "value": "200"], ["name": "content-encoding", "value": "br"],
            ["name": "content-length", "value": "7"], ["name": "transfer-encoding", "value": "chunked"],
            ["name": "content-type", "value": "text/plain; charset=iso-8859-1"], cookies,
        ]
        func request(_ url: String) -> JSONValue { ["method": "GET", "url": .string(url), "headers": []] }
        let entries: [JSONValue] = [
            ["request": request("data:text/plain,x"), "response": ["status": 200]],
            ["request": request("https://api.example.com/socket"), "response": ["status": 101]],
            [
                "request": request("https://API.example.com:443/text#part"),
                "response": ["status": 200, "headers": fields, "content": ["size": 3, "text": "\u{E4}\u{F6}!"]],
            ],
            ["request": request("https://api.example.com/lost"), "response": ["status": 200, "content": ["size": 3]]],
            [
                "request": request("https://api.example.com/gone"),
                "response": ["status": 0, "_error": "net::ERR_FAILED"],
            ],
        ]
        let replay = try replaying([0xEF, 0xBB, 0xBF] + Self.archive(entries))
        let response = try await replay.manager.data(for: StubStage.base + "/text")
        #expect(response.data == [0xE4, 0xF6, 0x21])
        #expect(response.response.fields.values(for: "Set-Cookie") == ["a=b", "c=d"])
        #expect(response.response.fields.value(for: "Content-Encoding") == nil && response.response.contentLength == 3)
        await #expect { try await replay.manager.data(for: StubStage.base + "/lost") } throws: { error in
            (error as? SessionError)?.details.contains("does not have the body") == true
        }
        await #expect { try await replay.manager.data(for: StubStage.base + "/gone") } throws: {
            $0.sessionCode == .connectFailed
        }
        await #expect { try await replay.manager.data(for: StubStage.base + "/socket") } throws: {
            $0.sessionCode == .requestInvalid
        }
        await replay.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a body in an unknown coding is recorded and delivered as it is")
    func unknownCoding() async throws {
        let recorder = HARRecorder()
        let stage = try StubStage { $0.recordExchanges(with: recorder) }
        try stage.origin.route(nil, "*", response: .bytes([1, 2, 3]).adding("Content-Encoding", "br"))
        _ = try await stage.manager.data(for: StubStage.base)
        await stage.end()
        let content = recorder.archive["log"]?["entries"]?[0]?["response"]?["content"]
        #expect(content?["_isEncoded"]?.bool == true && content?["encoding"] == "base64")
        let replay = try replaying(recorder.serialized())
        let response = try await replay.manager.data(for: StubStage.base)
        #expect(response.data == [1, 2, 3] && response.response.fields.value(for: "Content-Encoding") == "br")
        await replay.manager.invalidateSession(cancelingTasks: true)
    }

    @Test("times of a transaction become phases: none absent, none negative")
    func timings() {
        var transaction = TransactionMetrics()
        #expect(ArchiveTimings(transaction).total == 0 && ArchiveTimings(transaction).blocked == nil)
        transaction.fetchStart = 1_000
        transaction.domainLookupStart = 2_000
        transaction.domainLookupEnd = 5_000
        transaction.connectStart = 5_000
        transaction.secureConnectionStart = 6_000
        transaction.secureConnectionEnd = 9_500
        transaction.connectEnd = 10_000
        transaction.requestStart = 10_000
        // The response has begun before the whole request was sent.
        transaction.requestEnd = 20_000
        transaction.responseStart = 15_000
        transaction.responseEnd = 30_000
        let timings = ArchiveTimings(transaction)
        #expect(timings.blocked == 1 && timings.dns == 3 && timings.connect == 5 && timings.ssl == 3.5)
        #expect(timings.send == 10 && timings.wait == 0 && timings.receive == 15 && timings.total == 34)
    }
}

extension RequestFailure {
    fileprivate var responseStatus: Int? {
        if case .serialization(let error) = self { error.response.response.status } else { nil }
    }
}
