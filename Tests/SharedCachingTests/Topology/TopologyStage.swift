// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport

@testable import SharedCaching

/// Servers as a loop sees them. The test turns the loop.
final class TopologyStage {
    let loop: EventLoop
    let nodes: RedisNodes
    private let session: LoopSession
    private let start: UInt64
    private(set) var states: [(address: RedisAddress, state: RedisServerState)] = []

    init(
        _ kind: RedisPlan.Kind,
        _ addresses: [RedisAddress],
        login: RedisLogin? = nil,
        dialling target: RedisAddress? = nil,
        clock: LoopClock = .system
    ) throws {
        loop = try EventLoop(clock: clock)
        start = loop.now
        session = try LoopSession(loop: loop)
        nodes = RedisNodes.make(
            RedisPlan(kind: kind, addresses: addresses, login: login),
            loop: loop,
            dial: Self.dial(session, target)
        )
        nodes.whenStateChanges = { [unowned self] in states.append(($0, $1)) }
    }

    deinit {
        nodes.whenStateChanges = nil
        nodes.close()
        session.invalidateSession(cancelingTasks: true)
        for _ in 0..<3 { loop.run(atMost: .milliseconds(0)) }
    }

    /// - Parameter target: where all connections go; nil for where they should.
    private static func dial(_ session: LoopSession, _ target: RedisAddress? = nil) -> RedisDial {
        { [unowned session] address, delegate in
            let address = target ?? address
            guard let host = try? Host(address.host), let port = UInt16(exactly: address.port) else { return nil }
            let endpoint = Endpoint(
                scheme: .http,
                host: host,
                port: port,
                policy: .unpinned,
                anchors: TestPKI.shared.anchors,
                generation: 1
            )
            return session.streamTask(with: endpoint, delegate: delegate)
        }
    }

    /// Whole seconds from the beginning: a slow machine may give something more time than a test has meant.
    var secondsPassed: Int { Int((loop.freshNow - start) / 1_000_000_000) }

    func redial() { nodes.redial(Self.dial(session)) }

    func run(until what: String, _ isSo: () throws -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: Patience.seconds)
        while try !loop.run(until: isSo, atMost: .milliseconds(20)) {
            if Date() > deadline { throw TimedOut(what) }
        }
    }

    /// Sends a command, and waits for its result.
    func ask(_ words: String..., key: String = "k", within time: TimeSpan = .seconds(20)) throws -> RedisResult {
        try ask(words, key: key, within: time)
    }

    func ask(_ words: [String], key: String, within time: TimeSpan = .seconds(20)) throws -> RedisResult {
        var results: [RedisResult] = []
        nodes.send(
            RedisCommand(words.map { Array($0.utf8) }),
            key: Array(key.utf8),
            by: loop.freshNow + time.nanoseconds
        ) { results.append($0) }
        guard results.isEmpty else { throw TimedOut("send, which called its completion") }
        try run(until: "a result of \(words)") { !results.isEmpty }
        return results[0]
    }

    /// Sends a command until its result is as wanted: for servers that change their roles, and pauses between dials.
    func ask(_ words: String..., key: String = "k", until isWanted: (RedisResult) -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: 2 * Patience.seconds)
        while true {
            let result = try ask(words, key: key, within: .seconds(1))
            if isWanted(result) { return }
            if Date() > deadline { throw TimedOut("a result of \(words), the last is \(result)") }
            loop.run(atMost: .milliseconds(20))
        }
    }

    /// The states that were told of a server.
    func states(of address: RedisAddress) -> [RedisServerState] {
        states.filter { $0.address == address }.map(\.state)
    }
}

extension RedisResult {
    static func bytes(_ text: String) -> RedisResult { .success(.bytes(Array(text.utf8))) }
    static var ok: RedisResult { .success(.status(Array("OK".utf8))) }
    static func error(_ text: String) -> RedisResult { .success(.error(Array(text.utf8))) }
}
