// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

/// Tasks whose session ends before they do.
@Suite("A session that takes no tasks any more", .onOwnThreads)
struct InvalidatedSessionTests {
    enum Ending: CaseIterable {
        /// A task is under way.
        case invalidated, retired
        /// None was.
        case ended, retiredAndEnded
        case cancelled
    }

    enum Kind: CaseIterable {
        case request, upload, twoWay, stream
    }

    /// A request that was started, and its outcome.
    private struct Late {
        let task: LoopTask
        let resume: () -> Void
        let isComplete: () -> Bool
        let code: () -> SessionError.Code?
    }

    private func make(_ kind: Kind, _ session: TestSession, _ endpoint: Endpoint) throws -> Late {
        if kind == .stream {
            let delegate = RecordingStream()
            let stream = session.manager.streamTask(with: endpoint, delegate: delegate)
            return Late(
                task: stream.task,
                resume: stream.resume,
                isComplete: { delegate.isComplete },
                code: { stream.error?.code }
            )
        }
        let delegate = RecordingDelegate()
        var request = try SessionRequest(
            endpoint: endpoint,
            method: kind == .request ? .get : .post,
            target: "/",
            bodyLength: kind == .request ? .none : .unknown
        )
        request.isBidirectional = kind == .twoWay
        let task = session.manager.dataTask(with: request, delegate: delegate)
        return Late(
            task: task,
            resume: task.resume,
            isComplete: { delegate.isComplete },
            code: { delegate.error?.code }
        )
    }

    @Test(
        "a later task ends with an error after its turn",
        arguments: Ending.allCases,
        Kind.allCases
    )
    func late(ending: Ending, kind: Kind) throws {
        let gate = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while try connection.readRequest() != nil {
                try gate.pass()
                try connection.respond()
            }
        }
        defer { gate.open() }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: kind == .twoWay ? .http2 : .http1)
        var ends = 0
        session.manager.sessionDidBecomeInvalid = { ends += 1 }
        let early = RecordingDelegate()
        if ending == .invalidated || ending == .retired || ending == .cancelled {
            try session.start(early, TestSession.endpoint(port: origin.port))
            try session.run(until: "the request") { early.calls == [.connected] }
        }
        switch ending {
        case .invalidated, .ended: session.manager.invalidateSession(cancelingTasks: false)
        case .retired, .retiredAndEnded: session.manager.retire()
        case .cancelled: session.manager.invalidateSession(cancelingTasks: true)
        }
        if ending != .invalidated, ending != .retired { session.settle() }
        let count = session.manager.taskCount
        let late = try make(kind, session, endpoint)
        #expect(session.manager.taskCount == count + 1)
        late.resume()
        #expect(!late.isComplete(), "the delegate was told while the task was resumed")
        late.task.send(Array("body".utf8).span)
        session.loop.turn(waitingAtMost: .milliseconds(0))
        #expect(late.isComplete())
        #expect(late.code() == .sessionInvalidated)
        #expect(late.task.state == .completed)
        #expect(session.manager.taskCount == count)
        // One that is dropped, and one that is cancelled before.
        do { _ = try make(kind, session, endpoint) }
        let cancelled = try make(kind, session, endpoint)
        cancelled.task.cancel()
        #expect(cancelled.code() == .cancelled)
        #expect(session.manager.taskCount == count)
        gate.open()
        if ending == .invalidated || ending == .retired {
            try session.finish(early)
            #expect(early.error == nil && early.text == "hello")
        }
        session.settle()
        #expect(ends == 1)
        #expect(origin.requests.count == (count > 0 || ending == .cancelled ? 1 : 0))
    }

    @Test("a retired session returns unsent requests, and finishes the others")
    func handedBack() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while try connection.readRequest() != nil {
                try gate.pass()
                try connection.respond()
            }
        }
        defer { gate.open() }
        // It takes connections, and says nothing.
        let silent = try TestSocket.listen()
        defer { close(silent.descriptor) }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, connectionLimit: 1)
        let sent = RecordingDelegate()
        try session.start(sent, endpoint)
        try session.run(until: "the request") { sent.calls == [.connected] }
        var unsent: [RecordingDelegate] = []
        var bodies: [String] = []
        for place in [endpoint, try TestSession.endpoint("silent.example.com", port: silent.port)] {
            let delegate = RecordingDelegate()
            let task = try session.start(delegate, place, .post, bodyLength: .unknown)
            task.send(Array("body".utf8).span)
            delegate.onComplete = { task in
                var buffer = ByteBuffer()
                task.takeUnsentBody(into: &buffer)
                bodies.append(String(decoding: buffer.withUnsafeBytes { Array($0) }, as: UTF8.self))
            }
            unsent.append(delegate)
        }
        session.settle()
        let never = RecordingDelegate()
        let task = session.manager.dataTask(
            with: try SessionRequest(endpoint: endpoint, method: .get, target: "/"),
            delegate: never
        )
        session.manager.retire()
        #expect(unsent.allSatisfy { $0.isComplete && $0.error?.code == .sessionInvalidated })
        #expect(bodies == ["body", "body"])
        task.resume()
        try session.finish(never)
        #expect(never.error?.code == .sessionInvalidated)
        gate.open()
        try session.finish(sent)
        #expect(sent.error == nil)
        #expect(origin.requests.count == 1)
    }

    @Test("an invalidated session that is not retired still begins waiting requests")
    func notHandedBack() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while try connection.readRequest() != nil {
                try gate.pass()
                try connection.respond()
            }
        }
        defer { gate.open() }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, connectionLimit: 1)
        let delegates = (0..<3).map { _ in RecordingDelegate() }
        try session.start(delegates[0], endpoint)
        try session.start(delegates[1], endpoint)
        let request = try SessionRequest(endpoint: endpoint, method: .get, target: "/")
        let made = session.manager.dataTask(with: request, delegate: delegates[2])
        try session.run(until: "the request") { delegates[0].calls == [.connected] }
        session.manager.invalidateSession(cancelingTasks: false)
        made.resume()
        gate.open()
        try session.finish(delegates[0], delegates[1], delegates[2])
        #expect(delegates.allSatisfy { $0.error == nil && $0.text == "hello" })
    }

    @Test("a connection verified with other anchors is not used")
    func otherAnchors() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let origin = try ScriptedOrigin(server) { connection in
            while try connection.readRequest() != nil { try connection.respond() }
        }
        let policy = try SecurityPolicy.pinning(server.pin)
        func endpoint(_ anchors: TrustAnchors) throws -> Endpoint {
            Endpoint(
                scheme: .https,
                host: try Host(TestSession.host),
                port: 443,
                resolve: (host: try Host("127.0.0.1"), port: origin.port),
                policy: policy,
                anchors: anchors,
                generation: 1
            )
        }
        let session = try TestSession()
        #expect(try session.get(endpoint(TestPKI.shared.anchors)).error == nil)
        // The same set is the same, whichever object it is.
        #expect(try session.get(endpoint(TrustAnchors(certificates: [TestPKI.shared.root.certificate]))).error == nil)
        #expect(origin.connections.count == 1)
        let refused = try session.get(endpoint(try TestPKI().anchors))
        #expect(refused.error?.code == .certificateUntrusted)
        let records = try origin.wait(for: "another connection") { $0.count > 1 ? $0 : nil }
        #expect(records.dropFirst().allSatisfy { $0.applicationBytes == 0 })
    }
}
