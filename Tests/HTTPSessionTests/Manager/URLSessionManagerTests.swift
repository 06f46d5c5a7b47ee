// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A session's manager", .onOwnThreads)
struct URLSessionManagerTests {
    private static let url = ManagerStage.url("/")

    @Test("a task is suspended, runs, completes, and is listed until then")
    func life() async throws {
        let mayRespond = Gate()
        let stage = try ManagerStage { connection in
            _ = try connection.readRequest()
            try mayRespond.pass()
            try connection.respond("body")
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        #expect(task.state == .suspended)
        #expect(stage.manager.tasks.map(\.taskIdentifier) == [task.taskIdentifier])
        #expect(stage.manager.dataTasks.count == 1 && stage.manager.uploadTasks.isEmpty)
        #expect(stage.origin.connections.isEmpty)
        task.taskDescription = "the first"
        task.resume()
        #expect(task.state == .running)
        try await eventually("the request") { stage.origin.requests.count == 1 }
        mayRespond.open()
        let response = try await task.value()
        #expect(response.data == Array("body".utf8))
        #expect(task.state == .completed)
        #expect(task.response?.status == 200)
        #expect(task.countOfBytesReceived == 4)
        #expect(task.countOfBytesExpectedToReceive == 4)
        #expect(task.countOfBytesSent == 0)
        #expect(task.taskDescription == "the first")
        #expect(task.error == nil)
        #expect(stage.manager.tasks.isEmpty)
        // Once more is the same answer.
        #expect(try await task.value().data == response.data)
        await stage.end()
    }

    @Test("identifiers are unique over managers and kinds of tasks")
    func identifiers() async throws {
        let first = try ManagerStage { _ in OriginResponse.text("") }
        let second = try ManagerStage { _ in OriginResponse.text("") }
        let request = HTTPSessionRequest(url: Self.url)
        var identifiers = Set<UInt64>()
        for manager in [first.manager, second.manager] {
            for _ in 0..<10 {
                identifiers.insert(try manager.dataTask(with: request).taskIdentifier)
                identifiers.insert(try manager.uploadTask(with: request, from: []).taskIdentifier)
            }
        }
        #expect(identifiers.count == 40)
        await first.end()
        await second.end()
    }

    @Test("hooks run in the order of events, the task's own before the session's")
    func hooks() async throws {
        let stage = try ManagerStage { request in OriginResponse.text("12345") }
        let manager = stage.manager
        manager.dataTaskDidReceiveResponse = { [stage] task, response in
            stage.note("response \(response.status) of \(task.taskIdentifier)")
            return .allow
        }
        manager.dataTaskDidReceiveData = { [stage] _, data in stage.note("data \(data.count)") }
        manager.taskDidFinishCollectingMetrics = { [stage] task, metrics in
            stage.note("metrics \(metrics.transaction.status)")
        }
        manager.taskDidComplete = { [stage] task, error in stage.note("complete \(task.state) \(error == nil)") }
        let task = try manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        task.delegate.queue.add { [stage] in stage.note("first") }
        task.delegate.queue.add { [stage] in stage.note("second") }
        task.resume()
        let log = try await stage.wait(for: "second")
        #expect(
            log == [
                "response 200 of \(task.taskIdentifier)", "data 5", "metrics 200", "complete completed true", "first",
                "second",
            ]
        )
        #expect(task.delegate.initialResponseTime ?? .seconds(-1) >= .zero)
        #expect(task.delegate.metrics?.transaction.status == 200)
        // Work that is added later runs too.
        task.delegate.queue.add { [stage] in stage.note("third") }
        _ = try await stage.wait(for: "third")

        let own = try manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        own.dataDelegate.dataTaskDidReceiveResponse = { [stage] _, _ in
            stage.note("own response")
            return .cancel
        }
        own.delegate.taskDidComplete = { [stage] _, error in stage.note("own \(error?.code.rawValue ?? "")") }
        await #expect { try await own.value() } throws: { $0.sessionCode == .cancelled }
        #expect(stage.log.with { $0.suffix(3) } == ["own response", "metrics 200", "own cancelled"])
        manager.hooks = SessionHooks()
        await stage.end()
    }

    @Test("completion handlers run on the queue that the configuration names")
    func callbackQueue() async throws {
        let stage = Monitor<[String]>([])
        let held = Monitor<[@Sendable () -> Void]>([])
        let staged = try ManagerStage {
            $0.callbackQueue = CallbackQueue { work in held.with { $0.append(work) } }
        } responding: { _ in
            OriginResponse.text("x")
        }
        let task = try staged.manager.dataTask(with: HTTPSessionRequest(url: Self.url)) { result in
            stage.with { $0.append((try? result.get()).map { "\($0.response.status)" } ?? "failed") }
        }
        task.resume()
        try await eventually("the handler") { held.with { !$0.isEmpty } }
        #expect(stage.with { $0 }.isEmpty)
        for work in held.with({ $0 }) { work() }
        #expect(stage.with { $0 } == ["200"])
        await staged.end()
        // The queue's work retains the task, whose session retains the queue.
        held.with { $0 = [] }
    }

    @Test("an upload and a download report their end, after earlier completion work")
    func completion() async throws {
        let folder = try TemporaryFolder()
        let stage = try ManagerStage {
            $0.temporaryFolder = folder.path
        } script: { connection in
            while let request = try connection.readRequest() { try connection.respond(request.method) }
        }
        let upload = try stage.manager.uploadTask(
            with: HTTPSessionRequest(url: ManagerStage.url("/"), method: .put),
            from: [1]
        )
        upload.delegate.queue.add { [stage] in stage.note("first") }
        upload.onCompletion { [stage] result in
            stage.note((try? result.get()).map { String(decoding: $0.data, as: UTF8.self) } ?? "failed")
        }
        upload.resume()
        _ = try await stage.wait(for: "PUT")
        let download = try stage.manager.downloadTask(with: HTTPSessionRequest(url: ManagerStage.url("/")))
        download.onCompletion { [stage] result in
            stage.note((try? result.get()) == nil ? "failed" : "a file")
        }
        download.resume()
        #expect(try await stage.wait(for: "a file") == ["first", "PUT", "a file"])
        await stage.end()
    }

    @Test("a ServerTrustManager's evaluators are the session's policies; several for one host are refused")
    func serverTrustManager() async throws {
        let pins = [ManagerStage.server.pin, PublicKeyPin.unrelated()]
        let evaluators = try ServerTrustManager(evaluators: [
            ManagerStage.host: try PublicKeysTrustEvaluator(keys: pins),
            ManagerStage.other: try PublicKeysTrustEvaluator(keys: [.unrelated(1), .unrelated(2)]),
        ])
        let origin = try ScriptedOrigin(ManagerStage.server) { request in OriginResponse.text(request.target) }
        var configuration = URLSessionManager.Configuration()
        for name in [ManagerStage.host, ManagerStage.other, "third.example.com"] {
            configuration.resolve[try Host(name)] = (host: try Host("127.0.0.1"), port: origin.port)
        }
        let manager = try URLSessionManager(
            configuration: configuration,
            serverTrust: try SessionTrust(anchors: TestPKI.shared.anchors, serverTrustManager: evaluators)
        )
        #expect(
            try await manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/"))).value().response.status
                == 200
        )
        let wrong = try manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/", ManagerStage.other)))
        await #expect { try await wrong.value() } throws: { $0.sessionCode == .pinMismatch }
        #expect {
            try manager.dataTask(with: HTTPSessionRequest(url: ManagerStage.url("/", "third.example.com")))
        } throws: {
            $0.sessionCode == .requestInvalid
        }
        await manager.invalidateSession(cancelingTasks: true)
        let both = CompositeTrustEvaluator(evaluators: [
            try PublicKeysTrustEvaluator(keys: pins), DefaultTrustEvaluator(),
        ])
        for evaluator in [both, CompositeTrustEvaluator(evaluators: [])] {
            let several = try ServerTrustManager(evaluators: [ManagerStage.host: evaluator])
            #expect { try SessionTrust(anchors: TestPKI.shared.anchors, serverTrustManager: several) } throws: {
                $0.sessionCode == .requestInvalid
            }
        }
    }

    @Test("a queue that runs its work at once does not hang")
    func immediateQueue() async throws {
        let log = Monitor<[Int]>([])
        let stage = try ManagerStage {
            $0.callbackQueue = CallbackQueue { $0() }
        } responding: { _ in
            OriginResponse.text("x")
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        task.delegate.queue.add {
            log.with { $0.append(1) }
            task.delegate.queue.add { log.with { $0.append(3) } }
        }
        task.delegate.queue.add { log.with { $0.append(2) } }
        task.resume()
        try await eventually("all handlers") { log.with { $0.count == 3 } }
        #expect(log.with { $0 } == [1, 2, 3])
        await stage.end()
    }

    @Test("a data stream takes the bytes instead of the collection, beyond its limit")
    func dataStream() async throws {
        let body = patternBytes(300_000)
        let stage = try ManagerStage({ $0.maximumBodySize = 1000 }) { connection in
            while try connection.readRequest() != nil {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
                try connection.write(body)
            }
        }
        let streamed = Monitor<[UInt8]>([])
        let progress = Monitor<[TaskProgress]>([])
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        task.dataDelegate.dataStream = { bytes in streamed.with { $0 += bytes } }
        task.dataDelegate.setProgressHandler { step in progress.with { $0.append(step) } }
        let response = try await task.value()
        #expect(response.data.isEmpty)
        #expect(task.delegate.data == nil)
        let isWhole = streamed.with { $0 } == body
        #expect(isWhole)
        let whole = TaskProgress(completedBytes: 300_000, totalBytes: 300_000)
        try await eventually("the last progress") { progress.with { $0.last == whole } }
        #expect(whole.fraction == 1)
        let steps = progress.with { $0.map(\.completedBytes) }
        #expect(steps == steps.sorted())
        let collected = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        await #expect { try await collected.value() } throws: { $0.sessionCode == .responseTooLarge }
        await stage.end()
    }

    /// The whole response comes at once, so that its end is known before the loop carries out the cancellation.
    @Test(
        "a progress handler that cancels at the last piece ends the task as cancelled",
        arguments: [
            "Content-Length: 4\r\n\r\nlast", "Transfer-Encoding: chunked\r\n\r\n4\r\nlast\r\n0\r\n\r\n",
        ]
    )
    func cancelledAtLastPiece(rest: String) async throws {
        let stage = try ManagerStage { _ in "HTTP/1.1 200 OK\r\n\(rest)" }
        for cancels in [false, true] {
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
            let last = Monitor<Int64>(0)
            task.dataDelegate.setProgressHandler(on: CallbackQueue { $0() }) { [weak task] step in
                last.with { $0 = step.completedBytes }
                if cancels, step.completedBytes == 4 { task?.cancel() }
            }
            if cancels {
                await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
                #expect(task.error?.code == .cancelled)
            } else {
                #expect(try await task.value().data == Array("last".utf8))
            }
            #expect(task.state == .completed)
            #expect(last.with { $0 } == 4)
        }
        await stage.end()
    }

    @Test("a progress handler that is set only after the end is never called")
    func lateProgressHandler() async throws {
        let folder = try TemporaryFolder()
        let stage = try ManagerStage({ $0.temporaryFolder = folder.path }) { request in
            OriginResponse.text(request.target)
        }
        let calls = Monitor(0)
        let atOnce = CallbackQueue { $0() }
        let handler: @Sendable (TaskProgress) -> Void = { _ in calls.with { $0 += 1 } }
        let request = HTTPSessionRequest(url: Self.url)
        let data = try stage.manager.dataTask(with: request)
        _ = try await data.value()
        data.dataDelegate.setProgressHandler(on: atOnce, handler)
        let upload = try stage.manager.uploadTask(
            with: HTTPSessionRequest(url: Self.url, method: .put),
            from: [1, 2, 3]
        )
        _ = try await upload.value()
        upload.uploadDelegate.setUploadProgressHandler(on: atOnce, handler)
        upload.uploadDelegate.setProgressHandler(on: atOnce, handler)
        let download = try stage.manager.downloadTask(with: request)
        _ = try await download.value()
        download.downloadDelegate.setProgressHandler(on: atOnce, handler)
        await stage.end()
        #expect(calls.with { $0 } == 0)
    }

    @Test("a suspended task reads no more, and goes on where it was")
    func suspension() async throws {
        let stage = try ManagerStage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 40000000\r\n\r\n")
            for _ in 0..<40 { try connection.write([UInt8](repeating: 7, count: 1_000_000)) }
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        let first = Gate()
        task.dataDelegate.dataTaskDidReceiveResponse = { task, _ in
            task.suspend()
            first.open()
            return .allow
        }
        let waiting = beside { try await task.value() }
        try await eventually("the head") { task.response != nil }
        try first.pass()
        #expect(task.state == .suspended)
        // The origin cannot get rid of it all: it waits in the sockets' buffers.
        try await eventually("a full connection") { stage.origin.connections[0].bytesWritten > 100_000 }
        #expect(stage.origin.connections[0].bytesWritten < 40_000_000)
        task.resume()
        #expect(try await waiting.value.data.count == 40_000_000)
        await stage.end()
    }

    @Test("cancelling ends a task before its start, and while it waits; once")
    func cancellation() async throws {
        let stage = try ManagerStage { $0.readToEnd() }
        stage.manager.taskDidComplete = { [stage] task, error in stage.note("\(task.taskIdentifier) \(error!.code)") }
        let never = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        never.cancel()
        never.resume()
        await #expect { try await never.value() } throws: { $0.sessionCode == .cancelled }
        let waiting = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        waiting.resume()
        try await eventually("the request") { stage.origin.applicationBytes > 0 }
        for _ in 0..<3 { waiting.cancel() }
        await #expect { try await waiting.value() } throws: { $0.sessionCode == .cancelled }
        waiting.cancel()
        waiting.suspend()
        waiting.resume()
        await stage.end()
        #expect(stage.log.with { $0 } == ["\(never.taskIdentifier) cancelled", "\(waiting.taskIdentifier) cancelled"])
        #expect(stage.origin.connections.count == 1)
    }

    @Test("invalidation waits for tasks that were never resumed, or cancels them")
    func invalidation() async throws {
        let stage = try ManagerStage { _ in OriginResponse.text("late") }
        stage.manager.sessionDidBecomeInvalid = { [stage] in stage.note("invalid") }
        stage.manager.taskDidComplete = { [stage] _, error in stage.note(error?.code.rawValue ?? "fine") }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        async let ended: Void = stage.manager.invalidateSession(cancelingTasks: false)
        try await eventually("the closing") { !stage.manager.perform { _ in } }
        #expect { try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url)) } throws: {
            $0.sessionCode == .sessionInvalidated
        }
        #expect(stage.log.with { $0 }.isEmpty)
        #expect(try await task.value().data == Array("late".utf8))
        await ended
        #expect(stage.log.with { $0 } == ["fine", "invalid"])

        let second = try ManagerStage { $0.readToEnd() }
        second.manager.taskDidComplete = { [second] _, error in second.note(error?.code.rawValue ?? "fine") }
        let idle = try second.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        let busy = try second.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        busy.resume()
        await second.manager.invalidateSession(cancelingTasks: true)
        #expect(idle.state == .completed && busy.state == .completed)
        #expect(second.log.with { $0 } == ["cancelled", "cancelled"])
    }

    @Test("cancelling ends loop tasks that were never resumed, during an invalidation too")
    func unstarted() async throws {
        for waitsFirst in [false, true] {
            let stage = try ManagerStage { $0.readToEnd() }
            let endpoint = try stage.manager.endpoint(for: Self.url)
            stage.manager.perform { [stage] session in
                guard let request = try? SessionRequest(endpoint: endpoint, method: .get, target: "/") else { return }
                let delegate = Holding { error in stage.note(error?.code.rawValue ?? "fine") }
                delegate.task = session.dataTask(with: request, delegate: delegate)
                stage.note("made")
            }
            _ = try await stage.wait(for: "made")
            async let ended: Void = waitsFirst ? stage.manager.invalidateSession(cancelingTasks: false) : ()
            if waitsFirst { try await eventually("the closing") { !stage.manager.perform { _ in } } }
            await stage.manager.invalidateSession(cancelingTasks: true)
            await ended
            #expect(stage.log.with { $0 } == ["made", "cancelled"])
        }
    }

    @Test("an error tells how far its task came")
    func failureMetrics() async throws {
        let stage = try ManagerStage { connection in
            guard try connection.readRequest() != nil else { return }
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        let error = await #expect(throws: SessionError.self) { try await task.value() }
        let metrics = try #require(error?.metrics)
        #expect(metrics.transaction.status == 200 && metrics.transaction.responseBodyBytesReceived == 4)
        #expect(metrics.duration >= metrics.transaction.responseStart && metrics.transaction.responseStart > 0)
        #expect(task.error?.metrics != nil)
        let idle = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        idle.cancel()
        await #expect { _ = try await idle.value() } throws: { ($0 as? SessionError)?.metrics == nil }
        await stage.end()
    }

    @Test("two sessions share a thread, and the end of one leaves the other alone")
    func sharedLoop() async throws {
        let loop = try SessionLoop()
        let response: ScriptedOrigin.Script = { connection in
            while try connection.readRequest() != nil { try connection.respond("x") }
        }
        let first = try ManagerStage(loop: loop, script: response)
        let second = try ManagerStage(loop: loop, script: response)
        #expect(try await first.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value().data.count == 1)
        #expect(try await second.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value().data.count == 1)
        await first.end()
        #expect(try await second.manager.dataTask(with: HTTPSessionRequest(url: Self.url)).value().data.count == 1)
        await second.end()
    }

    @Test("a request that cannot be sent is refused where it is made")
    func refusal() async throws {
        let stage = try ManagerStage(pinned: [ManagerStage.host]) { _ in OriginResponse.text("") }
        let requests = [
            HTTPSessionRequest(url: "ftp://api.example.com/"),
            HTTPSessionRequest(url: Self.url, headers: ["Transfer-Encoding": "chunked"]),
            HTTPSessionRequest(url: Self.url, headers: ["X-Line": "a\r\nb"]),
            HTTPSessionRequest(url: "http://api.example.com/"), HTTPSessionRequest(url: Self.url, method: .connect),
        ]
        for request in requests {
            #expect { try stage.manager.dataTask(with: request) } throws: { $0.sessionCode == .requestInvalid }
        }
        #expect(stage.manager.tasks.isEmpty)
        await stage.end()
    }
}

/// Keeps its task until that is over.
private final class Holding: LoopTaskDelegate {
    var task: LoopTask?
    private let tell: (SessionError?) -> Void

    init(_ tell: @escaping (SessionError?) -> Void) { self.tell = tell }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        tell(error)
        self.task = nil
    }
}
