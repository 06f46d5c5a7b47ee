// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import TestSupport

@testable import SessionCore

/// A manager on a loop that the test turns itself, so that it decides what happens between two turns.
final class TestSession {
    static let host = "api.example.com"

    let loop: EventLoop
    let manager: LoopSession

    init(_ configuration: SessionConfiguration = SessionConfiguration(), clock: LoopClock = .system) throws {
        loop = try EventLoop(clock: clock)
        manager = try LoopSession(loop: loop, configuration: configuration)
    }

    deinit {
        manager.invalidateSession(cancelingTasks: true)
        for _ in 0..<3 { loop.run(atMost: .milliseconds(0)) }
    }

    /// Turns the loop until something is so.
    func run(
        until what: String,
        seconds: Double = Patience.seconds,
        _ isSo: () throws -> Bool
    ) throws {
        let deadline = Date(timeIntervalSinceNow: seconds)
        while try !loop.run(until: isSo, atMost: .milliseconds(20)) {
            if Date() > deadline { throw TimedOut(what) }
        }
    }

    /// Turns the loop for everything that is there to be done now.
    func settle(_ turns: Int = 5) {
        for _ in 0..<turns { loop.run(atMost: .milliseconds(1)) }
    }

    /// An endpoint over TLS at an origin of 127.0.0.1.
    static func endpoint(
        _ host: String = TestSession.host,
        port: UInt16,
        scheme: Endpoint.Scheme = .https,
        httpVersion: Endpoint.HTTPVersion = .http1,
        policy: SecurityPolicy = .unpinned,
        generation: UInt64 = 1,
        timeouts: TaskTimeouts = TaskTimeouts(),
        dialRule: (@Sendable (SocketAddress) -> DialRefusal?)? = nil,
        connectionLimit: Int? = nil
    ) throws -> Endpoint {
        Endpoint(
            scheme: scheme,
            host: try Host(host),
            port: scheme == .https ? 443 : 80,
            resolve: (host: try Host("127.0.0.1"), port: port),
            httpVersion: httpVersion,
            policy: policy,
            anchors: TestPKI.shared.anchors,
            generation: generation,
            timeouts: timeouts,
            dialRule: dialRule,
            connectionLimit: connectionLimit
        )
    }

    /// Makes a task and resumes it.
    @discardableResult
    func start(
        _ delegate: RecordingDelegate,
        _ endpoint: Endpoint,
        _ method: HTTPMethod = .get,
        target: String = "/",
        fields: HeaderFields = HeaderFields(),
        bodyLength: RequestBodyLength = .none
    ) throws -> LoopTask {
        let request = try SessionRequest(
            endpoint: endpoint,
            method: method,
            target: target,
            fields: fields,
            bodyLength: bodyLength
        )
        let task = manager.dataTask(with: request, delegate: delegate)
        task.resume()
        return task
    }

    /// One GET to its end.
    func get(_ endpoint: Endpoint, target: String = "/") throws -> RecordingDelegate {
        let delegate = RecordingDelegate()
        try start(delegate, endpoint, target: target)
        try finish(delegate)
        return delegate
    }

    func finish(_ delegates: RecordingDelegate...) throws {
        try run(until: "tasks to complete; so far \(delegates.map(\.calls))") { delegates.allSatisfy(\.isComplete) }
    }
}

/// Writes down what it is told, and does what the test hangs into it.
final class RecordingDelegate: LoopTaskDelegate {
    enum Call: Equatable {
        case connected, informational(Int), response(Int), data, needsBodyData, trailers, completed
    }

    /// Runs of the same call count once.
    private(set) var calls: [Call] = []
    private(set) var head: ResponseHead?
    private(set) var body: [UInt8] = []
    private(set) var dataCalls = 0
    private(set) var trailers = HeaderFields()
    private(set) var error: SessionError?
    private(set) var metrics = TaskMetrics()
    private(set) var completions = 0

    var onConnect: (LoopTask) -> Void = { _ in }
    var onInformational: (LoopTask) -> Void = { _ in }
    var onResponse: (LoopTask) -> ResponseDisposition = { _ in .allow }
    var onData: (LoopTask) -> BodyFlow = { _ in .proceed }
    var onNeedsBodyData: (LoopTask) -> Void = { _ in }
    var onTrailers: (LoopTask) -> Void = { _ in }
    var onComplete: (LoopTask) -> Void = { _ in }
    var mayTrust: (ConnectionTrust) -> SessionError? = { _ in nil }

    var isComplete: Bool { completions > 0 }
    var text: String { String(decoding: body, as: UTF8.self) }
    var transaction: TransactionMetrics { metrics.transaction }

    private func note(_ call: Call) {
        if calls.last != call { calls.append(call) }
    }

    override func task(_ task: LoopTask, mayTrust trust: ConnectionTrust) -> SessionError? { mayTrust(trust) }

    override func taskDidConnect(_ task: LoopTask) {
        note(.connected)
        onConnect(task)
    }

    override func taskNeedsBodyData(_ task: LoopTask) {
        note(.needsBodyData)
        onNeedsBodyData(task)
    }

    override func task(_ task: LoopTask, didReceiveInformational head: borrowing ResponseHead) {
        note(.informational(head.status))
        onInformational(task)
    }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        note(.response(response.status))
        head = copy response
        return onResponse(task)
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        note(.data)
        dataCalls += 1
        body.append(data)
        return onData(task)
    }

    override func task(_ task: LoopTask, didReceiveTrailers trailers: borrowing HeaderFields) {
        note(.trailers)
        self.trailers = copy trailers
        onTrailers(task)
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        note(.completed)
        completions += 1
        self.error = error
        metrics = task.metrics
        onComplete(task)
    }
}

/// The same pseudo-random sequence on every run.
struct Sequence64 {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 2 &+ 1 }

    mutating func next(_ range: ClosedRange<Int>) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return range.lowerBound + Int((state >> 33) % UInt64(range.count))
    }
}
