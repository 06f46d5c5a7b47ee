// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCodable
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Serialized requests and responses against an origin", .onOwnThreads)
struct SerializationOnTheWireTests {
    private static let server = try! TestPKI.shared.server("127.0.0.1")

    private static func manager() throws -> HTTPSessionManager {
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        trust.policies[try Host("127.0.0.1")] = try .pinning(server.pin)
        return try HTTPSessionManager(serverTrust: trust)
    }

    /// Says in JSON what came.
    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { request in
            let seen: JSONValue = [
                "method": .string(request.method), "target": .string(request.target),
                "type": .string(request["Content-Type"] ?? ""), "length": .number(JSONNumber(request.body.count)),
                "nothing": nil,
            ]
            let text = String(decoding: seen.serialized(), as: UTF8.self)
            return OriginResponse.text(text, fields: ["Content-Type: application/json; charset=utf-8"])
        }
    }

    @Test("a serialized request is sent as it says, and its response becomes an object")
    func roundTrip() async throws {
        let origin = try Self.origin()
        let manager = try Self.manager()
        let url = "https://127.0.0.1:\(origin.port)/items?v=1"
        var serializer = HTTPRequestSerializer()
        try serializer.setAuthorizationHeaderField(username: "u", password: "p")
        let get = try await manager.response(
            for: serializer.request(.get, url, parameters: ["q": "ä b", "l": [1]]),
            serializer: JSONResponseSerializer(readingOptions: JSONReadingOptions(removesNulls: true))
        )
        #expect(get.value["target"]?.string == "/items?v=1&l%5B%5D=1&q=%C3%A4%20b")
        #expect(get.value["nothing"] == nil)
        #expect(get.response.response.status == 200)
        #expect(origin.requests[0]["Authorization"] == "Basic dTpw")
        #expect(origin.requests[0]["User-Agent"]?.hasSuffix("SessionCore/0.1.0") == true)

        let post = try await manager.response(
            for: serializer.request(.post, url, parameters: ["a": "1 2"]),
            serializer: DecodableResponseSerializer([String: JSONValue].self)
        )
        #expect(post.value["type"] == "application/x-www-form-urlencoded; charset=utf-8")
        #expect(origin.requests[1].text == "a=1%202")

        let json = try JSONRequestSerializer(writingOptions: .sortedKeys).request(
            .patch,
            url,
            parameters: ["b": 1, "a": 2]
        )
        _ = try await manager.response(for: json, serializer: HTTPResponseSerializer())
        #expect(origin.requests[2].text == #"{"a":2,"b":1}"#)
        #expect(origin.requests[2]["Content-Type"] == "application/json")
        #expect(origin.connections.count == 1)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a form of files is sent with its length, in pieces, and arrives whole")
    func multipart() async throws {
        let folder = try TemporaryFolder()
        let content = patternBytes(3 << 20)
        try Data(content).write(to: URL(fileURLWithPath: folder.path + "/big.png"))
        let origin = try Self.origin()
        let manager = try Self.manager()
        var form = MultipartFormData()
        try form.append("Ada", name: "author")
        try form.appendFile(folder.path + "/big.png", name: "image")
        try form.appendFile(folder.path + "/big.png", name: "copy")
        let response = try await manager.response(
            for: form.request(.post, "https://127.0.0.1:\(origin.port)/"),
            serializer: JSONResponseSerializer()
        )
        let sent = try #require(origin.requests.first)
        let length = try #require(form.contentLength)
        #expect(sent["Content-Length"] == String(length))
        #expect(sent["Transfer-Encoding"] == nil)
        #expect(sent["Content-Type"] == form.contentType)
        #expect(response.value["length"]?.int == length)
        let expected = try await form.body.collect()
        let isWhole = sent.body == expected
        #expect(isWhole)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a form with a part of unknown length is chunked")
    func chunked() async throws {
        let origin = try Self.origin()
        let manager = try Self.manager()
        var form = MultipartFormData()
        let pieces = AsyncStream<[UInt8]> { continuation in
            for number in UInt8(0)..<100 { continuation.yield([UInt8](repeating: number, count: 1000)) }
            continuation.finish()
        }
        try form.append(.source(.sequence(pieces)), name: "stream", fileName: "s", mimeType: "application/octet-stream")
        _ = try await manager.data(for: form.request(.put, "https://127.0.0.1:\(origin.port)/"))
        let sent = try #require(origin.requests.first)
        #expect(sent["Transfer-Encoding"] == "chunked")
        #expect(sent["Content-Length"] == nil)
        let start = "--\(form.boundary)\r\n"
        let end = "\r\n--\(form.boundary)--\r\n"
        #expect(sent.text.hasPrefix(start))
        #expect(sent.body.suffix(end.utf8.count) == ArraySlice(Array(end.utf8)))
        #expect(sent.body.filter { $0 == 77 }.count >= 1000)
        await manager.invalidateSession(cancelingTasks: false)
    }

    /// Counts what is read of it.
    private actor CountingReader: BodyReader {
        let read: Monitor<Int>
        let total: Int
        private var given = 0

        init(_ read: Monitor<Int>, total: Int) {
            self.read = read
            self.total = total
        }

        func read(atMost count: Int) -> [UInt8] {
            let piece = min(count, total - given)
            given += piece
            let given = given
            read.with { $0 = given }
            return [UInt8](repeating: 7, count: piece)
        }
    }

    @Test("a source is not read far ahead of an origin that takes nothing")
    func backPressure() async throws {
        let total = 32 << 20
        let open = Gate()
        let origin = try ScriptedOrigin(Self.server) { connection in
            try open.pass()
            var count = 0
            while count < total {
                let piece = connection.read()
                guard !piece.isEmpty else { throw TimedOut("the body") }
                count += piece.count
            }
            try connection.respond("all")
        }
        let manager = try Self.manager()
        let read = Monitor(0)
        let source = BodySource(length: total) { () in CountingReader(read, total: total) }
        let request = HTTPSessionRequest(url: "https://127.0.0.1:\(origin.port)/", method: .post, body: .source(source))
        let task = beside { try await manager.data(for: request) }
        // It has come to rest when nothing has been read for a while, with all buffers on the way full.
        var last = -1
        while read.with({ $0 }) != last || last == 0 {
            last = read.with { $0 }
            try await Task.sleep(for: .milliseconds(250))
        }
        #expect(last < total / 2)
        open.open()
        #expect(try await task.value.response.status == 200)
        #expect(read.with { $0 } == total)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test(
        "an unreadable body fails the request, and the origin gets it incomplete",
        arguments: [true, false]
    )
    func brokenBody(isShort: Bool) async throws {
        struct Broken: Error {}
        let origin = try ScriptedOrigin(Self.server) { $0.readToEnd() }
        let manager = try Self.manager()
        let pieces = AsyncThrowingStream<[UInt8], any Error> { continuation in
            continuation.yield([UInt8](repeating: 1, count: 1000))
            continuation.finish(throwing: isShort ? nil : Broken())
        }
        let request = HTTPSessionRequest(
            url: "https://127.0.0.1:\(origin.port)/",
            method: .post,
            body: .source(.sequence(pieces, length: 2000))
        )
        let error = await #expect(throws: SessionError.self) { try await manager.data(for: request) }
        #expect(error?.code == .requestInvalid)
        #expect(error?.details.contains(isShort ? "fewer" : "Broken") == true)
        await manager.invalidateSession(cancelingTasks: false)
        try await eventually("closed connections") { origin.connections.allSatisfy(\.isClosed) }
    }

    @Test("a body that cannot be opened fails the request before a connection")
    func unopenable() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/gone"
        try Data([1]).write(to: URL(fileURLWithPath: path))
        let source = try BodySource.file(path)
        try FileManager.default.removeItem(atPath: path)
        let origin = try Self.origin()
        let manager = try Self.manager()
        let request = HTTPSessionRequest(url: "https://127.0.0.1:\(origin.port)/", method: .post, body: .source(source))
        let error = await #expect(throws: SessionError.self) { try await manager.data(for: request) }
        #expect(error?.code == .requestInvalid)
        #expect(origin.connections.isEmpty)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a request cancelled while its source is read ends and releases the source")
    func cancelled() async throws {
        let origin = try ScriptedOrigin(Self.server) { $0.readToEnd() }
        let manager = try Self.manager()
        let released = Monitor(false)
        let pieces = AsyncStream<[UInt8]> { continuation in
            continuation.yield([1])
            continuation.onTermination = { _ in released.with { $0 = true } }
        }
        let request = HTTPSessionRequest(
            url: "https://127.0.0.1:\(origin.port)/",
            method: .post,
            body: .source(.sequence(pieces))
        )
        let task = beside { try await manager.data(for: request) }
        try await eventually("the first bytes") { origin.applicationBytes > 0 }
        task.cancel()
        await #expect { try await task.value } throws: { ($0 as? SessionError)?.code == .cancelled }
        try await eventually("the source's release") { released.with { $0 } }
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("time limits of the request override the session's")
    func timeouts() async throws {
        let origin = try ScriptedOrigin(Self.server) { $0.readToEnd() }
        let manager = try Self.manager()
        var serializer = HTTPRequestSerializer()
        serializer.settings.timeouts = TaskTimeouts(firstByte: .milliseconds(50))
        let request = try serializer.request(.get, "https://127.0.0.1:\(origin.port)/")
        let error = await #expect(throws: SessionError.self) { try await manager.data(for: request) }
        #expect(error?.code == .responseTimeout)
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("failures distinguish request and response, and have the response where one came")
    func failures() async throws {
        let origin = try ScriptedOrigin(Self.server) { _ in
            OriginResponse.text("{\"error\":\"gone\"}", status: "410 Gone", fields: ["Content-Type: application/json"])
        }
        let manager = try Self.manager()
        let request = HTTPSessionRequest(url: "https://127.0.0.1:\(origin.port)/")
        let failure = await #expect(throws: RequestFailure.self) {
            try await manager.response(for: request, serializer: JSONResponseSerializer())
        }
        #expect(failure?.response?.response.status == 410)
        #expect(failure?.sessionError == nil)
        let body = try JSONValue(parsing: failure?.response?.data ?? [])
        #expect(body["error"]?.string == "gone")
        let refused = await #expect(throws: RequestFailure.self) {
            try await manager.response(for: HTTPSessionRequest(url: "nonsense"), serializer: HTTPResponseSerializer())
        }
        #expect(refused?.sessionError?.code == .requestInvalid)
        #expect(refused?.response == nil)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("serialization is done on neither the main thread nor the session's loop")
    @MainActor
    func elsewhere() async throws {
        let origin = try Self.origin()
        let manager = try Self.manager()
        // Not by the thread's name: one that is started from the loop has the loop's at first.
        let isOnLoop = Monitor<Bool?>(nil)
        let loop = manager.session.thread.loop
        let serializer = HTTPResponseSerializer().map { (_: [UInt8]) -> Bool in
            isOnLoop.with { $0 = loop.isRunningHere }
            return Thread.isMainThread
        }
        let onMain = try await manager.response(
            for: HTTPSessionRequest(url: "https://127.0.0.1:\(origin.port)/"),
            serializer: serializer
        ).value
        #expect(!onMain)
        #expect(isOnLoop.with { $0 } == false)
        await manager.invalidateSession(cancelingTasks: false)
    }
}
