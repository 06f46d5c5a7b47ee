// SPDX-License-Identifier: Apache-2.0
import IOCore

@testable import SharedCaching

/// A Redis in memory, which knows the scripts by their texts. Its time is that of the test's loop.
final class LevelRedis {
    var strings: [[UInt8]: (value: [UInt8], expires: UInt64)] = [:]
    var hashes: [[UInt8]: (fields: [[UInt8]: [UInt8]], expires: UInt64)] = [:]
    private let loop: EventLoop

    init(_ loop: EventLoop) { self.loop = loop }

    private func string(_ key: [UInt8]) -> [UInt8]? {
        guard let entry = strings[key], entry.expires > loop.now else { return nil }
        return entry.value
    }

    private func fields(_ key: [UInt8]) -> [[UInt8]: [UInt8]] {
        guard let entry = hashes[key], entry.expires > loop.now else { return [:] }
        return entry.fields
    }

    private func time(_ milliseconds: [UInt8]) -> UInt64 {
        loop.now + UInt64(String(decoding: milliseconds, as: UTF8.self))! * 1_000_000
    }

    private func number(_ text: [UInt8]) -> Int { Int(String(decoding: text, as: UTF8.self)) ?? 0 }

    private static func reply(_ value: [UInt8]?) -> RedisReply { value.map { .bytes($0) } ?? .null }

    func execute(_ command: RedisCommand) -> RedisReply {
        let words = command.words
        switch String(decoding: words[0], as: UTF8.self) {
        case "GET": return Self.reply(string(words[1]))
        case "MGET": return .array(words.dropFirst().map { Self.reply(string($0)) })
        case "HGET": return Self.reply(fields(words[1])[words[2]])
        case "HMGET":
            let fields = fields(words[1])
            return .array(words.dropFirst(2).map { Self.reply(fields[$0]) })
        case "EVAL": return run(words[1], Array(words.dropFirst(3)))
        default: return .error(Array("ERR unknown command".utf8))
        }
    }

    static func isScript(_ command: RedisCommand, _ script: RedisScript) -> Bool {
        command.words.count > 1 && command.words[1] == script.text.withUTF8Buffer { Array($0) }
    }

    private func run(_ text: [UInt8], _ words: [[UInt8]]) -> RedisReply {
        func isText(_ script: RedisScript) -> Bool { text == script.text.withUTF8Buffer { Array($0) } }
        if isText(.store) { return store(words) }
        if isText(.lease) {
            var fields = fields(words[1])
            let generation = fields[SharedNames.generation] ?? words[4]
            fields[SharedNames.generation] = generation
            let expires = hashes[words[1]].map { $0.expires > loop.now ? $0.expires : 0 } ?? 0
            hashes[words[1]] = (fields, max(expires, time(words[5])))
            let owner = string(words[0]) ?? words[2]
            if string(words[0]) == nil { strings[words[0]] = (owner, time(words[3])) }
            return .array([.bytes(owner), .bytes(generation)])
        }
        if isText(.release) {
            guard string(words[0]) == words[1] else { return .integer(0) }
            strings[words[0]] = words[2].isEmpty ? nil : (words[2], time(words[3]))
            return .integer(1)
        }
        if isText(.invalidate) {
            hashes[words[0]] = ([SharedNames.generation: words[1]], time(words[2]))
            return .integer(1)
        }
        if isText(.append) {
            let text = string(words[0]) ?? [UInt8(ascii: "0")]
            let isCount = text.allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
            let count = isCount ? number(text) : 0
            guard count >= number(words[3]), count <= number(words[4]) else { return .integer(count) }
            strings[words[1]] = (words[6], .max)
            if let former = string(words[2]) { strings[words[2]] = (former, time(words[7])) }
            strings[words[0]] = (words[5], .max)
            return .integer(-1)
        }
        return .error(Array("ERR unknown script".utf8))
    }

    private func store(_ words: [[UInt8]]) -> RedisReply {
        let (key, generation) = (words[0], words[1])
        var fields = fields(key)
        guard fields[SharedNames.generation] == generation else { return .integer(0) }
        let expires = max(hashes[key].map { $0.expires > loop.now ? $0.expires : 0 } ?? 0, time(words[2]))
        if fields.count > 512 { fields = [SharedNames.generation: generation] }
        fields[words[3]] = words[4]
        hashes[key] = (fields, expires)
        return .integer(1)
    }
}

/// A machine's way to that Redis, with faults on command.
final class LevelNodes: RedisNodes {
    enum Fault {
        case none
        /// Nothing arrives, nor comes back.
        case silence
        /// The command arrives, the reply does not.
        case lostReply
        case reply(RedisReply)
        case failure(RedisFailure)
    }

    let server: LevelRedis
    private let loop: EventLoop
    var fault: (RedisCommand) -> Fault = { _ in .none }
    /// The time between the execution and its reply.
    var delay: (RedisCommand) -> TimeSpan = { _ in .milliseconds(0) }
    /// The commands that were sent; scripts by their first words.
    private(set) var sent: [RedisCommand] = []
    private(set) var isClosed = false
    /// The replies that take time.
    private var late: [(timer: LoopTimer, completion: (RedisResult) -> Void)] = []

    init(_ server: LevelRedis, _ loop: EventLoop) {
        self.server = server
        self.loop = loop
    }

    func count(_ name: String) -> Int { sent.count { $0.words[0] == Array(name.utf8) } }

    func count(_ script: RedisScript) -> Int { sent.count { LevelRedis.isScript($0, script) } }

    override func send(
        _ command: RedisCommand,
        key: [UInt8],
        by deadline: UInt64,
        _ completion: @escaping (RedisResult) -> Void
    ) {
        sent.append(command)
        guard !isClosed else { return reply(.failure(.closed), at: loop.now, completion) }
        switch fault(command) {
        case .silence: reply(.failure(.timeout), at: deadline, completion)
        case .lostReply:
            _ = server.execute(command)
            reply(.failure(.timeout), at: deadline, completion)
        case .reply(let value): reply(.success(value), at: loop.now, completion)
        case .failure(let failure): reply(.failure(failure), at: loop.now, completion)
        case .none:
            let (result, time) = (server.execute(command), loop.now + delay(command).nanoseconds)
            reply(time > deadline ? .failure(.timeout) : .success(result), at: min(time, deadline), completion)
        }
    }

    private func reply(_ result: RedisResult, at time: UInt64, _ completion: @escaping (RedisResult) -> Void) {
        guard time > loop.now else { return loop.atEndOfTurn { completion(result) } }
        let timer = LoopTimer { completion(result) }
        late.append((timer, completion))
        loop.arm(timer, at: time)
    }

    /// Also what was sent is not waited for any more.
    override func close() {
        isClosed = true
        for reply in late where reply.timer.isArmed {
            loop.remove(reply.timer)
            reply.completion(.failure(.closed))
        }
        late = []
    }

    func change(_ state: RedisServerState) { whenStateChanges?(RedisAddress(host: "redis.test", port: 6379), state) }
}
