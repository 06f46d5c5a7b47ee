// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCodable
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("The methods of an HTTP session", .onOwnThreads)
struct HTTPMethodsTests {
    @Test("each method puts its parameters where it should and reads a JSON response")
    func awaited() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let manager = stage.manager
        func seen(_ response: SerializedResponse<any Sendable>) throws -> [String] {
            let value = try #require(response.value as? JSONValue)
            return ["method", "target", "type", "body"].map { value[$0]?.string ?? "-" }
        }
        let form = "application/x-www-form-urlencoded; charset=utf-8"
        let parameters: ParameterValue = ["b": 2, "a": "1 1"]
        #expect(
            try seen(try await manager.get("items", parameters: parameters)) == [
                "GET", "/v1/items?a=1%201&b=2", "", "",
            ]
        )
        #expect(
            try seen(try await manager.delete("items/7?x", parameters: parameters))
                == ["DELETE", "/v1/items/7?x&a=1%201&b=2", "", ""]
        )
        #expect(try seen(try await manager.post("/p", parameters: parameters)) == ["POST", "/p", form, "a=1%201&b=2"])
        #expect(try seen(try await manager.put("p", parameters: parameters)) == ["PUT", "/v1/p", form, "a=1%201&b=2"])
        #expect(
            try seen(try await manager.patch("p", parameters: parameters)) == ["PATCH", "/v1/p", form, "a=1%201&b=2"]
        )
        let head = try await manager.head("h", parameters: parameters)
        #expect(head.response.fields.value(for: "Content-Length") == "17")
        #expect(head.data.isEmpty)
        #expect(stage.origin.requests.last?.target == "/v1/h?a=1%201&b=2")
        #expect(stage.origin.connections.count == 1)
        await stage.end()
    }

    @Test("each method has a form with a handler, which returns a cancellable request")
    func handled() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let manager = stage.manager
        let log = Monitor<[String]>([])
        let note: HTTPSessionManager.CompletionHandler = { result in
            let value = (try? result.get())?.value as? JSONValue
            log.with { $0.append("\(value?["method"]?.string ?? "failed") \(value?["target"]?.string ?? "")") }
        }
        let requests = [
            try manager.get("a", completionHandler: note), try manager.post("b", completionHandler: note),
            try manager.put("c", completionHandler: note), try manager.patch("d", completionHandler: note),
            try manager.delete("e", completionHandler: note),
            try manager.head("f") { result in
                log.with { $0.append("HEAD \((try? result.get())?.response.status ?? 0)") }
            },
        ]
        try await eventually("all handlers") { log.with { $0.count == 6 } }
        #expect(
            log.with { $0.sorted() } == [
                "DELETE /v1/e", "GET /v1/a", "HEAD 200", "PATCH /v1/d", "POST /v1/b", "PUT /v1/c",
            ]
        )
        try await eventually("the ends") { requests.allSatisfy { $0.state == .finished } }
        #expect(requests.allSatisfy { $0.tasks.count == 1 && $0.retryCount == 0 && $0.response?.status == 200 })
        await stage.end()
    }

    @Test("the serializers are the manager's own, and another may be named")
    func serializers() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let manager = stage.manager
        #expect(manager.requestSerializer is HTTPRequestSerializer)
        manager.requestSerializer = JSONRequestSerializer()
        try manager.requestSerializer.setAuthorizationHeaderField(bearerToken: "abc")
        manager.responseSerializer = .string
        let text = try await manager.post("x", parameters: ["a": [1, true]])
        #expect((text.value as? String)?.contains(#"\"a\":[1,true]"#) == true)
        #expect(stage.origin.requests[0]["Authorization"] == "Bearer abc")
        #expect(stage.origin.requests[0]["Content-Type"] == "application/json")

        struct Seen: Decodable {
            let method: String
            let target: String
        }
        let typed = try await manager.get("y", serializer: DecodableResponseSerializer(Seen.self))
        #expect(typed.value.method == "GET" && typed.value.target == "/v1/y")
        #expect(typed.response.metrics.transaction.status == 200)
        await stage.end()
    }

    @Test("headers of a call go before those of the serializer")
    func headers() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        try stage.manager.requestSerializer.setValue("general", forHTTPHeaderField: "X-Kind")
        _ = try await stage.manager.post(
            "x",
            parameters: ["a": 1],
            headers: ["x-kind": "special", "Content-Type": "text/x-form"]
        )
        _ = try await stage.manager.get("x")
        #expect(stage.origin.requests[0]["X-Kind"] == "special")
        #expect(stage.origin.requests[0]["Content-Type"] == "text/x-form")
        #expect(stage.origin.requests[1]["X-Kind"] == "general")
        await #expect(throws: RequestFailure.self) { try await stage.manager.get("x", headers: ["A\r\nB": "c"]) }
        #expect(throws: SessionError.self) { try stage.manager.get("x", headers: ["A": "b\nc"]) { _ in } }
        #expect(stage.origin.requests.count == 2)
        await stage.end()
    }

    @Test("POST, PUT and PATCH without parameters announce no content; GET and DELETE do not")
    func noParameters() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        _ = try await stage.manager.post("x")
        _ = try await stage.manager.put("x")
        _ = try await stage.manager.patch("x")
        _ = try await stage.manager.get("x")
        _ = try await stage.manager.delete("x")
        #expect(stage.origin.requests.map { $0["Content-Length"] } == ["0", "0", "0", nil, nil])
        #expect(stage.origin.requests.allSatisfy { $0["Content-Type"] == nil })
        await stage.end()
    }

    @Test("credentials of the serializer go out unasked, and an empty response is null")
    func basicAuthentication() async throws {
        let stage = try HTTPStage { request in
            guard request["Authorization"] == "Basic dXNlcjpwYXNzd29yZA==" else {
                return HTTPStage.status("404 Not Found")
            }
            return "HTTP/1.1 204 No Content\r\n\r\n"
        }
        await #expect(throws: RequestFailure.self) { try await stage.manager.get("hidden") }
        try stage.manager.requestSerializer.setAuthorizationHeaderField(username: "user", password: "password")
        let response = try await stage.manager.get("hidden")
        #expect(response.response.response.status == 204)
        #expect((response.value as? JSONValue) == .null)
        await stage.end()
    }

    @Test("a serializer that fails makes no task, and no handler is called")
    func failingSerializer() async throws {
        struct Mine: Error {}
        let stage = try HTTPStage(responding: HTTPStage.echo)
        stage.manager.requestSerializer.settings.querySerialization = { _, _ in throw Mine() }
        let calls = Monitor(0)
        #expect(throws: SessionError.self) {
            try stage.manager.get("x", parameters: ["key": "value"]) { _ in calls.with { $0 += 1 } }
        }
        #expect(stage.manager.session.tasks.isEmpty)
        await stage.end()
        #expect(calls.with { $0 } == 0)
        #expect(stage.origin.connections.isEmpty)
    }

    @Test("serializers may be changed from many threads while requests are made")
    func manyThreads() async throws {
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let manager = stage.manager
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask {
                    try manager.requestSerializer.setValue("value \(number)", forHTTPHeaderField: "X-Changing")
                    let request = try manager.request(.get, "x").originalRequest
                    #expect(request.headers.value(for: "X-Changing")?.hasPrefix("value ") == true)
                }
            }
            try await group.waitForAll()
        }
        await stage.end()
    }

    @Test("cookies are sent and taken, unless the serializer says no")
    func cookies() async throws {
        let storage = CookieStorage()
        let stage = try HTTPStage({ $0.cookieStorage = storage }) { connection in
            while let request = try connection.readRequest() {
                let cookie = request.target == "/v1/set" ? ["Set-Cookie: a=1; Path=/"] : []
                try connection.write(HTTPStage.status("200 OK", fields: cookie))
            }
        }
        let manager = stage.manager
        manager.requestSerializer.settings.handlesCookies = false
        _ = try await manager.get("set")
        _ = try await manager.get("x")
        manager.requestSerializer.settings.handlesCookies = true
        _ = try await manager.get("x")
        _ = try await manager.get("set")
        _ = try await manager.get("x")
        manager.requestSerializer.settings.handlesCookies = false
        _ = try await manager.get("x")
        #expect(stage.origin.requests.map { $0["Cookie"] } == [nil, nil, nil, nil, "a=1", nil])
        await stage.end()
    }

    @Test("a multipart form of bytes, file and stream is sent as it is read")
    func multipart() async throws {
        let folder = try TemporaryFolder()
        let content = patternBytes(1 << 20)
        try Data(content).write(to: URL(fileURLWithPath: folder.path + "/photo.jpg"))
        let stage = try HTTPStage { connection in
            while let request = try connection.readRequest() {
                try connection.write(
                    OriginResponse.text("[\(request.body.count)]", fields: ["Content-Type: application/json"])
                )
            }
        }
        let pieces = AsyncStream<[UInt8]> { continuation in
            for number in UInt8(0)..<10 { continuation.yield([UInt8](repeating: number, count: 100_000)) }
            continuation.finish()
        }
        let progress = Monitor<[TaskProgress]>([])
        let response = try await stage.manager.post(
            "forms",
            parameters: ["author": "Ada"],
            headers: ["X-Kind": "form"],
            progress: ProgressHandler { seen in progress.with { $0.append(seen) } }
        ) { form in
            try form.append(.bytes([1, 2, 3]), name: "bytes", fileName: "b.bin", mimeType: MIMETypes.unknown)
            try form.appendFile(folder.path + "/photo.jpg", name: "photo")
            try form.append(.source(.sequence(pieces, length: 1_000_000)), name: "stream")
        }
        let sent = try #require(stage.origin.requests.first)
        #expect((response.value as? JSONValue)?[0]?.int == sent.body.count)
        #expect(sent["Content-Length"] == String(sent.body.count))
        #expect(sent["X-Kind"] == "form")
        #expect(sent["Content-Type"]?.hasPrefix("multipart/form-data; boundary=SessionCore.boundary.") == true)
        let head = String(decoding: sent.body.prefix(400), as: UTF8.self)
        #expect(head.contains("name=\"author\"\r\n\r\nAda\r\n"))
        let hasPhoto = Data(sent.body).range(of: Data(content)) != nil
        #expect(hasPhoto)
        try await eventually("the last progress") { progress.with { $0.last?.fraction == 1 } }
        #expect(progress.with { $0.last?.totalBytes } == Int64(sent.body.count))
        await stage.end()
    }

    @Test("a form that cannot be assembled sends nothing, and says why")
    func badForm() async throws {
        struct Mine: Error {}
        let stage = try HTTPStage(responding: HTTPStage.echo)
        let failure = await #expect(throws: RequestFailure.self) {
            try await stage.manager.post("x") { _ in throw Mine() }
        }
        #expect(failure?.sessionError?.code == .requestInvalid)
        #expect(failure?.sessionError?.details.contains("Mine") == true)
        #expect(throws: SessionError.self) {
            try stage.manager.post("x") {
                try $0.appendFile("/nowhere/at/all", name: "f")
            } completionHandler: { _ in
            }
        }
        #expect(stage.origin.connections.isEmpty)
        await stage.end()
    }

    @Test("progress of a POST's parameters is reported to their end")
    func uploadProgress() async throws {
        let stage = try HTTPStage { _ in HTTPStage.status("200 OK") }
        let progress = Monitor<[TaskProgress]>([])
        let text = String(repeating: "0123456789", count: 50_000)
        _ = try await stage.manager.post(
            "x",
            parameters: ["text": text],
            progress: ProgressHandler { seen in progress.with { $0.append(seen) } }
        )
        try await eventually("the last progress") { progress.with { $0.last?.fraction == 1 } }
        #expect(progress.with { $0.last?.totalBytes } == 500_005)
        await stage.end()
    }

    @Test("progress of a response body is reported to its end")
    func downloadProgress() async throws {
        let body = patternBytes(2 << 20)
        let stage = try HTTPStage { connection in
            while try connection.readRequest() != nil {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
                try connection.write(body)
            }
        }
        let progress = Monitor<[TaskProgress]>([])
        let response = try await stage.manager.get(
            "x",
            progress: ProgressHandler { seen in progress.with { $0.append(seen) } },
            serializer: HTTPResponseSerializer()
        )
        let isWhole = response.value == body
        #expect(isWhole)
        try await eventually("the last progress") { progress.with { $0.last?.fraction == 1 } }
        let counts = progress.with { $0.map(\.completedBytes) }
        #expect(counts == counts.sorted())
        await stage.end()
    }

    @Test("an unacceptable status is an error that has the response")
    func failures() async throws {
        let stage = try HTTPStage { _ in
            OriginResponse.text(#"{"why":"gone"}"#, status: "404 Not Found", fields: ["Content-Type: application/json"])
        }
        let failure = await #expect(throws: RequestFailure.self) { try await stage.manager.get("x") }
        #expect(failure?.response?.response.status == 404)
        #expect(failure?.response.map { String(decoding: $0.data, as: UTF8.self) } == #"{"why":"gone"}"#)
        let log = Monitor<[Int]>([])
        try stage.manager.put("x") { result in
            if case .failure(let failure) = result { log.with { $0.append(failure.response?.response.status ?? 0) } }
        }
        try await eventually("the handler") { log.with { $0 == [404] } }
        await stage.end()
    }

    @Test("a server with another key gets nothing of a POST")
    func pins() async throws {
        let stage = try HTTPStage(pin: .unrelated(3)) { $0.readToEnd() }
        let failure = await #expect(throws: RequestFailure.self) {
            try await stage.manager.post("x", parameters: ["secret": 1])
        }
        #expect(failure?.sessionError?.code == .pinMismatch)
        await stage.end()
        try await eventually("closed connections") { stage.origin.connections.allSatisfy(\.isClosed) }
        #expect(stage.origin.applicationBytes == 0)
    }

    @Test("without a base, URLs are absolute")
    func noBase() async throws {
        let manager = try HTTPSessionManager(serverTrust: SessionTrust(anchors: TestPKI.shared.anchors))
        #expect(manager.baseURL == nil)
        #expect(try manager.url("https://example.com/a") == "https://example.com/a")
        await #expect(throws: RequestFailure.self) { try await manager.get("items") }
        #expect(throws: SessionError.self) {
            try HTTPSessionManager(baseURL: "v1", serverTrust: SessionTrust(anchors: TestPKI.shared.anchors))
        }
        await manager.invalidateSession(cancelingTasks: true)
    }
}
