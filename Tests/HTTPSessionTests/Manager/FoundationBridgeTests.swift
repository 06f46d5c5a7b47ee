// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSession
import HTTPSessionFoundation
import ServerTrust
import SessionCore
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

@Suite("Foundation's requests and responses", .onOwnThreads)
struct FoundationBridgeTests {
    private static let server = try! TestPKI.shared.server("127.0.0.1")

    private static func manager(_ pin: PublicKeyPin = server.pin) throws -> HTTPSessionManager {
        let policy = try SecurityPolicy.pinning(pin)
        return try HTTPSessionManager(
            serverTrust: SessionTrust(anchors: TestPKI.shared.anchors, policies: [Host("127.0.0.1"): policy])
        )
    }

    @Test("a URLRequest is sent as it says, and its response is an HTTPURLResponse")
    func roundTrip() async throws {
        let origin = try ScriptedOrigin(Self.server) { request in
            OriginResponse.text(
                request.text,
                status: "201 Created",
                fields: ["Set-Cookie: a=1", "X-Method: \(request.method)", "set-cookie: b=2"]
            )
        }
        let manager = try Self.manager()
        let url = try #require(URL(string: "https://127.0.0.1:\(origin.port)/items?q=a%20b#here"))
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        request.httpBody = Data("a body".utf8)
        request.setValue("application/x-test", forHTTPHeaderField: "Content-Type")
        request.setValue("6", forHTTPHeaderField: "Content-Length")
        let (data, response) = try await manager.data(for: request)
        #expect(data == Data("a body".utf8))
        #expect(response.statusCode == 201)
        #expect(response.url == url)
        #expect(response.value(forHTTPHeaderField: "x-method") == "POST")
        #expect(response.value(forHTTPHeaderField: "Set-Cookie") == "a=1, b=2")
        #expect(response.expectedContentLength == 6)
        let sent = try #require(origin.requests.first)
        #expect(sent.target == "/items?q=a%20b")
        #expect(sent["Content-Type"] == "application/x-test")
        #expect(sent["Content-Length"] == "6")
        let (plain, _) = try await manager.data(from: url)
        #expect(plain.isEmpty)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a URLRequest's cache policy holds; the default is the session's")
    func cachePolicy() async throws {
        let origin = try ScriptedOrigin(Self.server) { _ in
            OriginResponse.text("x", fields: ["Cache-Control: max-age=0"])
        }
        var configuration = HTTPSessionManager.Configuration()
        configuration.cache = try SessionCache()
        let manager = try HTTPSessionManager(
            configuration: configuration,
            serverTrust: SessionTrust(anchors: TestPKI.shared.anchors)
        )
        var request = URLRequest(url: try #require(URL(string: "https://127.0.0.1:\(origin.port)/")))
        var asked: [Int] = []
        for policy in [
            URLRequest.CachePolicy.useProtocolCachePolicy, .returnCacheDataElseLoad, .returnCacheDataDontLoad,
            .reloadRevalidatingCacheData, .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData,
        ] {
            request.cachePolicy = policy
            let (data, _) = try await manager.data(for: request)
            #expect(data == Data("x".utf8))
            asked.append(origin.requests.count)
        }
        #expect(asked == [1, 1, 1, 2, 3, 4])
        #expect(origin.requests.map { $0["Cache-Control"] } == [nil, "no-cache", nil, "no-cache"])
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a wrong key is an error that Foundation knows, and nothing is sent")
    func wrongPin() async throws {
        let origin = try ScriptedOrigin(Self.server) { $0.readToEnd() }
        let manager = try Self.manager(.unrelated(4))
        let url = try #require(URL(string: "https://127.0.0.1:\(origin.port)/"))
        let error = await #expect(throws: SessionError.self) { try await manager.data(from: url) }
        #expect(error?.code == .pinMismatch)
        #expect(error?.urlError.code == .serverCertificateUntrusted)
        #expect(error?.urlError.userInfo[NSUnderlyingErrorKey] is SessionError)
        await manager.invalidateSession(cancelingTasks: false)
        try await eventually("closed connections") { origin.connections.allSatisfy(\.isClosed) }
        #expect(origin.applicationBytes == 0)
    }

    @Test("requests that cannot be carried out as they say are refused")
    func refused() async throws {
        let manager = try Self.manager()
        let file = URLRequest(url: URL(fileURLWithPath: "/etc/hosts"))
        var framed = URLRequest(url: try #require(URL(string: "https://127.0.0.1:1/")))
        framed.setValue("chunked", forHTTPHeaderField: "Transfer-Encoding")
        for request in [file, framed] {
            let error = await #expect(throws: SessionError.self) { try await manager.data(for: request) }
            #expect(error?.code == .requestInvalid)
        }
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a body stream is sent as it is read: chunked, or with its length")
    func bodyStream() async throws {
        let origin = try ScriptedOrigin(Self.server) { request in OriginResponse.text("\(request.body.count)") }
        let manager = try Self.manager()
        let body = Data(patternBytes(300_000))
        // What is no length is as good as none.
        for length in [nil, "300000", "-1"] {
            var request = URLRequest(url: try #require(URL(string: "https://127.0.0.1:\(origin.port)/")))
            request.httpMethod = "PUT"
            request.httpBodyStream = InputStream(data: body)
            request.setValue(length, forHTTPHeaderField: "Content-Length")
            #expect(try await manager.data(for: request).0 == Data("300000".utf8))
            let sent = try #require(origin.requests.last)
            let isWhole = sent.body == Array(body)
            let isNamed = length == "300000"
            #expect(isWhole && sent["Content-Length"] == (isNamed ? length : nil))
            #expect((sent["Transfer-Encoding"] == nil) == isNamed)
        }
        let source = AsyncStream<[UInt8]> { continuation in
            for start in stride(from: 0, to: 300_000, by: 1000) {
                continuation.yield(Array(body[start..<(start + 1000)]))
            }
            continuation.finish()
        }
        let request = HTTPSessionRequest(url: "https://127.0.0.1:\(origin.port)/", method: .put)
        _ = try await manager.session.uploadTask(with: request, from: .sequence(source)).value()
        let isWhole = origin.requests.last?.body == Array(body)
        #expect(isWhole)
        await manager.invalidateSession(cancelingTasks: false)
    }

    /// Opens with a gate, as a pipe does with its writer.
    private final class GatedStream: InputStream {
        private let gate: Gate
        private let isOpening: Monitor<Bool>

        init(_ text: String, gate: Gate, isOpening: Monitor<Bool>) {
            self.gate = gate
            self.isOpening = isOpening
            super.init(data: Data(text.utf8))
        }

        override func open() {
            isOpening.with { $0 = true }
            gate.hold()
            super.open()
        }
    }

    @Test("a stream that takes long to open holds up no other request")
    func gatedStream() async throws {
        let origin = try ScriptedOrigin(Self.server) { request in OriginResponse.text(request.text) }
        let manager = try Self.manager()
        let url = "https://127.0.0.1:\(origin.port)/"
        let gate = Gate()
        defer { gate.open() }
        let isOpening = Monitor(false)
        let source = BodySource.inputStream(length: 4) { GatedStream("late", gate: gate, isOpening: isOpening) }
        let slow = HTTPSessionRequest(url: url, method: .put, body: .source(source))
        let waiting = beside { try await manager.data(for: slow).data }
        try await eventually("the opening") { isOpening.with { $0 } }
        let status = Monitor<Int?>(nil)
        let other = beside {
            let response = try await manager.data(for: HTTPSessionRequest(url: url))
            status.with { $0 = response.response.status }
        }
        do { try await eventually("the other response") { status.with { $0 } == 200 } } catch { Issue.record(error) }
        gate.open()
        try await other.value
        #expect(try await waiting.value == Array("late".utf8))
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("every error has a counterpart, and only what is unknown is unknown")
    func codes() {
        for code in SessionError.Code.allCases {
            let isUnknown = SessionError(code, "x").urlError.code == .unknown
            #expect(isUnknown == (code == .internal), "\(code)")
        }
    }

    @Test("after redirects the HTTPURLResponse has the last URL")
    func lastURL() async throws {
        let origin = try ScriptedOrigin(Self.server) { request in
            request.target == "/first"
                ? OriginResponse.text("", status: "302 Found", fields: ["Location: /folder/last.txt?v=2"])
                : OriginResponse.text("here")
        }
        let manager = try Self.manager()
        let url = try #require(URL(string: "https://127.0.0.1:\(origin.port)/first#part"))
        let (_, response) = try await manager.data(from: url)
        #expect(response.url?.absoluteString == "https://127.0.0.1:\(origin.port)/folder/last.txt?v=2#part")
        let dataResponse = try await manager.data(for: url.absoluteString)
        #expect(dataResponse.url == response.url?.absoluteString && dataResponse.suggestedFilename == "last.txt")
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a URLRequest's timeoutInterval limits the wait for the response and each byte")
    func timeoutInterval() async throws {
        let origin = try ScriptedOrigin(Self.server) { connection in
            let request = try connection.readRequest()
            if request?.target == "/body" { try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1") }
            connection.readToEnd()
        }
        var configuration = HTTPSessionManager.Configuration()
        // Longer than any test, so that the request's own limit alone can end it.
        configuration.timeouts = TaskTimeouts(connect: .seconds(900), firstByte: .seconds(900), stall: .seconds(900))
        let manager = try HTTPSessionManager(
            configuration: configuration,
            serverTrust: SessionTrust(anchors: TestPKI.shared.anchors)
        )
        for (path, code) in [("head", SessionError.Code.responseTimeout), ("body", .stalled)] {
            let url = try #require(URL(string: "https://127.0.0.1:\(origin.port)/\(path)"))
            let request = URLRequest(url: url, timeoutInterval: 0.2)
            let failure = Monitor<SessionError.Code?>(nil)
            let waiting = beside {
                do { _ = try await manager.data(for: request) } catch {
                    failure.with { $0 = (error as? SessionError)?.code }
                }
            }
            do { try await eventually("the limit") { failure.with { $0 } == code } } catch {
                Issue.record(error)
                waiting.cancel()
            }
            try await waiting.value
        }
        await manager.invalidateSession(cancelingTasks: true)
    }
}
