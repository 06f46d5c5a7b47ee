// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

/// OpenSSL reads ahead, and the socket does not tell of the bytes that it holds: every byte arrives all the same.
@Suite("TLS read-ahead", .onOwnThreads)
struct ReadAheadTests {
    /// How the consumer behaves.
    enum Consumer: CaseIterable {
        case steady
        /// Pauses at each call and goes on at the end of the turn.
        case pausing
        /// Pauses at each call and goes on turns later.
        case slow
        /// Pauses at each call and goes on from within it.
        case contradictory
    }

    private static func attach(_ consumer: Consumer, _ delegate: RecordingDelegate, _ session: TestSession) {
        let loop = session.loop
        switch consumer {
        case .steady:
            break
        case .pausing:
            delegate.onData = { task in
                loop.atEndOfTurn { task.resumeReceiving() }
                return .pause
            }
        case .slow:
            delegate.onData = { task in
                let timer = LoopTimer { task.resumeReceiving() }
                loop.arm(timer, after: .milliseconds(1))
                return .pause
            }
        case .contradictory:
            delegate.onData = { task in
                loop.atEndOfTurn { task.resumeReceiving() }
                task.resumeReceiving()
                return .pause
            }
        }
    }

    private func check(
        _ consumer: Consumer,
        body: [UInt8],
        shape: (@Sendable (RecordRelay.Stream) throws -> Void)? = nil,
        sourceLocation: SourceLocation = #_sourceLocation,
        script: @escaping ScriptedOrigin.Script
    ) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), script: script)
        let relay = try shape.map { try RecordRelay(to: origin.port, shape: $0) }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        Self.attach(consumer, delegate, session)
        try session.start(delegate, TestSession.endpoint(port: relay?.port ?? origin.port))
        try session.finish(delegate)
        #expect(delegate.error == nil, sourceLocation: sourceLocation)
        let isWhole = delegate.body == body
        #expect(isWhole, "\(delegate.body.count) of \(body.count)", sourceLocation: sourceLocation)
        #expect(delegate.completions == 1, sourceLocation: sourceLocation)
        withExtendedLifetime((origin, relay)) {}
    }

    private static func chunked(_ body: [UInt8], seed: UInt64, sizes: ClosedRange<Int>) -> [UInt8] {
        var sequence = Sequence64(seed: seed)
        var wire: [UInt8] = []
        var position = 0
        while position < body.count {
            let count = min(body.count - position, sequence.next(sizes))
            wire += Array(String(count, radix: 16).utf8) + [13, 10] + body[position..<position + count] + [13, 10]
            position += count
        }
        return wire + Array("0\r\n\r\n".utf8)
    }

    private static let chunkedHead = Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8)

    @Test("a head of one byte a record arrives", arguments: Consumer.allCases)
    func byteARecord(consumer: Consumer) throws {
        try check(consumer, body: Array("hello".utf8)) { connection in
            _ = try connection.readRequest()
            for byte in OriginResponse.text("hello").utf8 { try connection.write([byte]) }
            connection.readToEnd()
        }
    }

    @Test("100 KB in many small records arrive", arguments: Consumer.allCases)
    func smallRecords(consumer: Consumer) throws {
        let body = patternBytes(100 << 10)
        try check(consumer, body: body) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            var sequence = Sequence64(seed: 3)
            var position = 0
            while position < body.count {
                let count = min(body.count - position, sequence.next(1...200))
                try connection.write(Array(body[position..<position + count]))
                position += count
            }
            connection.readToEnd()
        }
    }

    @Test("1 MB in records of odd sizes arrives", arguments: Consumer.allCases)
    func oddRecords(consumer: Consumer) throws {
        let body = patternBytes(1 << 20)
        try check(consumer, body: body) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            var sequence = Sequence64(seed: 4)
            var position = 0
            while position < body.count {
                let count = min(body.count - position, sequence.next(1...16384))
                try connection.write(Array(body[position..<position + count]))
                position += count
            }
            connection.readToEnd()
        }
    }

    @Test("records that end in the middle of a chunk-size line are put together", arguments: Consumer.allCases)
    func chunkSizeLines(consumer: Consumer) throws {
        let body = patternBytes(60 << 10)
        let wire = Self.chunkedHead + Self.chunked(body, seed: 5, sizes: 1...700)
        try check(consumer, body: body) { connection in
            _ = try connection.readRequest()
            var sequence = Sequence64(seed: 6)
            var position = 0
            while position < wire.count {
                let count = min(wire.count - position, sequence.next(1...257))
                try connection.write(Array(wire[position..<position + count]))
                position += count
            }
            connection.readToEnd()
        }
    }

    @Test("30,000 chunks of one byte arrive", arguments: Consumer.allCases)
    func tinyChunks(consumer: Consumer) throws {
        // A consumer that pauses is called once for each of them.
        let body = patternBytes(consumer == .slow ? 300 : 30_000)
        let wire = Self.chunkedHead + Self.chunked(body, seed: 1, sizes: 1...1)
        try check(consumer, body: body) { connection in
            _ = try connection.readRequest()
            try connection.write(wire)
            connection.readToEnd()
        }
    }

    @Test("chunks that come together with the end of the connection arrive", arguments: Consumer.allCases)
    func chunksBeforeTheEnd(consumer: Consumer) throws {
        let body = patternBytes(20 << 10)
        let wire = Self.chunkedHead + Self.chunked(body, seed: 8, sizes: 100...700)
        let hasAsked = Monitor(false)
        try check(
            consumer,
            body: body,
            shape: { stream in
                var late: [UInt8] = []
                while let record = stream.nextRecord() {
                    if hasAsked.with({ $0 }) { late += record } else { try stream.deliver(record) }
                }
                try stream.deliver(late)
                try stream.passRest()
            }
        ) { connection in
            _ = try connection.readRequest()
            hasAsked.with { $0 = true }
            try connection.write(wire)
            connection.close()
        }
    }

    @Test("records that the network cuts anywhere arrive", arguments: Consumer.allCases, [UInt64(1), 2, 3])
    func cutRecords(consumer: Consumer, seed: UInt64) throws {
        let body = patternBytes(400 << 10)
        let wire = Self.chunkedHead + Self.chunked(body, seed: seed, sizes: 1...40_000)
        try check(
            consumer,
            body: body,
            shape: { stream in
                var sequence = Sequence64(seed: seed)
                while let bytes = stream.nextBytes() {
                    var position = 0
                    while position < bytes.count {
                        let count = min(bytes.count - position, sequence.next(1...20_000))
                        try stream.deliver(Array(bytes[position..<position + count]))
                        position += count
                    }
                }
            }
        ) { connection in
            _ = try connection.readRequest()
            var sequence = Sequence64(seed: seed + 10)
            var position = 0
            while position < wire.count {
                let count = min(wire.count - position, sequence.next(1...16384))
                try connection.write(Array(wire[position..<position + count]))
                position += count
            }
            connection.readToEnd()
        }
    }

    /// A record that arrived in part is completed in one read together with whole ones: the socket falls silent while
    /// OpenSSL holds all of them.
    @Test(
        "records that follow the rest of a cut one are read at once",
        arguments: [TLSVersion.tls12, .tls13],
        [1, 3]
    )
    func restWithWholeRecords(version: TLSVersion, followers: Int) throws {
        let pieces = (0...followers).map { index in patternBytes(1000 + index) }
        let body = pieces.flatMap { $0 }
        let origin = try ScriptedOrigin(
            try TestPKI.shared.server(TestSession.host),
            maximum: version
        ) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            for piece in pieces { try connection.write(piece) }
            connection.readToEnd()
        }
        let cut = Gate()
        let isCut = Monitor(false)
        let relay = try RecordRelay(to: origin.port) { stream in
            // Everything up to the head of the answer, which is the first record of some size after it.
            var records: [[UInt8]] = []
            while records.count <= followers {
                guard let record = stream.nextRecord() else { return }
                // The body's records are told by their length: 1000 bytes and what the cipher adds.
                if record[0] == 23, record.count >= 1000, record.count <= 1100 {
                    records.append(record)
                } else {
                    try stream.deliver(record)
                }
            }
            let first = records[0]
            try stream.deliver(Array(first[..<(first.count - 10)]))
            try stream.waitUntilArrived()
            isCut.with { $0 = true }
            try cut.pass()
            try stream.deliver(first.suffix(10) + records.dropFirst().flatMap { $0 })
            try stream.passRest()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        try session.start(delegate, TestSession.endpoint(port: relay.port))
        try session.run(until: "the cut") { isCut.with { $0 } }
        session.settle()
        cut.open()
        try session.run(until: "the whole answer", seconds: 5) { delegate.isComplete }
        #expect(delegate.error == nil)
        #expect(firstDifference(delegate.body, body) == nil)
        #expect(delegate.transaction.connection?.tlsVersion?.description == (version == .tls12 ? "TLSv1.2" : "TLSv1.3"))
    }

    @Test("an unrequested response is not taken for the next request's")
    func unsolicitedResponse() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while let request = try connection.readRequest() {
                // Two records in one segment, most likely: the second is read ahead.
                try connection.write(OriginResponse.text("answer to \(request.target)"))
                try connection.write(OriginResponse.text("poison"))
            }
        }
        let relay = try RecordRelay(to: origin.port) { stream in
            while let record = stream.nextRecord() {
                // The answers are the records of their size; the two go out together.
                if record[0] == 23, record.count > 80, record.count < 140, let second = stream.nextRecord() {
                    try stream.deliver(record + second)
                } else {
                    try stream.deliver(record)
                }
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: relay.port)
        for number in 1...4 {
            let delegate = try session.get(endpoint, target: "/\(number)")
            #expect(delegate.error == nil)
            #expect(delegate.text == "answer to /\(number)")
        }
    }

    @Test(
        "a response on an idle connection is not taken for the next request's",
        arguments: [true, false]
    )
    func lateUnsolicitedResponse(isSecure: Bool) throws {
        let server = isSecure ? try TestPKI.shared.server(TestSession.host) : nil
        let next = (1...4).map { _ in Gate() }
        let origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                try connection.write(OriginResponse.text("answer to \(request.target)"))
                try next[Int(request.target.dropFirst())! - 1].pass()
                try connection.write(OriginResponse.text("poison"))
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: isSecure ? .https : .http)
        for number in 1...4 {
            let delegate = try session.get(endpoint, target: "/\(number)")
            #expect(delegate.error == nil)
            #expect(delegate.text == "answer to /\(number)")
            let before = origin.connections.reduce(0) { $0 + $1.bytesWritten }
            next[number - 1].open()
            // Some turns, so that the connection is idle when it comes; it may have been given up by then as well.
            _ = try origin.wait(for: "the unsolicited answer") { records in
                records.reduce(0) { $0 + $1.bytesWritten } > before || records.allSatisfy(\.isClosed) ? true : nil
            }
            session.settle()
        }
    }

    @Test("a request is repeated when the origin ends the connection instead of responding")
    func closedOnReuse() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            guard let request = try connection.readRequest() else { return }
            try connection.respond("\(connection.number) \(request.target)")
            // The second request is read, and answered by close_notify alone.
            if connection.number == 0 { _ = try connection.readRequest() } else { connection.readToEnd() }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        #expect(try session.get(endpoint, target: "/a").text == "0 /a")
        let second = try session.get(endpoint, target: "/b")
        #expect(second.error == nil)
        #expect(second.text == "1 /b")
        #expect(second.transaction.isReusedConnection == false)
    }

    @Test("a fast download leaves turns of the loop to the others")
    func fairness() throws {
        let body = patternBytes(1 << 20)
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(64 << 20)\r\n\r\n")
            for _ in 0..<64 { try connection.write(body) }
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        try session.start(delegate, TestSession.endpoint(port: origin.port))
        var before = 0
        var largest = 0
        try session.run(until: "the download") {
            largest = max(largest, delegate.body.count - before)
            before = delegate.body.count
            return delegate.isComplete
        }
        #expect(delegate.error == nil)
        #expect(delegate.body.count == 64 << 20)
        // A connection reads a part of what has come, and goes on in the next turn.
        #expect(largest < 8 << 20, "\(largest) bytes in one turn")
    }
}
