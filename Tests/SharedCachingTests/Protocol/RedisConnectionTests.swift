// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing

@testable import SharedCaching

@Suite("A connection to a server that does all that is wrong", .onOwnThreads)
struct RedisConnectionTests {
    private static let ping = RedisCommand("PING")
    private static func echo(_ text: String) -> RedisCommand { RedisCommand("ECHO", Array(text.utf8)) }
    private static let ok = RedisReply.status(Array("OK".utf8))
    private static func success(_ text: String) -> RedisResult { .success(.bytes(Array(text.utf8))) }

    /// A server that reads PING, and then does what the test wants.
    private static func server(
        _ script: @escaping @Sendable (OriginConnection) throws -> Void
    ) throws -> ScriptedOrigin {
        try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            try commands.expect(ping)
            try script(connection)
        }
    }

    /// What becomes of a connection to a server that responds to PING with these bytes.
    private static func ending(_ bytes: String, thenEnds: Bool = false) throws -> (RedisResult?, RedisFailure) {
        let server = try Self.server { connection in
            try connection.write(bytes)
            if !thenEnds { connection.readToEnd() }
        }
        let bench = try ConnectionBench(port: server.port)
        let number = bench.send(ping)
        let ending = try bench.ending()
        #expect(!bench.connection.isOpen && bench.endings.count == 1 && !bench.hasBeenToldWithinCall)
        try server.waitForClosed()
        return (bench.results[number], ending)
    }

    // MARK: Commands and replies

    @Test("the first command dials, and replies come in order")
    func order() throws {
        let server = try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            try commands.expect(Self.echo("a"), Self.echo("b"), Self.echo("c"))
            try connection.write("$1\r\na\r\n-ERR b\r\n$-1\r\n")
            try commands.expect(Self.ping)
            try connection.write("+OK\r\n")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port)
        #expect(bench.connection.isOpen)
        bench.settle()
        #expect(bench.dials == 0 && server.connections.isEmpty)
        let numbers = ["a", "b", "c"].map { bench.send(Self.echo($0)) }
        #expect(try bench.result(of: numbers[2]) == .success(.null))
        #expect(bench.results[numbers[0]] == Self.success("a"))
        #expect(bench.results[numbers[1]] == .success(.error(Array("ERR b".utf8))))
        #expect(bench.order == numbers)
        #expect(try bench.result(of: bench.send(Self.ping)) == .success(Self.ok))
        bench.close()
        #expect(!bench.connection.isOpen)
        #expect(try bench.ending() == .closed)
        #expect(bench.dials == 1 && !bench.hasBeenToldWithinCall)
        #expect(try server.waitForClosed().count == 1)
    }

    @Test("replies in pieces of one byte are whole")
    func singleBytes() throws {
        let server = try Self.server { connection in
            for byte in Array("*3\r\n$5\r\nhello\r\n:-7\r\n*1\r\n+x\r\n".utf8) { try connection.write([byte]) }
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port)
        let array: [RedisReply] = [.bytes(Array("hello".utf8)), .integer(-7), .array([.status([120])])]
        #expect(try bench.result(of: bench.send(Self.ping)) == .success(.array(array)))
        #expect(bench.connection.isOpen)
    }

    @Test("a thousand commands go together, and a value of a megabyte comes")
    func manyAndLarge() throws {
        let largest = [UInt8](repeating: 5, count: 1 << 20)
        let server = try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            for number in 0..<1_000 { try commands.expect(Self.echo("\(number)")) }
            try connection.write((0..<1_000).map { ":\($0)\r\n" }.joined())
            try commands.expect(RedisCommand("ECHO", largest))
            try connection.write(Array("$1048576\r\n".utf8) + largest + [13, 10])
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port)
        for number in 0..<1_000 { bench.send(Self.echo("\(number)")) }
        #expect(try bench.result(of: 999) == .success(.integer(999)))
        #expect(bench.order == Array(0..<1_000))
        #expect((0..<1_000).allSatisfy { bench.results[$0] == .success(.integer($0)) })
        #expect(try bench.result(of: bench.send(RedisCommand("ECHO", largest))) == .success(.bytes(largest)))
    }

    @Test("a completion may send, and may close")
    func withinCompletions() throws {
        let server = try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            try commands.expect(Self.echo("a"))
            try connection.write(":1\r\n")
            try commands.expect(Self.echo("b"), Self.echo("c"))
            try connection.write(":2\r\n:3\r\n")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port)
        bench.send(Self.echo("a")) { [unowned bench] _ in
            bench.send(Self.echo("b")) { _ in
                bench.close()
                // The reply to this one is there, and not taken any more.
                bench.send(Self.ping)
            }
            bench.send(Self.echo("c"))
        }
        #expect(try bench.ending() == .closed)
        try bench.run(until: "all results") { bench.results.count == 4 }
        #expect(bench.results[0] == .success(.integer(1)))
        #expect(bench.results[1] == .success(.integer(2)))
        #expect(bench.results[2] == .failure(.closed))
        #expect(bench.results[3] == .failure(.closed))
        #expect(bench.endings == [.closed] && !bench.hasBeenToldWithinCall)
    }

    // MARK: The login

    @Test("the login goes first, alone, and commands follow its OK", arguments: [nil, "user"])
    func login(user: String?) throws {
        let gate = Gate()
        let words = ["AUTH"] + (user.map { [$0] } ?? []) + ["pass word\r\n"]
        let auth = RedisCommand(words.map { Array($0.utf8) })
        let server = try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            try commands.expect(auth)
            try gate.pass()
            guard commands.rest.isEmpty else { throw OriginConnection.Gone() }
            try connection.write("+OK\r\n")
            try commands.expect(Self.echo("a"), Self.echo("b"))
            try connection.write(":1\r\n:2\r\n")
            connection.readToEnd()
        }
        let login = RedisLogin(user: user.map { Array($0.utf8) }, password: Array("pass word\r\n".utf8))
        let bench = try ConnectionBench(port: server.port, login: login)
        let numbers = ["a", "b"].map { bench.send(Self.echo($0)) }
        try bench.run(until: "the login to go") { bench.stream.map { $0.bytesSent > 0 } ?? false }
        bench.settle()
        #expect(bench.stream?.bytesSent == Int64(auth.encoded().count))
        gate.open()
        #expect(try bench.result(of: numbers[1]) == .success(.integer(2)))
        #expect(bench.results[numbers[0]] == .success(.integer(1)))
        #expect(bench.connection.isOpen)
    }

    @Test(
        "a refused login ends the connection with the first word alone",
        arguments: [
            ("-WRONGPASS hunter2 is wrong\r\n", RedisFailure.refused("WRONGPASS")),
            ("-NOPERM hunter2\r\n", .refused("NOPERM")), ("-NOAUTH\r\n", .refused("NOAUTH")),
            ("-ERR AUTH hunter2 called without any password\r\n", .refused("ERR")), ("-hunter2\r\n", .refused("ERR")),
            ("+FINE\r\n", .malformed("a reply to AUTH that is not OK")),
            (":1\r\n", .malformed("a reply to AUTH that is not OK")),
            ("$2\r\nOK\r\n", .malformed("a reply to AUTH that is not OK")),
            ("+OK\r\n+OK\r\n", .malformed("a reply that nobody asked for")),
            ("hunter2\r\n", .malformed("bytes that are no reply of RESP2")),
        ]
    )
    func refusedLogin(reply: String, failure: RedisFailure) throws {
        let server = try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            try commands.expect(RedisCommand("AUTH", Array("hunter2".utf8)))
            try connection.write(reply)
            connection.readToEnd()
        }
        let login = RedisLogin(user: nil, password: Array("hunter2".utf8))
        let bench = try ConnectionBench(port: server.port, login: login)
        let numbers = [bench.send(Self.ping), bench.send(Self.ping)]
        #expect(try bench.ending() == failure)
        #expect(numbers.map { bench.results[$0] } == [.failure(failure), .failure(failure)])
        // Nothing but the login has gone.
        let auth = RedisCommand("AUTH", Array("hunter2".utf8)).encoded().count
        #expect(try server.waitForClosed().map(\.applicationBytes) == [auth])
    }

    @Test("without a reply to the login the connection ends after two seconds")
    func silentLogin() throws {
        let server = try ScriptedOrigin(nil) { connection in
            try connection.write("+O")
            connection.readToEnd()
        }
        let login = RedisLogin(user: nil, password: Array("secret".utf8))
        let bench = try ConnectionBench(port: server.port, login: login, clock: .byHand)
        let number = bench.send(Self.ping, after: .milliseconds(5))
        try bench.run(until: "the login to go") { bench.stream.map { $0.bytesSent > 0 } ?? false }
        bench.advance(.milliseconds(1_999))
        #expect(bench.results[number] == .failure(.timeout))
        #expect(bench.connection.isOpen)
        bench.advance(.milliseconds(1))
        #expect(try bench.ending() == .timeout)
    }

    @Test("no password goes to a server with a wrong pin")
    func wrongPin() throws {
        let server = try ScriptedOrigin(try TestPKI.shared.server("redis.example.com")) { $0.readToEnd() }
        let bench = try ConnectionBench(
            port: server.port,
            login: RedisLogin(user: nil, password: Array("secret".utf8)),
            scheme: .https,
            policy: .pinning(.unrelated(7))
        )
        let number = bench.send(Self.ping)
        guard case .connection(let why) = try bench.ending() else {
            Issue.record("\(bench.endings)")
            return
        }
        #expect(!why.isEmpty && !why.contains("secret"))
        #expect(bench.results[number] == .failure(.connection(why)))
        #expect(try server.waitForClosed().map(\.applicationBytes) == [0])
    }

    @Test("with the right pin the login and commands go over TLS")
    func rightPin() throws {
        let identity = try TestPKI.shared.server("redis.example.com")
        let server = try ScriptedOrigin(identity) { connection in
            var commands = CommandScript(connection)
            try commands.expect(RedisCommand("AUTH", Array("secret".utf8)))
            try connection.write("+OK\r\n")
            try commands.expect(Self.ping)
            try connection.write("+OK\r\n")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(
            port: server.port,
            login: RedisLogin(user: nil, password: Array("secret".utf8)),
            scheme: .https,
            policy: .pinning(identity.pin)
        )
        #expect(try bench.result(of: bench.send(Self.ping)) == .success(Self.ok))
    }

    // MARK: No connection

    @Test("a server where the rules forbid to go fails, and not within the call")
    func forbidden() throws {
        let bench = try ConnectionBench(port: 1, mayDial: false)
        let number = bench.send(Self.ping)
        #expect(bench.results.isEmpty && bench.endings.isEmpty && !bench.connection.isOpen)
        let failure = RedisFailure.connection("The rules do not let this server be reached.")
        #expect(try bench.result(of: number) == .failure(failure))
        #expect(try bench.ending() == failure)
        #expect(!bench.hasBeenToldWithinCall)
    }

    @Test("a port where nobody listens fails, and is not dialled again")
    func nobodyListens() throws {
        let (held, port) = try TestSocket.reserveRefusingPort()
        defer { Glibc.close(held) }
        let bench = try ConnectionBench(port: port)
        let number = bench.send(Self.ping)
        guard case .failure(.connection) = try bench.result(of: number) else {
            Issue.record("\(bench.results)")
            return
        }
        _ = try bench.ending()
        #expect(try bench.result(of: bench.send(Self.ping)) == .failure(.closed))
        #expect(bench.dials == 1 && !bench.hasBeenToldWithinCall)
    }

    @Test("a command that times out while the handshake lasts is never written")
    func slowHandshake() throws {
        let (listener, port) = try TestSocket.listen()
        defer { Glibc.close(listener) }
        let bench = try ConnectionBench(port: port, scheme: .https, clock: .byHand)
        let numbers = [5, 10].map { bench.send(Self.ping, after: .milliseconds($0)) }
        bench.advance(.milliseconds(5))
        #expect(bench.results == [numbers[0]: .failure(.timeout)])
        bench.advance(.milliseconds(5))
        #expect(bench.results[numbers[1]] == .failure(.timeout))
        #expect(bench.connection.isOpen && bench.endings.isEmpty)
        bench.close()
        #expect(try bench.ending() == .closed)
    }

    // MARK: Time

    @Test("a command that timed out while the login lasted is dropped")
    func droppedCommand() throws {
        let gate = Gate()
        let server = try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            try commands.expect(RedisCommand("AUTH", [1]))
            try gate.pass()
            try connection.write("+OK\r\n")
            try commands.expect(Self.echo("b"))
            try connection.write(":2\r\n")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port, login: RedisLogin(user: nil, password: [1]), clock: .byHand)
        let numbers = [5, 500].map { bench.send(Self.echo($0 == 5 ? "a" : "b"), after: .milliseconds($0)) }
        try bench.run(until: "the login to go") { bench.stream.map { $0.bytesSent > 0 } ?? false }
        bench.advance(.milliseconds(5))
        #expect(bench.results == [numbers[0]: .failure(.timeout)])
        gate.open()
        #expect(try bench.result(of: numbers[1]) == .success(.integer(2)))
    }

    @Test("the late reply to a command is not the next one's")
    func lateReply() throws {
        let gate = Gate()
        let server = try ScriptedOrigin(nil) { connection in
            var commands = CommandScript(connection)
            try commands.expect(Self.echo("a"), Self.echo("b"))
            try gate.pass()
            try connection.write(":1\r\n:2\r\n")
            try commands.expect(Self.ping)
            try connection.write("+OK\r\n")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port, clock: .byHand)
        let numbers = [5, 1_000].map { bench.send(Self.echo($0 == 5 ? "a" : "b"), after: .milliseconds($0)) }
        try bench.run(until: "the commands to go") { bench.stream.map { $0.bytesSent > 0 } ?? false }
        bench.advance(.milliseconds(5))
        #expect(bench.results == [numbers[0]: .failure(.timeout)])
        gate.open()
        #expect(try bench.result(of: numbers[1]) == .success(.integer(2)))
        // An hour without commands is no silence.
        bench.advance(.seconds(3_600))
        #expect(bench.connection.isOpen)
        #expect(try bench.result(of: bench.send(Self.ping)) == .success(Self.ok))
        #expect(bench.results[numbers[0]] == .failure(.timeout))
    }

    @Test("a server that is silent for two seconds is given up")
    func silence() throws {
        let server = try Self.server { $0.readToEnd() }
        let bench = try ConnectionBench(port: server.port, clock: .byHand)
        let first = bench.send(Self.ping, after: .milliseconds(5))
        let patient = bench.send(Self.ping, after: .seconds(60))
        try bench.run(until: "the commands to go") { bench.stream.map { $0.bytesSent > 0 } ?? false }
        bench.advance(.milliseconds(5))
        #expect(bench.results == [first: .failure(.timeout)])
        bench.advance(.milliseconds(1_994))
        #expect(bench.connection.isOpen && bench.results.count == 1)
        bench.advance(.milliseconds(1))
        #expect(!bench.connection.isOpen)
        #expect(try bench.ending() == .timeout)
        #expect(bench.results[patient] == .failure(.timeout))
        try server.waitForClosed()
    }

    @Test("a reply that comes in pieces without end is no more than silence")
    func dribble() throws {
        let gate = Gate()
        let piece = "$100\r\nhello"
        let server = try Self.server { connection in
            try gate.pass()
            try connection.write(piece)
            connection.readToEnd()
        }
        defer { gate.open() }
        let bench = try ConnectionBench(port: server.port, clock: .byHand)
        let number = bench.send(Self.ping, after: .milliseconds(5))
        try bench.run(until: "the command to go") { bench.stream.map { $0.bytesSent > 0 } ?? false }
        bench.advance(.milliseconds(1_900))
        #expect(bench.results == [number: .failure(.timeout)])
        gate.open()
        try bench.run(until: "the piece") { bench.stream.map { $0.bytesReceived == piece.utf8.count } ?? false }
        bench.advance(.milliseconds(99))
        #expect(bench.connection.isOpen)
        bench.advance(.milliseconds(1))
        #expect(!bench.connection.isOpen)
        #expect(try bench.ending() == .timeout)
    }

    @Test("with sixty-five replies overdue a server is given up")
    func overdue() throws {
        let server = try Self.server { $0.readToEnd() }
        let bench = try ConnectionBench(port: server.port, clock: .byHand)
        for index in 0..<65 { bench.send(Self.ping, after: .milliseconds(index < 64 ? 5 : 10)) }
        try bench.run(until: "the commands to go") { bench.stream.map { $0.bytesSent > 0 } ?? false }
        bench.advance(.milliseconds(5))
        #expect(bench.connection.isOpen && bench.results.count == 64)
        bench.advance(.milliseconds(5))
        #expect(!bench.connection.isOpen && bench.results.count == 65)
        #expect(try bench.ending() == .timeout)
        #expect(bench.results.values.allSatisfy { $0 == .failure(.timeout) })
    }

    @Test("a deadline that has passed fails, without a connection and not within the call")
    func pastDeadline() throws {
        let bench = try ConnectionBench(port: 1, clock: .byHand)
        let number = bench.send(Self.ping, after: .milliseconds(0))
        #expect(bench.results.isEmpty)
        #expect(try bench.result(of: number) == .failure(.timeout))
        #expect(bench.dials == 0 && bench.connection.isOpen && !bench.hasBeenToldWithinCall)
    }

    // MARK: Too much

    @Test("the command behind 1024 others finds the connection busy")
    func tooManyCommands() throws {
        let server = try Self.server { $0.readToEnd() }
        let bench = try ConnectionBench(port: server.port)
        for _ in 0..<1_024 { bench.send(Self.ping) }
        #expect(try bench.result(of: bench.send(Self.ping)) == .failure(.busy))
        #expect(bench.order == [1_024] && bench.connection.isOpen && !bench.hasBeenToldWithinCall)
    }

    @Test("more than 16 MB that a server does not take find it busy")
    func tooManyBytes() throws {
        let gate = Gate()
        let server = try Self.server { connection in
            try gate.pass()
            connection.readToEnd()
        }
        defer { gate.open() }
        let bench = try ConnectionBench(port: server.port)
        bench.send(Self.ping)
        let large = RedisCommand("SET", [UInt8](repeating: 0, count: 1 << 20))
        // The system itself takes some megabytes for a server that does not read.
        var last = 0
        while bench.results.isEmpty, last < 500 {
            last = bench.send(large)
            bench.settle()
        }
        #expect(bench.results == [last: .failure(.busy)])
        #expect(last > 15)
        #expect((bench.stream?.pendingBytes ?? 0) <= 16 << 20)
        #expect(bench.connection.isOpen && !bench.hasBeenToldWithinCall)
    }

    // MARK: Hostile servers

    @Test(
        "a server that announces too much is given up at once",
        arguments: [
            ("*1000000000\r\n", "an array of more than 1024 elements"),
            ("*100000\r\n", "an array of more than 1024 elements"),
            ("$1000000000\r\n", "a value of more than 1048576 bytes"),
            ("$9223372036854775807\r\n", "a value of more than 1048576 bytes"),
            ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "an array within more than 3 others"),
            ("+" + String(repeating: "x", count: 5_000), "a line without an end"),
            ("HTTP/1.1 400 Bad Request\r\n", "bytes that are no reply of RESP2"),
        ]
    )
    func giantHeaders(bytes: String, fault: String) throws {
        let (result, ending) = try Self.ending(bytes)
        #expect(ending == .malformed(fault))
        #expect(result == .failure(.malformed(fault)))
    }

    @Test("a reply of values without end is given up", arguments: ["*1024\r\n*1\r\n", "$1000000\r\n"])
    func endlessReply(start: String) throws {
        let server = try Self.server { connection in
            try connection.write(start)
            while true { try connection.write(String(repeating: "*1\r\n:1\r\n", count: 1_000)) }
        }
        let bench = try ConnectionBench(port: server.port)
        let number = bench.send(Self.ping)
        guard case .malformed = try bench.ending() else {
            Issue.record("\(bench.endings)")
            return
        }
        #expect(bench.results[number] == .failure(bench.endings[0]))
        try server.waitForClosed()
    }

    @Test("a reply that nobody asked for ends the connection", arguments: ["+OK\r\n", "$1", "-", "\r\n"])
    func unaskedReply(bytes: String) throws {
        let (result, ending) = try Self.ending("+OK\r\n" + bytes)
        #expect(result == .success(Self.ok))
        #expect(ending == .malformed("a reply that nobody asked for"))
    }

    @Test("the same on a connection at rest")
    func unaskedReplyAtRest() throws {
        let gate = Gate()
        let server = try Self.server { connection in
            try connection.write("+OK\r\n")
            try gate.pass()
            try connection.write("+")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port)
        #expect(try bench.result(of: bench.send(Self.ping)) == .success(Self.ok))
        #expect(bench.connection.isOpen)
        gate.open()
        #expect(try bench.ending() == .malformed("a reply that nobody asked for"))
    }

    @Test("a server that ends within a reply fails its command", arguments: ["", "$5\r\nhel", "*2\r\n:1\r\n"])
    func endsWithin(bytes: String) throws {
        let (result, ending) = try Self.ending(bytes, thenEnds: true)
        guard case .connection = ending else {
            Issue.record("\(ending)")
            return
        }
        #expect(result == .failure(ending))
    }

    @Test("a reset fails the command")
    func reset() throws {
        let server = try Self.server { $0.close(.reset) }
        let bench = try ConnectionBench(port: server.port)
        let number = bench.send(Self.ping)
        guard case .connection = try bench.ending() else {
            Issue.record("\(bench.endings)")
            return
        }
        #expect(bench.results[number] == .failure(bench.endings[0]))
    }

    // MARK: The end

    @Test("the end of the session is no failure of the server")
    func sessionEnds() throws {
        let server = try Self.server { connection in
            try connection.write("+OK\r\n")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port)
        _ = try bench.result(of: bench.send(Self.ping))
        let number = bench.send(Self.ping)
        bench.cancelStreams()
        #expect(try bench.ending() == .closed)
        #expect(bench.results[number] == .failure(.closed))
    }

    @Test("a connection that was never used closes, too")
    func neverUsed() throws {
        let bench = try ConnectionBench(port: 1)
        bench.close()
        bench.close()
        #expect(bench.endings.isEmpty)
        #expect(try bench.ending() == .closed)
        bench.settle()
        #expect(bench.endings == [.closed] && bench.dials == 0 && !bench.hasBeenToldWithinCall)
    }

    @Test("a connection that has ended holds nothing, nor does its stream")
    func released() throws {
        let server = try Self.server { connection in
            try connection.write("+OK\r\n")
            connection.readToEnd()
        }
        let bench = try ConnectionBench(port: server.port)
        _ = try bench.result(of: bench.send(Self.ping))
        weak let connection = bench.connection
        #expect(connection != nil && bench.stream != nil)
        bench.close()
        _ = try bench.ending()
        bench.drop()
        bench.settle()
        #expect(connection == nil && bench.stream == nil)
    }
}
