// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

/// Requests through the real stage, with an origin in memory and a clock that the test moves. What the origin sends, and
/// what receivers take, is chance; a seed always gives the same run.
final class StageCourse {
    let loop: EventLoop
    let session: LoopSession
    let cache: ResponseCache
    private let endpoint: Endpoint
    private let origin: StageOrigin
    private var random: SeededGenerator
    private(set) var receivers: [StageReceiver] = []
    /// The number of steps of each kind.
    private(set) var counts: [String: Int] = [:]
    /// The bodies that the origin has sent, by entity tag.
    private(set) var bodies: [String: [UInt8]] = [:]
    /// The version of each resource, and the number of its failures.
    private var versions = [0, 0, 0]
    private(set) var failures = [0, 0, 0]
    /// Nothing is left to chance: no receiver pauses or leaves any more, and no response fails.
    var isCalm = false

    private static let controls = [
        "max-age=60", "max-age=60", "max-age=60", "max-age=0, stale-while-revalidate=600",
        "max-age=1, stale-if-error=600", "no-cache", "no-store",
    ]

    /// - Parameters:
    ///   - completesBelow: of the cache, in bytes.
    ///   - memory: small unless it is given, so that bodies are refused and lose their room.
    init(
        seed: UInt64,
        completesBelow: Int,
        _ memory: MemoryStore = MemoryStore(capacity: 64 << 10, stall: 3600)
    ) throws {
        random = SeededGenerator(seed: seed)
        loop = try EventLoop(clock: .byHand)
        loop.setWallClock(1_800_000_000_000_000)
        let origin = StageOrigin()
        self.origin = origin
        session = try LoopSession(loop: loop, stub: StubTransport { origin.begin($0) })
        cache = ResponseCache(
            CacheStore(memory: memory, CacheOptions()),
            patience: .seconds(5),
            completesBelow: completesBelow
        )
        let long = Duration.seconds(1 << 28)
        endpoint = try TestSession.endpoint(
            port: 1,
            scheme: .http,
            timeouts: TaskTimeouts(connect: long, firstByte: long, stall: long)
        )
    }

    /// Ends what is left. To be called before the end of the test.
    func close() {
        isCalm = true
        session.invalidateSession(cancelingTasks: true)
        drain()
    }

    func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

    func chance(_ percent: Int) -> Bool { below(100) < percent }

    func count(_ what: String) { counts[what, default: 0] += 1 }

    /// The number of tasks that are under way.
    var taskCount: Int { session.taskCount }

    var waitingCount: Int { cache.waitingCount }

    // MARK: Steps

    func step() throws {
        switch below(100) {
        case ..<18: if receivers.count < 12 { try request() }
        case ..<60: try respond()
        case ..<80: change(.resume)
        case ..<86: change(.hold)
        case ..<92: change(.release)
        case ..<95: change(.leave)
        case ..<99: loop.advance(by: .milliseconds([0, 100, 700, 2000][below(4)]))
        default: if let key = CacheKey(url: "http://api.example.com/\(below(3))") { cache.store.invalidate(key) }
        }
        drain()
    }

    /// Lets everything come to its end.
    func settle() throws {
        isCalm = true
        for _ in 0..<20_000 where !receivers.isEmpty || session.taskCount > 0 {
            for receiver in receivers { receiver.change(.release) }
            for receiver in receivers { receiver.change(.resume) }
            try respond()
            if origin.replies.isEmpty { loop.advance(by: .milliseconds(700)) }
            drain()
        }
    }

    func drain() {
        while loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0)) {}
        receivers.removeAll { $0.isOver }
        origin.replies.removeAll { $0.isOver }
    }

    private func request() throws {
        let control = chance(30) ? "only-if-cached" : "no-cache"
        try request(of: below(3), chance(10) ? control : nil)
    }

    @discardableResult
    func request(of index: Int, _ control: String? = nil) throws -> StageReceiver {
        var fields = HeaderFields()
        if let control { try fields.append(name: "Cache-Control", value: control) }
        let request = try SessionRequest(endpoint: endpoint, method: .get, target: "/\(index)", fields: fields)
        let transaction = CacheTransaction(
            cache,
            url: request.url,
            CacheRequest(method: .get, fields: fields),
            digest: PolicyDigest([1]),
            loop: loop
        )
        let receiver = StageReceiver(of: index, in: self)
        receivers.append(receiver)
        let stage = CacheStage(transaction, request, delegate: receiver)
        receiver.stage = stage
        stage.begin()
        return receiver
    }

    /// A stored response was served stale.
    func refresh(_ stage: CacheStage, of index: Int) {
        count("refreshes")
        CacheStage.refresh(
            stage.transaction,
            like: stage.request,
            delegate: StageReceiver(of: index, in: self, isBackground: true)
        )
    }

    private func change(_ change: StageReceiver.Change) {
        guard !receivers.isEmpty else { return }
        receivers[below(receivers.count)].change(change)
    }

    // MARK: The origin

    /// The requests that have no head yet.
    var asked: [StageReply] { origin.replies.filter { $0.rest == nil } }

    private func respond() throws {
        guard !origin.replies.isEmpty else { return }
        let reply = origin.replies[below(origin.replies.count)]
        guard let rest = reply.rest else { return try begin(reply) }
        if !isCalm, chance(3) { return fail(reply) }
        if rest.isEmpty { reply.exchange.finish() } else { reply.send(1 + below([10, 3000, 200_000][below(3)])) }
    }

    private func fail(_ reply: StageReply) {
        count("failures")
        failures[reply.index] += 1
        reply.rest = []
        reply.exchange.fail(SessionError(chance(50) ? .connectFailed : .responseTruncated, "By chance."))
    }

    private func begin(_ reply: StageReply) throws {
        if !isCalm, chance(5) { return fail(reply) }
        if chance(20) { versions[reply.index] += 1 }
        let version = versions[reply.index]
        let asked = reply.exchange.request.fields.values(for: "If-None-Match").joined(separator: ", ")
        let isKnown = asked.contains("\"\(reply.index)-\(version)\"")
        let size = [0, 1, 500, 5_000, 5_000, 20_000, 400_000][(version &* 5 &+ reply.index) % 7]
        let status = isKnown ? 304 : chance(4) ? 503 : 200
        if isKnown { count("304") }
        try begin(reply, status, Self.controls[below(Self.controls.count)], size, isLengthKnown: chance(60))
    }

    /// Sends a head, with the present version of the resource as its entity tag.
    func begin(_ reply: StageReply, _ status: Int, _ control: String, _ size: Int, isLengthKnown: Bool) throws {
        let tag = "\"\(reply.index)-\(versions[reply.index])\""
        var fields = HeaderFields()
        try fields.append(name: "ETag", value: tag)
        try fields.append(name: "Cache-Control", value: control)
        reply.rest = []
        if status != 304 {
            let body = bodies[tag] ?? Self.body(size, seed: versions[reply.index] &* 31 &+ reply.index)
            bodies[tag] = body
            reply.rest = body[...]
        }
        reply.exchange.respond(status: status, fields: fields, bodyLength: isLengthKnown ? size : nil)
    }

    private static func body(_ size: Int, seed: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: size) { bytes, count in
            for index in 0..<size { bytes[index] = UInt8(truncatingIfNeeded: index &* 7 &+ (index >> 8) &+ seed) }
            count = size
        }
    }

    /// The resource changes.
    func change(_ index: Int) { versions[index] += 1 }
}

/// The requests that have come to the origin. `@unchecked Sendable`: for the test's thread alone.
private final class StageOrigin: @unchecked Sendable {
    var replies: [StageReply] = []

    func begin(_ exchange: StubExchange) {
        let reply = StageReply(exchange)
        exchange.didEnd = { [weak reply] in reply?.isOver = true }
        replies.append(reply)
        exchange.accept()
    }
}

/// One request at the origin.
final class StageReply {
    let exchange: StubExchange
    /// The number of the resource.
    let index: Int
    /// What was not sent of the body; nil before the head.
    var rest: ArraySlice<UInt8>?
    /// The task needs it no longer.
    fileprivate(set) var isOver = false

    fileprivate init(_ exchange: StubExchange) {
        self.exchange = exchange
        index = Int(exchange.request.target.last ?? 0) - Int(UInt8(ascii: "0"))
    }

    /// Sends so many bytes of the body, or those that are left.
    func send(_ count: Int) {
        let piece = Array((rest ?? []).prefix(count))
        rest = rest?.dropFirst(piece.count)
        exchange.send(piece.span)
    }

    func sendRest() {
        send(.max)
        exchange.finish()
    }
}

/// One request's owner, and the receiver of its response; without a response for a refresh in the background.
final class StageReceiver: CacheStageDelegate {
    /// What a receiver does by itself.
    enum Change { case resume, hold, release, leave }

    private unowned let course: StageCourse
    /// The number of the resource.
    private let index: Int
    private let isBackground: Bool
    /// Failures of the resource before the request.
    private let earlierFailures: Int
    var stage: CacheStage?
    private(set) var isOver = false
    /// All of the response has come.
    private(set) var isWhole = false
    private var expected: [UInt8]?
    private var received = 0
    private var isPaused = false
    private var isHeld = false
    /// It has refused the response at its head.
    private var isUnwanted = false

    init(of index: Int, in course: StageCourse, isBackground: Bool = false) {
        self.course = course
        self.index = index
        self.isBackground = isBackground
        earlierFailures = course.failures[index]
    }

    func change(_ change: Change) {
        guard let stage, !isOver else { return }
        switch change {
        case .resume:
            guard isPaused else { return }
            isPaused = false
            if !isHeld { stage.resumeReceiving() }
        case .hold:
            guard !isHeld else { return }
            isHeld = true
            stage.hold(true)
        case .release:
            guard isHeld else { return }
            isHeld = false
            stage.hold(false)
            if !isPaused { stage.resumeReceiving() }
        case .leave:
            course.count("left")
            end()
            if stage.leave() { course.count("received without a receiver") }
        }
    }

    private func end() {
        #expect(!isOver, "it has ended before")
        isOver = true
        stage = nil
    }

    private func expectResponse() {
        #expect(!isOver && !isBackground, "a response for nobody")
    }

    // MARK: From the stage

    func stage(_ stage: CacheStage, ask request: SessionRequest) -> LoopTask? {
        #expect(!isOver, "a request for nobody")
        if !course.isCalm, course.chance(2) {
            end()
            return nil
        }
        let task = course.session.dataTask(with: request, delegate: stage)
        task.resume()
        if isHeld { task.suspend() }
        return task
    }

    func stage(_ stage: CacheStage, wasHandedBack task: LoopTask) { stage.leave() }

    func stageNeedsRefresh(_ stage: CacheStage) { course.refresh(stage, of: index) }

    func stage(_ stage: CacheStage, didReceive head: borrowing ResponseHead) -> ResponseDisposition {
        expectResponse()
        #expect(expected == nil, "a second head")
        expected = head.fields["ETag"].flatMap { course.bodies[$0] }
        #expect(expected != nil, "a response that the origin has not sent")
        course.count(stage.storedAge == nil ? "relayed" : "from the store")
        guard !course.isCalm, course.chance(3) else { return .allow }
        isUnwanted = true
        return .cancel
    }

    func stage(_ stage: CacheStage, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        expectResponse()
        #expect(!isPaused && !isHeld && !isUnwanted, "bytes for which there is no room")
        guard let expected, !data.isEmpty, received + data.count <= expected.count else {
            Issue.record("nothing, or more than the body")
            return .proceed
        }
        let isRight = data.withUnsafeBytes { bytes in
            expected.withUnsafeBytes { memcmp(bytes.baseAddress!, $0.baseAddress! + received, bytes.count) == 0 }
        }
        #expect(isRight, "other bytes than the origin's")
        received += data.count
        guard !course.isCalm, course.chance(30) else { return .proceed }
        isPaused = true
        return .pause
    }

    func stagePieceSize(_ stage: CacheStage) -> Int { [100, 4000, .max][course.below(3)] }

    func stageMustNotAsk(_ stage: CacheStage) {
        expectResponse()
        end()
    }

    func stageDidComplete(_ stage: CacheStage, error: SessionError?) {
        if isBackground { return }
        if !isUnwanted {
            if let error {
                course.count("failed")
                #expect(course.failures[index] > earlierFailures, "\(error)")
            } else {
                course.count("whole")
                isWhole = true
                #expect(expected != nil && received == expected?.count, "\(received) bytes are not all")
            }
        }
        end()
    }
}
