// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport

@testable import SharedCaching

/// A connection under test on a loop that the test turns itself, and what its completions have been told.
final class ConnectionBench {
    let loop: EventLoop
    private let session: LoopSession
    private(set) var connection: RedisConnection!
    private let record = Record()
    private var sent = 0

    /// In an object of its own, which completions can use while the bench is being freed.
    private final class Record {
        var results: [Int: RedisResult] = [:]
        var order: [Int] = []
        var endings: [RedisFailure] = []
        var dials = 0
        weak var stream: LoopStreamTask?
        var isCalling = false
        var hasBeenToldWithinCall = false

        func noteCall() { hasBeenToldWithinCall = hasBeenToldWithinCall || isCalling }
    }

    /// By the number of the command.
    var results: [Int: RedisResult] { record.results }
    /// The numbers of the commands in the order of the completions.
    var order: [Int] { record.order }
    var endings: [RedisFailure] { record.endings }
    var dials: Int { record.dials }
    var stream: LoopStreamTask? { record.stream }
    /// Whether a completion was called within a call of the connection.
    var hasBeenToldWithinCall: Bool { record.hasBeenToldWithinCall }

    /// - Parameters:
    ///   - scheme: with or without TLS.
    ///   - mayDial: false: the rules do not let it go there.
    init(
        port: UInt16,
        login: RedisLogin? = nil,
        scheme: Endpoint.Scheme = .http,
        policy: SecurityPolicy = .unpinned,
        clock: LoopClock = .system,
        mayDial: Bool = true
    ) throws {
        loop = try EventLoop(clock: clock)
        session = try LoopSession(loop: loop)
        let endpoint = Endpoint(
            scheme: scheme,
            host: try Host("redis.example.com"),
            port: 6379,
            resolve: (host: try Host("127.0.0.1"), port: port),
            policy: policy,
            anchors: TestPKI.shared.anchors,
            generation: 1
        )
        connection = RedisConnection(
            RedisAddress(host: "redis.example.com", port: Int(port)),
            login: login,
            loop: loop,
            dial: { [record, session] _, delegate in
                record.dials += 1
                guard mayDial else { return nil }
                let timeouts = TaskTimeouts(connect: .seconds(30), stall: .seconds(1_000_000))
                let made = session.streamTask(with: endpoint, timeouts: timeouts, delegate: delegate)
                record.stream = made
                return made
            },
            whenEnded: { [record] _, failure in
                record.noteCall()
                record.endings.append(failure)
            }
        )
    }

    deinit {
        connection?.close()
        session.invalidateSession(cancelingTasks: true)
        for _ in 0..<3 { loop.run(atMost: .milliseconds(0)) }
    }

    /// Calls the connection; whoever is told something meanwhile is noted.
    private func call(_ body: () -> Void) {
        let wasCalling = record.isCalling
        record.isCalling = true
        body()
        record.isCalling = wasCalling
    }

    /// - Parameter whenDone: is called after the result was noted.
    /// - Returns: the number of the command.
    @discardableResult
    func send(
        _ command: RedisCommand,
        after span: TimeSpan = .seconds(600),
        _ whenDone: @escaping (RedisResult) -> Void = { _ in }
    ) -> Int {
        let number = sent
        sent += 1
        call {
            connection.send(command, by: loop.freshNow + span.nanoseconds) { [record] result in
                record.noteCall()
                precondition(record.results[number] == nil, "a completion was called twice")
                record.results[number] = result
                record.order.append(number)
                whenDone(result)
            }
        }
        return number
    }

    func close() { call { connection.close() } }

    /// Ends the stream as the session's end does.
    func cancelStreams() { session.invalidateSession(cancelingTasks: true) }

    /// Lets go of the connection.
    func drop() { connection = nil }

    func run(until what: String, _ isSo: () throws -> Bool) throws {
        let deadline = Date(timeIntervalSinceNow: Patience.seconds)
        while try !loop.run(until: isSo, atMost: .milliseconds(20)) {
            if Date() > deadline { throw TimedOut(what) }
        }
    }

    func result(of number: Int) throws -> RedisResult {
        try run(until: "the result of command \(number)") { results[number] != nil }
        return results[number]!
    }

    func ending() throws -> RedisFailure {
        try run(until: "the end of the connection") { !endings.isEmpty }
        return endings[0]
    }

    /// Moves a clock by hand, and lets what is due be done.
    func advance(_ span: TimeSpan) {
        loop.advance(by: span)
        settle()
    }

    func settle() {
        for _ in 0..<5 { loop.run(atMost: .milliseconds(1)) }
    }
}

/// Reads commands in the script of a server.
struct CommandScript {
    struct Unexpected: Error, CustomStringConvertible { let description: String }

    private let connection: OriginConnection
    /// Bytes that have come behind the last command that was read.
    private(set) var rest: [UInt8] = []

    init(_ connection: OriginConnection) { self.connection = connection }

    /// Reads these commands, and no others.
    mutating func expect(_ commands: RedisCommand...) throws {
        for command in commands {
            let bytes = command.encoded()
            while rest.count < bytes.count {
                let more = connection.read()
                guard !more.isEmpty else { throw OriginConnection.Gone() }
                rest += more
            }
            guard rest.starts(with: bytes) else {
                throw Unexpected(
                    description: "another command than \(command.words.map { String(decoding: $0, as: UTF8.self) })"
                )
            }
            rest.removeFirst(bytes.count)
        }
    }
}
