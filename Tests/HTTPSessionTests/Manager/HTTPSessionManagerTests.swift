// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A session for use from anywhere", .onOwnThreads)
struct HTTPSessionManagerTests {
    /// An address, so that no name has to be looked up.
    private static let host = "127.0.0.1"
    private static let server = try! TestPKI.shared.server(host)

    private static func origin(script: @escaping ScriptedOrigin.Script) throws -> ScriptedOrigin {
        try ScriptedOrigin(server, script: script)
    }

    private static func echo() throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { request in
            OriginResponse.text("\(request.method) \(request.target) \(request.body.count)")
        }
    }

    private static func manager(
        pins: PublicKeyPin? = server.pin,
        _ change: (inout HTTPSessionManager.Configuration) -> Void = { _ in }
    ) throws -> HTTPSessionManager {
        var configuration = HTTPSessionManager.Configuration()
        change(&configuration)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors)
        if let pins { trust.policies[try Host(host)] = try .pinning(pins) }
        return try HTTPSessionManager(configuration: configuration, serverTrust: trust)
    }

    @Test("a request to a pinned host gets its response, metrics and verdict")
    func response() async throws {
        let origin = try Self.echo()
        let manager = try Self.manager { configuration in
            configuration.additionalHeaders["User-Agent"] = "test"
            configuration.additionalHeaders["Accept"] = "*/*"
        }
        let response = try await manager.data(
            for: "https://127.0.0.1:\(origin.port)/path?q=%20#fragment",
            headers: ["accept": "text/plain"]
        )
        #expect(response.response.status == 200)
        #expect(response.response.fields.value(for: "content-type") == "text/plain")
        #expect(String(decoding: response.data, as: UTF8.self) == "GET /path?q=%20 0")
        #expect(response.metrics.transaction.connection?.evaluation?.verdict == .pass)
        #expect(origin.requests[0]["User-Agent"] == "test")
        #expect(origin.requests[0]["Accept"] == "text/plain")
        #expect(origin.requests[0]["Host"] == "127.0.0.1:\(origin.port)")
        let body = patternBytes(500_000)
        let post = try await manager.data(for: "https://127.0.0.1:\(origin.port)", method: .post, body: body)
        #expect(String(decoding: post.data, as: UTF8.self) == "POST / 500000")
        let isWhole = origin.requests[1].body == body
        #expect(isWhole)
        let empty = try await manager.data(for: "https://127.0.0.1:\(origin.port)?x", method: .put, body: [])
        #expect(String(decoding: empty.data, as: UTF8.self) == "PUT /?x 0")
        #expect(origin.requests[2]["Content-Length"] == "0")
        #expect(origin.connections.count == 1)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("a host with another key gets no byte, and the error shows its keys")
    func refusal() async throws {
        let origin = try Self.origin { $0.readToEnd() }
        let manager = try Self.manager(pins: .unrelated(3))
        let error = await #expect(throws: SessionError.self) {
            try await manager.data(for: "https://127.0.0.1:\(origin.port)/")
        }
        #expect(error?.code == .pinMismatch)
        #expect(error?.evaluation?.offeredPins.first?.pin == Self.server.pin)
        await manager.invalidateSession(cancelingTasks: false)
        try await eventually("closed connections") { origin.connections.allSatisfy(\.isClosed) }
        #expect(origin.applicationBytes == 0)
    }

    @Test("pin files apply by host and port, and single policies come first")
    func pinFile() async throws {
        let origin = try Self.echo()
        let text = PinFileText.pinning(Self.host, to: .unrelated(5))
        let loaded = try PinFile.load(text: text, file: "pins.json", at: 1_800_000_000)
        var trust = SessionTrust(anchors: TestPKI.shared.anchors, pinnedDomains: loaded.domains)
        let pinned = try HTTPSessionManager(serverTrust: trust)
        let url = "https://127.0.0.1:\(origin.port)/"
        let error = await #expect(throws: SessionError.self) { try await pinned.data(for: url) }
        #expect(error?.code == .pinMismatch)
        trust.policies[try Host(Self.host)] = try .pinning(Self.server.pin)
        let other = try HTTPSessionManager(serverTrust: trust)
        #expect(try await other.data(for: url).response.status == 200)
        await pinned.invalidateSession(cancelingTasks: true)
        await other.invalidateSession(cancelingTasks: true)
    }

    @Test(
        "a request that cannot be sent safely is refused before a connection",
        arguments: [
            "http://127.0.0.1/", "ftp://127.0.0.1/", "https://user@127.0.0.1/", "https://127.1/", "/path", "",
            "https://exa mple.com/", "https://127.0.0.1/a\\b", "https://127.0.0.1/\r\nX: y", "https://ümlaut.example/",
        ]
    )
    func refusedURLs(url: String) async throws {
        let manager = try Self.manager()
        let error = await #expect(throws: SessionError.self) { try await manager.data(for: url) }
        #expect(error?.code == .requestInvalid)
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test(
        "fields that would contradict the framing are refused",
        arguments: ["Host", "content-length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Content_Length"]
    )
    func refusedFields(name: String) async throws {
        let manager = try Self.manager()
        let error = await #expect(throws: SessionError.self) {
            try await manager.data(for: "https://127.0.0.1:1/", headers: [name: "1"])
        }
        #expect(error?.code == .requestInvalid)
        let connect = await #expect(throws: SessionError.self) {
            try await manager.data(for: "https://127.0.0.1:1/", method: .connect)
        }
        #expect(connect?.code == .requestInvalid)
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a host without a policy is refused where all need one")
    func unlistedHost() async throws {
        let trust = SessionTrust(anchors: TestPKI.shared.anchors, allHostsMustBeEvaluated: true)
        let manager = try HTTPSessionManager(serverTrust: trust)
        let error = await #expect(throws: SessionError.self) { try await manager.data(for: "https://127.0.0.1:1/") }
        #expect(error?.code == .requestInvalid)
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("where all hosts need a policy, an unlisted port is refused")
    func unlistedPort() async throws {
        let origin = try ScriptedOrigin(Self.server) { _ in OriginResponse.text("here") }
        for (ports, code) in [(Int(origin.port), nil), (1, SessionError.Code.requestInvalid)] {
            let file = """
                { "version": 1, "pinnedDomains": { "127.0.0.1": { "ports": [\(ports)], "pinningMode": "none" } } }
                """
            let trust = SessionTrust(
                anchors: TestPKI.shared.anchors,
                pinnedDomains: try PinFile.load(text: file, file: "p.json", at: 1_800_000_000).domains,
                allHostsMustBeEvaluated: true
            )
            let manager = try HTTPSessionManager(serverTrust: trust)
            let result: SessionError.Code?
            do {
                _ = try await manager.data(for: "https://127.0.0.1:\(origin.port)/")
                result = nil
            } catch {
                result = error.sessionCode
            }
            #expect(result == code)
            await manager.invalidateSession(cancelingTasks: true)
        }
        #expect(origin.requests.count == 1)
    }

    @Test("a body over the limit fails, announced or not", arguments: [true, false])
    func tooLarge(isAnnounced: Bool) async throws {
        let origin = try Self.origin { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\n\(isAnnounced ? "Content-Length: 1001\r\n" : "")\r\n")
            try connection.write(patternBytes(1001))
            connection.readToEnd()
        }
        let manager = try Self.manager { $0.maximumBodySize = 1000 }
        let error = await #expect(throws: SessionError.self) {
            try await manager.data(for: "https://127.0.0.1:\(origin.port)/")
        }
        #expect(error?.code == .responseTooLarge)
        try await eventually("closed connections") { origin.connections.allSatisfy(\.isClosed) }
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a body of exactly the limit is taken")
    func exactlyTheLimit() async throws {
        let origin = try ScriptedOrigin(Self.server) { _ in OriginResponse.text("1234567890") }
        let manager = try Self.manager { $0.maximumBodySize = 10 }
        #expect(try await manager.data(for: "https://127.0.0.1:\(origin.port)/").data.count == 10)
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("cancelling the Swift task cancels the transfer", arguments: [true, false])
    func cancellation(afterHead: Bool) async throws {
        let reached = Monitor(false)
        let origin = try Self.origin { connection in
            _ = try connection.readRequest()
            if afterHead { try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf") }
            reached.with { $0 = true }
            connection.readToEnd()
        }
        let manager = try Self.manager()
        let port = origin.port
        let task = beside { try await manager.data(for: "https://127.0.0.1:\(port)/") }
        try await eventually("the request") { reached.with { $0 } }
        task.cancel()
        let result = await task.result
        #expect(throws: SessionError.self) { try result.get() }
        #expect { try result.get() } throws: { ($0 as? SessionError)?.code == .cancelled }
        try await eventually("closed connections") { origin.connections.allSatisfy(\.isClosed) }
        // One that was cancelled before it began never dials.
        let never = beside {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await manager.data(for: "https://127.0.0.1:\(port)/")
        }
        await #expect { try await never.value } throws: { ($0 as? SessionError)?.code == .cancelled }
        #expect(origin.connections.count == 1)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("many tasks from many threads, some of them cancelled, all end")
    func manyAtOnce() async throws {
        let origin = try Self.echo()
        let manager = try Self.manager { $0.session.connectionsPerHost = 16 }
        let url = "https://127.0.0.1:\(origin.port)/"
        let outcomes = await withTaskGroup(of: SessionError.Code?.self) { group in
            for number in 0..<300 {
                group.addTask {
                    let task = beside { try await manager.data(for: url + "\(number)") }
                    if number % 3 == 0 { task.cancel() }
                    switch await task.result {
                    case .success(let response):
                        let isRight = String(decoding: response.data, as: UTF8.self) == "GET /\(number) 0"
                        return isRight ? nil : .internal
                    case .failure(let error):
                        return (error as? SessionError)?.code ?? .internal
                    }
                }
            }
            return await group.reduce(into: [SessionError.Code?]()) { $0.append($1) }
        }
        #expect(outcomes.count == 300)
        #expect(outcomes.allSatisfy { $0 == nil || $0 == .cancelled })
        #expect(outcomes.filter { $0 == nil }.count >= 200)
        await manager.invalidateSession(cancelingTasks: false)
    }

    @Test("invalidation waits for the tasks, or cancels them, and takes no new ones", arguments: [true, false])
    func invalidation(cancelingTasks: Bool) async throws {
        let reached = Monitor(false)
        let response = Gate()
        let origin = try Self.origin { connection in
            _ = try connection.readRequest()
            reached.with { $0 = true }
            try response.pass()
            try connection.respond()
            connection.readToEnd()
        }
        let manager = try Self.manager()
        let url = "https://127.0.0.1:\(origin.port)/"
        let task = beside { try await manager.data(for: url) }
        try await eventually("the request") { reached.with { $0 } }
        async let first: Void = manager.invalidateSession(cancelingTasks: cancelingTasks)
        async let second: Void = manager.invalidateSession(cancelingTasks: cancelingTasks)
        if cancelingTasks {
            await #expect { try await task.value } throws: { ($0 as? SessionError)?.code == .cancelled }
        } else {
            response.open()
            #expect(try await task.value.response.status == 200)
        }
        _ = await (first, second)
        response.open()
        try await eventually("closed connections") { origin.connections.allSatisfy(\.isClosed) }
        await #expect { try await manager.data(for: url) } throws: {
            ($0 as? SessionError)?.code == .sessionInvalidated
        }
        #expect(!manager.perform { _ in })
        await manager.invalidateSession(cancelingTasks: true)
    }

    @Test("a released session ends its tasks and connections by itself")
    func release() async throws {
        let ended = Monitor<SessionError?>(nil)
        let origin = try Self.origin { $0.readToEnd() }
        do {
            let manager = try Self.manager()
            let endpoint = try manager.endpoint(for: "https://127.0.0.1:\(origin.port)/")
            #expect(endpoint === (try manager.endpoint(for: "https://127.0.0.1:\(origin.port)/other")))
            let request = try SessionRequest(endpoint: endpoint, method: .get, target: "/streamed")
            manager.perform { session in
                session.dataTask(with: request, delegate: EndDelegate { error in ended.with { $0 = error } }).resume()
            }
            try await eventually("the request") { origin.applicationBytes > 0 }
        }
        try await eventually("the end") { ended.with { $0 != nil } }
        #expect(ended.with { $0?.code } == .cancelled)
        try await eventually("closed connections") { origin.connections.allSatisfy(\.isClosed) }
    }

    @Test("a response over HTTP/2 is the same")
    func http2() async throws {
        let nginx = try NginxOrigin(Self.server, http2: true)
        let manager = try Self.manager { $0.httpVersion = .http2 }
        let response = try await manager.data(for: "https://127.0.0.1:\(nginx.port)/plain")
        #expect(String(decoding: response.data, as: UTF8.self) == "plain text from the origin\n")
        #expect(response.response.majorVersion == 2)
        await manager.invalidateSession(cancelingTasks: false)
    }
}

/// Notes how a task ended.
private final class EndDelegate: LoopTaskDelegate {
    private let ended: (SessionError?) -> Void

    init(_ ended: @escaping (SessionError?) -> Void) { self.ended = ended }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) { ended(error) }
}
