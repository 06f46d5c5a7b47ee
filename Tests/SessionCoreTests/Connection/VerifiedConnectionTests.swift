// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("A verified connection, used without a request", .onOwnThreads)
struct VerifiedConnectionTests {
    /// Takes the connection of an attempt, and is told when it is ready.
    private final class Taker: ConnectionAttemptOwner {
        let user = User()
        private(set) var connection: VerifiedConnection?
        private(set) var failure: SessionError?

        override func attemptDidConnect(_ attempt: ConnectionAttempt, _ connection: VerifiedConnection) {
            self.connection = connection
            connection.user = user
        }

        override func attemptDidFail(_ attempt: ConnectionAttempt, _ failure: ConnectionFailure) {
            self.failure = failure.error
        }
    }

    private final class User: ConnectionUser {
        var count = 0

        override func connectionIsReady(isOver: Bool) { count += 1 }
    }

    private static func read(_ connection: VerifiedConnection) -> [UInt8]? {
        var buffer = ByteBuffer()
        guard case .bytes = connection.read(into: &buffer, upTo: 64 << 10) else { return nil }
        return [UInt8](copying: buffer.bytes)
    }

    @Test("bytes that a write has read, amid a message of TLS, are not forgotten")
    func writeReads() throws {
        let (isMade, isHalf, isTaken, isWhole) = (Monitor(false), Gate(), Gate(), Gate())
        defer { isTaken.open() }
        let late = String(repeating: "l", count: 300)
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            try isMade.wait(for: "the connection") { $0 ? true : nil }
            // A message of several records: a write in the midst of it reads the rest first.
            try connection.sendTicket(with: 1500, recordSize: 512)
            try connection.write(late)
            connection.readToEnd()
        }
        // Head, type and tag of a record.
        let around = 5 + 1 + 16
        let relay = try RecordRelay(to: origin.port) { stream in
            while let record = stream.nextRecord() {
                let isFirst = isMade.read { $0 } && record.count == 512 + around
                try stream.deliver(record)
                if isFirst { break }
            }
            try stream.waitUntilArrived()
            isHalf.open()
            try isTaken.pass()
            while let record = stream.nextRecord() {
                try stream.deliver(record)
                if record.count == late.utf8.count + around { break }
            }
            try stream.waitUntilArrived()
            isWhole.open()
            try stream.passRest()
        }
        let session = try TestSession()
        let taker = Taker()
        let endpoint = try TestSession.endpoint(port: relay.port)
        let attempt = session.manager.connections.makeAttempt(to: endpoint, offering: [.http1], owner: taker)
        attempt.start()
        try session.run(until: "the connection") { taker.connection != nil || taker.failure != nil }
        let connection = try #require(taker.connection)
        defer { connection.close(isWhole: false) }
        isMade.with { $0 = true }
        try isHalf.pass()
        #expect(Self.read(connection) == nil && !connection.hasBufferedBytes)
        isTaken.open()
        try isWhole.pass()
        guard case .bytes(1) = connection.write([UInt8(ascii: "x")].span) else {
            Issue.record("nothing is written")
            return
        }
        // The socket has nothing more, and reports nothing.
        connection.want(reading: true, writing: false)
        session.loop.turn(waitingAtMost: .milliseconds(0))
        #expect(taker.user.count == 0)
        #expect(connection.hasBufferedBytes)
        #expect(Self.read(connection) == Array(late.utf8))
        #expect(!connection.hasBufferedBytes)
    }

    /// The descriptor of this process that is connected to a port.
    private static func descriptor(connectedTo port: UInt16) -> Int32? {
        (3..<4096).first { peerAddress($0) == .loopback(port: port) }
    }

    @Test(
        "a closed connection leaves the loop, though somebody has a copy of its descriptor",
        arguments: [true, false]
    )
    func copied(isWhole: Bool) throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let session = try TestSession()
        let taker = Taker()
        let endpoint = try TestSession.endpoint(port: port, scheme: .http)
        let attempt = session.manager.connections.makeAttempt(to: endpoint, offering: [.http1], owner: taker)
        attempt.start()
        try session.run(until: "the connection") { taker.connection != nil || taker.failure != nil }
        let connection = try #require(taker.connection)
        let accepted = accept(listener, nil, nil)
        defer { close(accepted) }
        connection.want(reading: true, writing: false)
        // A child has one, from fork(2) to execve(2).
        let own = try #require(Self.descriptor(connectedTo: port))
        let copy = fcntl(own, F_DUPFD_CLOEXEC, 3)
        defer { close(copy) }
        connection.close(isWhole: isWhole)
        #expect(send(accepted, "a", 1, Int32(MSG_NOSIGNAL)) == 1)
        var waiting = pollfd(fd: copy, events: Int16(POLLIN), revents: 0)
        #expect(poll(&waiting, 1, Int32(Patience.seconds * 1000)) == 1)
        // epoll would report the copy in each turn.
        #expect((0..<20).contains { _ in !session.loop.turn(waitingAtMost: .milliseconds(0)) })
        #expect(taker.user.count == 0)
    }
}
