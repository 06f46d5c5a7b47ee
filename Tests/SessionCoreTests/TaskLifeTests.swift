// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("The life of a task", .onOwnThreads)
struct TaskLifeTests {
    /// An origin that says all that an origin can say: 103, a head, a body, trailers.
    private static func talkative() throws -> ScriptedOrigin {
        try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while try connection.readRequest() != nil {
                try connection.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
                try connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                try connection.write("5\r\nhello\r\n")
                try connection.write("0\r\nX-Sum: 1\r\n\r\n")
            }
        }
    }

    @Test("the delegate is told in the documented order")
    func order() throws {
        let origin = try Self.talkative()
        let session = try TestSession()
        let delegate = RecordingDelegate()
        delegate.onNeedsBodyData = { $0.finishSending() }
        let endpoint = try TestSession.endpoint(port: origin.port)
        let task = try session.start(delegate, endpoint, .put, bodyLength: .unknown)
        #expect(session.manager.taskCount == 1)
        #expect(task.state == .running)
        try session.finish(delegate)
        #expect(
            delegate.calls == [
                .connected, .needsBodyData, .informational(103), .response(200), .data, .trailers, .completed,
            ]
        )
        #expect(delegate.error == nil)
        #expect(delegate.text == "hello")
        #expect(delegate.trailers.value(for: "x-sum") == "1")
        #expect(delegate.completions == 1)
        #expect(task.state == .completed)
        #expect(task.evaluation?.verdict == .notPinned)
        #expect(session.manager.taskCount == 0)
    }

    @Test("tasks have identifiers of their own, also across sessions")
    func identifiers() throws {
        let one = try TestSession()
        let two = try TestSession()
        let request = try SessionRequest(endpoint: TestSession.endpoint(port: 1), method: .get, target: "/")
        let identifiers = [one, two, one].map {
            let task = $0.manager.dataTask(with: request, delegate: LoopTaskDelegate())
            defer { task.cancel() }
            return task.taskIdentifier
        }
        #expect(Set(identifiers).count == 3)
        #expect(identifiers == identifiers.sorted())
    }

    enum Moment: CaseIterable {
        case connect, needsBodyData, informational, response, responseDisposition, data, trailers
    }

    @Test(
        "a task cancelled within a call is told at once, and nothing more",
        arguments: Moment.allCases
    )
    func cancelFromWithin(moment: Moment) throws {
        let origin = try Self.talkative()
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let delegate = RecordingDelegate()
        var wasTold = false
        let cancel: (LoopTask) -> Void = { [unowned delegate] task in
            task.cancel()
            wasTold = delegate.isComplete
        }
        delegate.onNeedsBodyData = { $0.finishSending() }
        switch moment {
        case .connect: delegate.onConnect = cancel
        case .needsBodyData: delegate.onNeedsBodyData = cancel
        case .informational: delegate.onInformational = cancel
        case .response:
            delegate.onResponse = {
                cancel($0)
                return .allow
            }
        case .responseDisposition:
            delegate.onResponse = { _ in .cancel }
            wasTold = true
        case .data:
            delegate.onData = {
                cancel($0)
                return .pause
            }
        case .trailers: delegate.onTrailers = cancel
        }
        try session.start(delegate, endpoint, .put, bodyLength: .unknown)
        try session.finish(delegate)
        #expect(wasTold)
        #expect(delegate.error?.code == .cancelled)
        #expect(delegate.completions == 1)
        #expect(delegate.calls.last == .completed)
        session.settle()
        #expect(session.manager.taskCount == 0)
        // The session is as good as before.
        #expect(try session.get(endpoint).text == "hello")
        if moment == .connect { #expect(origin.requests.count == 1) }
    }

    @Test("a task that starts within another's last call is not paused by it")
    func startWithinTheLastCall() throws {
        let origin = try Self.talkative()
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let delegate = RecordingDelegate()
        let next = RecordingDelegate()
        delegate.onData = { task in
            task.cancel()
            _ = try? session.start(next, endpoint)
            return .pause
        }
        try session.start(delegate, endpoint)
        try session.finish(delegate, next)
        #expect(delegate.error?.code == .cancelled && next.error == nil)
        #expect(next.text == "hello")
    }

    @Test("a task may be cancelled before, during and after its connection")
    func cancelFromOutside() throws {
        let origin = try Self.talkative()
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let request = try SessionRequest(endpoint: endpoint, method: .get, target: "/")

        let never = RecordingDelegate()
        session.manager.dataTask(with: request, delegate: never).cancel()
        #expect(never.calls == [.completed])
        #expect(never.error?.code == .cancelled)
        #expect(never.metrics.fetchStart == 0)

        let early = RecordingDelegate()
        try session.start(early, endpoint).cancel()
        #expect(early.calls == [.completed])
        session.settle()

        let connecting = RecordingDelegate()
        // No server replies to the hello there.
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        let task = try session.start(connecting, TestSession.endpoint(port: silent.port))
        session.settle()
        task.cancel()
        #expect(connecting.calls == [.completed])
        #expect(connecting.error?.code == .cancelled)

        let late = RecordingDelegate()
        let done = try session.start(late, endpoint)
        try session.finish(late)
        done.cancel()
        done.resume()
        done.suspend()
        #expect(late.completions == 1)
        #expect(late.error == nil)
        #expect(done.state == .completed)
    }

    @Test("a delegate may start the next task from within any call")
    func startFromWithin() throws {
        let origin = try Self.talkative()
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let delegate = RecordingDelegate()
        var others: [RecordingDelegate] = []
        let startAnother = {
            let other = RecordingDelegate()
            others.append(other)
            _ = try! session.start(other, endpoint)
        }
        delegate.onConnect = { _ in startAnother() }
        delegate.onResponse = { _ in
            startAnother()
            return .allow
        }
        delegate.onData = { _ in
            startAnother()
            return .proceed
        }
        delegate.onTrailers = { _ in startAnother() }
        delegate.onComplete = { _ in startAnother() }
        try session.start(delegate, endpoint)
        try session.run(until: "all tasks") { others.count == 5 && others.allSatisfy(\.isComplete) }
        #expect(delegate.error == nil)
        for other in others { #expect(other.text == "hello" && other.error == nil) }
    }

    @Test("a suspended task takes nothing more until it is resumed")
    func suspension() throws {
        let rest = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
            try rest.pass()
            try connection.write("later")
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, TestSession.endpoint(port: origin.port))
        try session.run(until: "the first bytes") { delegate.text == "first" }
        task.suspend()
        #expect(task.state == .suspended)
        rest.open()
        try origin.wait(for: "the rest to be sent") { $0[0].bytesWritten >= 48 ? true : nil }
        session.settle(20)
        #expect(delegate.text == "first")
        task.resumeReceiving()
        session.settle(20)
        #expect(delegate.text == "first", "resumeReceiving is no resume")
        task.resume()
        #expect(task.state == .running)
        try session.finish(delegate)
        #expect(delegate.text == "firstlater")
    }

    @Test("a resumed task stays paused if its delegate paused it")
    func suspensionKeepsPause() throws {
        let body = patternBytes(300 << 10)
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            try connection.write(body)
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        delegate.onData = { _ in .pause }
        let task = try session.start(delegate, TestSession.endpoint(port: origin.port))
        try session.run(until: "the first bytes") { delegate.dataCalls == 1 }
        task.suspend()
        task.resume()
        session.settle(20)
        #expect(delegate.dataCalls == 1)
        delegate.onData = { _ in .proceed }
        task.resumeReceiving()
        try session.finish(delegate)
        let isWhole = delegate.body == body
        #expect(isWhole)
    }

    @Test("an invalidated session waits for its tasks, reports its end, and closes")
    func invalidation() throws {
        let response = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try response.pass()
            try connection.respond()
            connection.readToEnd()
        }
        let session = try TestSession()
        var invalid = 0
        session.manager.sessionDidBecomeInvalid = { invalid += 1 }
        let delegate = RecordingDelegate()
        try session.start(delegate, TestSession.endpoint(port: origin.port))
        try session.run(until: "the connection") { delegate.calls == [.connected] }
        session.manager.invalidateSession(cancelingTasks: false)
        session.settle()
        #expect(invalid == 0)
        response.open()
        try session.finish(delegate)
        session.settle()
        #expect(delegate.error == nil)
        #expect(invalid == 1)
        session.manager.invalidateSession(cancelingTasks: true)
        session.settle()
        #expect(invalid == 1)
        try origin.waitForClosed()
    }

    @Test("an invalidated session cancels tasks that were never resumed")
    func invalidationOfUnstarted() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { $0.readToEnd() }
        let session = try TestSession()
        var invalid = 0
        session.manager.sessionDidBecomeInvalid = { invalid += 1 }
        let endpoint = try TestSession.endpoint(port: origin.port)
        let request = try SessionRequest(endpoint: endpoint, method: .get, target: "/")
        let made = (0..<4).map { _ in RecordingDelegate() }
        let tasks = made.map { session.manager.dataTask(with: request, delegate: $0) }
        _ = session.manager.dataTask(with: request, delegate: RecordingDelegate())
        tasks[1].cancel()
        tasks[0].resume()
        try session.run(until: "the connection") { made[0].calls == [.connected] }
        #expect(session.manager.taskCount == 3)
        session.manager.invalidateSession(cancelingTasks: false)
        session.settle()
        #expect(invalid == 0)
        session.manager.invalidateSession(cancelingTasks: true)
        #expect(made.allSatisfy { $0.completions == 1 && $0.error?.code == .cancelled })
        #expect(tasks.allSatisfy { $0.state == .completed })
        try session.run(until: "the end") { invalid == 1 }
        #expect(session.manager.taskCount == 0)
    }

    @Test("a request that began, ended and was lent in one turn leaves once")
    func lentAgain() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { request in
            OriginResponse.text(request.target)
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let early = RecordingDelegate()
        let ended = RecordingDelegate()
        let next = RecordingDelegate()
        let loop = session.loop
        early.onResponse = { _ in
            // A response is being read, so that the new task's request waits for the end of the turn.
            var waiting: LoopTask?
            loop.atEndOfTurn {
                waiting?.cancel()
                _ = try? session.start(next, endpoint, target: "/next")
            }
            waiting = try? session.start(ended, endpoint, target: "/ended")
            return .allow
        }
        try session.start(early, endpoint, target: "/early")
        try session.finish(early, ended, next)
        #expect(early.text == "/early" && next.text == "/next")
        #expect(ended.error?.code == .cancelled)
        #expect(origin.requests.map(\.target).sorted() == ["/early", "/next"])
    }

    @Test("a session that is invalidated with its tasks cancels those of every state")
    func invalidationCancels() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { $0.readToEnd() }
        let session = try TestSession()
        var invalid = 0
        session.manager.sessionDidBecomeInvalid = { invalid += 1 }
        let endpoint = try TestSession.endpoint(port: origin.port)
        let running = RecordingDelegate()
        try session.start(running, endpoint)
        try session.run(until: "the connection") { running.calls == [.connected] }
        let fresh = RecordingDelegate()
        try session.start(fresh, endpoint)
        let suspended = RecordingDelegate()
        try session.start(suspended, endpoint).suspend()
        session.manager.invalidateSession(cancelingTasks: true)
        try session.finish(running, fresh, suspended)
        try session.run(until: "the end") { invalid == 1 }
        for delegate in [running, fresh, suspended] { #expect(delegate.error?.code == .cancelled) }
    }
}
