// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import Testing

@testable import SharedCaching

/// Machines with one Redis, on one loop whose clock the test moves.
final class LevelStage {
    static let time = 1_700_000_000
    static let digest = PolicyDigest([1, 2, 3])
    static let url = "https://a.example/x"

    let loop: EventLoop
    let redis: LevelRedis
    var settings: SharedCacheSettings

    init() throws {
        loop = try EventLoop(clock: .byHand)
        loop.setWallClock(Int64(Self.time) * 1_000_000)
        redis = LevelRedis(loop)
        let address = RedisAddress(host: "redis.test", port: 6379)
        settings = SharedCacheSettings(
            plan: RedisPlan(kind: .server, addresses: [address], login: nil),
            prefix: Array("t:".utf8),
            secret: Array(repeating: 7, count: 32)
        )
    }

    /// Lets everything happen that needs no time.
    func settle() {
        for _ in 0..<40 { loop.turn(waitingAtMost: .milliseconds(0)) }
    }

    func advance(by span: TimeSpan) {
        loop.advance(by: span)
        settle()
    }

    func machine() -> LevelMachine {
        let machine = LevelMachine(self)
        settle()
        return machine
    }

    static func fields(_ pairs: [(String, String)]) -> HeaderFields {
        var fields = HeaderFields()
        for (name, value) in pairs { fields.append(name: Array(name.utf8).span, value: Array(value.utf8).span) }
        return fields
    }

    static func question(
        _ url: String = url,
        _ request: [(String, String)] = [],
        digest: PolicyDigest = digest,
        partition: [UInt8] = [],
        waits: Bool = false
    ) throws -> SharedQuestion {
        SharedQuestion(
            key: try #require(CacheKey(url: url, partition: partition)),
            request: CacheRequest(method: .get, fields: fields(request)),
            digest: digest,
            waits: waits
        )
    }

    /// A response that was received now.
    func entry(
        _ question: SharedQuestion,
        _ body: [UInt8] = Array("body".utf8),
        _ response: [(String, String)] = [("Cache-Control", "max-age=60")],
        tags: [[UInt8]] = []
    ) -> CachedEntry {
        let now = Int(loop.wallClock / 1_000_000)
        let head = StoredResponse(
            status: 200,
            response: Self.fields(response),
            to: question.request,
            requestTime: now,
            responseTime: now,
            digest: question.digest,
            CacheOptions()
        )
        return CachedEntry(key: question.key, response: head, body: .memory(StoredBytes(body)), tags: tags)
    }
}

/// A process with its store.
final class LevelMachine {
    let stage: LevelStage
    let store = CacheStore(memory: MemoryStore(capacity: 1 << 20), CacheOptions())
    let lines = LevelLines()
    let cache: SharedCache
    let nodes: LevelNodes
    let level: RedisLevel

    fileprivate init(_ stage: LevelStage) {
        self.stage = stage
        let lines = lines
        cache = SharedCache(stage.settings, store) { code, _, _ in lines.append(code) }
        nodes = LevelNodes(stage.redis, stage.loop)
        level = cache.makeLevel(loop: stage.loop, nodes)
    }

    deinit {
        level.close()
        stage.settle()
    }

    /// A look-up that needs no time.
    func lookUp(_ question: SharedQuestion) throws -> SharedFinding {
        let finding = begin(question)
        stage.settle()
        return try #require(finding.value)
    }

    func begin(_ question: SharedQuestion) -> LevelFinding {
        let finding = LevelFinding()
        finding.lookUp = level.lookUp(question) {
            #expect(finding.value == nil)
            finding.value = $0
        }
        #expect(finding.value == nil)
        return finding
    }

    /// The body that a look-up finds.
    func body(_ question: SharedQuestion) throws -> String? { LevelFinding.body(try lookUp(question)) }

    /// Asks the origin after a miss, and stores its response.
    func fill(_ question: SharedQuestion, _ entry: CachedEntry? = nil) throws {
        let ticket = try #require(LevelFinding.ticket(try lookUp(question)))
        level.store(entry ?? stage.entry(question), with: ticket)
        stage.settle()
    }

    @discardableResult
    func publish(_ purge: Purge, expires: Bool = false) -> LevelConfirmation {
        let confirmation = LevelConfirmation()
        cache.publish(purge, expires: expires) { confirmation.set($0) }
        stage.settle()
        return confirmation
    }

    func invalidate(_ url: String = LevelStage.url) throws -> LevelConfirmation {
        let confirmation = LevelConfirmation()
        level.invalidate([try #require(CacheKey(url: url))]) { confirmation.set(true) }
        stage.settle()
        return confirmation
    }
}

final class LevelFinding {
    var value: SharedFinding?
    var lookUp: (any SharedLookUp)?

    var body: String? { value.flatMap { Self.body($0) } }

    /// Whether it is over without an entry, with a ticket or without one.
    var isMiss: Bool {
        guard case .nothing = value else { return false }
        return true
    }

    var ticket: (any SharedTicket)? { value.flatMap { Self.ticket($0) } }

    /// Whether it has the lease.
    var hasLease: Bool { (ticket as? RedisTicket)?.token != nil }

    static func body(_ finding: SharedFinding) -> String? {
        guard case .found(let entry, _) = finding, case .memory(let bytes) = entry.body else { return nil }
        return String(decoding: bytes.bytes, as: UTF8.self)
    }

    static func ticket(_ finding: SharedFinding) -> (any SharedTicket)? {
        switch finding {
        case .found(_, let ticket): ticket
        case .nothing(let ticket): ticket
        }
    }
}

/// The result of a publication; for any thread.
///
/// `@unchecked Sendable`: `lock` guards `results`.
final class LevelConfirmation: @unchecked Sendable {
    private let lock = PosixLock()
    private var results: [Bool] = []

    func set(_ result: Bool) { lock.withLock { results.append(result) } }

    /// All calls.
    var values: [Bool] { lock.withLock { results } }
}

/// Lines of the log.
///
/// `@unchecked Sendable`: `lock` guards `codes`.
final class LevelLines: @unchecked Sendable {
    private let lock = PosixLock()
    private var codes: [String] = []

    func append(_ code: String) { lock.withLock { codes.append(code) } }

    var all: [String] { lock.withLock { codes } }
}
