// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Origins of HTTP/2 that say goodbye, respond early, or allow few streams", .onOwnThreads)
struct HTTP2OriginBehaviourTests {
    private func origin(_ script: @escaping ScriptedOrigin.Script) throws -> ScriptedOrigin {
        try ScriptedOrigin(try TestPKI.shared.server(TestSession.host), protocols: ["h2"], script: script)
    }

    private func endpoint(_ origin: ScriptedOrigin, connectionLimit: Int? = nil) throws -> Endpoint {
        try TestSession.endpoint(port: origin.port, httpVersion: .http2, connectionLimit: connectionLimit)
    }

    /// The streams above `last` were not processed.
    private static func goAway(_ script: HTTP2Script, last: Int) throws {
        try script.send(.goAway, stream: 0, [0, 0, 0, UInt8(last), 0, 0, 0, 0])
    }

    /// Reads a request with its body.
    private static func readBody(_ script: HTTP2Script) throws -> (stream: Int, body: [UInt8])? {
        guard let request = try script.nextRequest() else { return nil }
        var body: [UInt8] = []
        var ends = request.endsStream
        while !ends, let frame = try script.next() {
            if frame.kind == .data { body += frame.payload }
            ends = frame.endsStream
        }
        return (request.stream, body)
    }

    @Test("a POST of 10 KB that GOAWAY leaves out is repeated whole", arguments: [true, false])
    func leftOut(isBodyRead: Bool) throws {
        let bodies = Monitor<[[UInt8]]>([])
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            if connection.number == 0 {
                guard let first = try script.nextRequest() else { return }
                try script.head(204, stream: first.stream, ends: true)
                if isBodyRead { _ = try Self.readBody(script) } else { _ = try script.nextRequest() }
                try Self.goAway(script, last: first.stream)
                return connection.readToEnd()
            }
            while let (stream, body) = try Self.readBody(script) {
                bodies.with { $0.append(body) }
                try script.head(201, stream: stream, ends: true)
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        #expect(try session.get(endpoint).head?.status == 204)
        let body = patternBytes(10 << 10)
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint, .post, bodyLength: .bytes(body.count))
        task.send(body.span)
        task.finishSending()
        try session.finish(delegate)
        #expect(delegate.error == nil && delegate.head?.status == 201)
        let isWhole = bodies.with { $0 == [body] }
        #expect(isWhole)
        #expect(origin.connections.count == 2)
    }

    @Test("a POST that is left out twice fails")
    func leftOutTwice() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            _ = try Self.readBody(script)
            try Self.goAway(script, last: 0)
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint(origin), .post, bodyLength: .bytes(4))
        task.send(Array("once".utf8).span)
        task.finishSending()
        try session.finish(delegate)
        #expect(delegate.error?.code == .responseTruncated)
        #expect(origin.connections.count == 2)
    }

    /// What comes of a response before its request would be repeated.
    enum Beginning: CaseIterable {
        /// HEADERS without END_HEADERS, and the end of the connection.
        case partOfHead
        /// A frame that is cut inside its fields, and one behind its head.
        case partOfFrame
        case headOfFrame
        /// A whole head, and "the request was not processed".
        case refused
        /// A head with a field that HTTP/2 forbids, in one piece with the same.
        case malformedAndRefused
        case malformedAndGoAway
        case malformedAndReset
    }

    @Test("a request is not repeated behind a part of its response", arguments: Beginning.allCases)
    func begun(beginning: Beginning) throws {
        let requests = Monitor(0)
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                let stream = request.stream
                requests.with { $0 += 1 }
                guard requests.with({ $0 }) == 2 else {
                    try script.head(204, stream: stream, ends: true)
                    continue
                }
                // :status 200, and two literal fields without indexing.
                let block: [UInt8] = [0x88, 0, 1, 0x78, 1, 0x31, 0, 1, 0x79, 1, 0x32]
                let malformed = block + [0, 10] + Array("connection".utf8) + [1, 0x78]
                let reset: [UInt8] = [0, 0, 4, 3, 0, 0, 0, 0, UInt8(stream), 0, 0, 0]
                let head: [UInt8] = [0, 0, UInt8(malformed.count), 1, 4, 0, 0, 0, UInt8(stream)] + malformed
                switch beginning {
                case .partOfHead: try script.send(.headers, stream: stream, block)
                case .partOfFrame: try connection.write([0, 0, 99, 1, 4, 0, 0, 0, UInt8(stream)] + block)
                case .headOfFrame: try connection.write([0, 0, 99, 1, 0x2C, 0, 0, 0, UInt8(stream), 0])
                case .refused:
                    try script.send(.headers, flags: 4, stream: stream, block)
                    try script.send(.resetStream, stream: stream, [0, 0, 0, 7])
                case .malformedAndRefused: try connection.write(head + reset + [7])
                case .malformedAndReset: try connection.write(head + reset + [0])
                case .malformedAndGoAway:
                    try connection.write(head + [0, 0, 8, 7] + [UInt8](repeating: 0, count: 13))
                }
                if ![.refused, .malformedAndRefused, .malformedAndReset].contains(beginning) {
                    return connection.close(.clean)
                }
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        #expect(try session.get(endpoint).head?.status == 204)
        let delegate = try session.get(endpoint)
        let isMalformed = [.malformedAndRefused, .malformedAndGoAway, .malformedAndReset].contains(beginning)
        #expect(delegate.error?.code == (isMalformed ? .responseInvalid : .responseTruncated))
        let words = delegate.error?.description ?? ""
        #expect(words.contains("connection\"") == isMalformed, "\(words)")
        let count = requests.with { $0 }
        #expect(count == 2)
    }

    @Test("an unprocessed first GET is repeated after GOAWAY")
    func firstRequest() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            if connection.number == 0 {
                try Self.goAway(script, last: 0)
            } else {
                try script.head(200, stream: request.stream)
                try script.body("second", stream: request.stream)
            }
            connection.readToEnd()
        }
        let delegate = try TestSession().get(endpoint(origin))
        #expect(delegate.error == nil && delegate.text == "second")
        #expect(origin.connections.count == 2)
    }

    @Test(
        "a response before the body is read is whole, despite RST_STREAM(NO_ERROR)",
        arguments: [true, false]
    )
    func earlyResponse(isOnePiece: Bool) throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(413, fields: [("content-length", "9")], stream: request.stream)
                if !isOnePiece { try script.body("too ", stream: request.stream, ends: false) }
                try script.body(isOnePiece ? "too large" : "large", stream: request.stream)
                try script.send(.resetStream, stream: request.stream, [0, 0, 0, 0])
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        let body = patternBytes(70 << 10)
        for _ in 0..<5 {
            let delegate = RecordingDelegate()
            let task = try session.start(delegate, endpoint, .post, bodyLength: .bytes(body.count))
            task.send(body.span)
            task.finishSending()
            try session.finish(delegate)
            #expect(delegate.error == nil && delegate.head?.status == 413)
            #expect(delegate.text == "too large")
        }
        #expect(origin.connections.count == 1)
    }

    @Test("responses received before a reset are whole, though reading had paused")
    func resetWhilePaused() throws {
        let gate = Gate()
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            let streams = try (0..<6).compactMap { _ in try script.nextRequest()?.stream }
            try gate.pass()
            // Its acknowledgement is what the client cannot write any more.
            try script.send(.ping, stream: 0, [UInt8](repeating: 7, count: 8))
            for stream in streams {
                try script.head(200, stream: stream)
                try script.body("whole", stream: stream)
            }
            connection.close(.reset)
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        let delegates = (0..<6).map { _ in RecordingDelegate() }
        for delegate in delegates {
            // The turn of the loop is a long one.
            delegate.onResponse = { _ in
                usleep(5000)
                return .allow
            }
            try session.start(delegate, endpoint)
        }
        try session.run(until: "requests") { origin.connections.first?.requestFrames == 6 }
        session.settle()
        gate.open()
        _ = try origin.waitForClosed(1)
        try session.run(until: "responses") { delegates.allSatisfy(\.isComplete) }
        for delegate in delegates { #expect(delegate.error == nil && delegate.text == "whole", "\(delegate.calls)") }
        #expect(origin.connections.count == 1)
    }

    /// What a server says in place of the end of the stream.
    enum Goodbye: CaseIterable { case resetWithoutError, resetWithError, goAwayAndEnd }

    @Test(
        "a response of full length is whole without its stream's end",
        arguments: Goodbye.allCases,
        [0, 1, 131_071, 131_072, 131_073]
    )
    func wholeLength(goodbye: Goodbye, length: Int) throws {
        let body = patternBytes(length)
        for missing in [0, 1] where length >= missing {
            let origin = try origin { connection in
                let script = try HTTP2Script(connection)
                guard let request = try script.nextRequest() else { return }
                try script.head(200, fields: [("content-length", "\(length)")], stream: request.stream)
                // The client's window has room for all of it.
                var rest = body.dropLast(missing)
                while !rest.isEmpty {
                    try script.send(.data, stream: request.stream, Array(rest.prefix(16 << 10)))
                    rest = rest.dropFirst(16 << 10)
                }
                switch goodbye {
                case .resetWithoutError: try script.send(.resetStream, stream: request.stream, [0, 0, 0, 0])
                case .resetWithError: try script.send(.resetStream, stream: request.stream, [0, 0, 0, 2])
                case .goAwayAndEnd:
                    try Self.goAway(script, last: request.stream)
                    connection.finishWriting()
                }
                connection.readToEnd()
            }
            let delegate = try TestSession().get(endpoint(origin))
            let isWhole = missing == 0 && goodbye != .resetWithError
            #expect(delegate.error?.code == (isWhole ? nil : .responseTruncated))
            let isAll = delegate.body == Array(body.dropLast(missing))
            #expect(isAll)
        }
    }

    @Test("a head without a body is a whole response, despite a harmless reset")
    func wholeHead() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                try script.head(204, stream: request.stream)
                try script.send(.resetStream, stream: request.stream, [0, 0, 0, 0])
            }
        }
        let delegate = try TestSession().get(endpoint(origin))
        #expect(delegate.error == nil && delegate.head?.status == 204)
    }

    @Test("a paused task gets the rest of a complete response after a reset")
    func wholeLengthWhilePaused() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            guard let request = try script.nextRequest() else { return }
            try script.head(200, fields: [("content-length", "10")], stream: request.stream)
            try script.body("01234", stream: request.stream, ends: false)
            try script.body("56789", stream: request.stream, ends: false)
            try script.send(.resetStream, stream: request.stream, [0, 0, 0, 0])
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        delegate.onData = { _ in .pause }
        let task = try session.start(delegate, endpoint(origin))
        try session.run(until: "the first piece") { delegate.text == "01234" }
        session.settle()
        #expect(!delegate.isComplete)
        delegate.onData = { _ in .proceed }
        task.resumeReceiving()
        try session.finish(delegate)
        #expect(delegate.error == nil && delegate.text == "0123456789")
    }

    @Test("500 requests at once with 100 streams use at most 5 connections")
    func manyRequests() throws {
        let accepted = Monitor(0)
        let origin = try origin { connection in
            let script = try HTTP2Script(connection, streamLimit: 100)
            let isFirst = accepted.with { count in
                count += 1
                return count == 1
            }
            // No stream of the first connection becomes free before all are taken. Later ones may have fewer requests.
            var held: [Int] = []
            while isFirst, held.count < 100, let request = try script.nextRequest() { held.append(request.stream) }
            for stream in held { try script.head(204, stream: stream, ends: true) }
            while let request = try script.nextRequest() { try script.head(204, stream: request.stream, ends: true) }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        let delegates = (0..<500).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint) }
        try session.run(until: "500 responses") { delegates.allSatisfy(\.isComplete) }
        #expect(delegates.allSatisfy { $0.error == nil && $0.head?.status == 204 })
        #expect(origin.connections.count <= 5)
    }

    @Test("requests above the streams of the only connection wait for a stream")
    func fewStreams() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection, streamLimit: 10)
            var held: [Int] = []
            while held.count < 10, let request = try script.nextRequest() { held.append(request.stream) }
            // From here on one stream becomes free at a time.
            while !held.isEmpty {
                try script.head(204, stream: held.removeFirst(), ends: true)
                if held.last != 2 * 60 - 1, let request = try script.nextRequest() { held.append(request.stream) }
            }
            connection.readToEnd()
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin, connectionLimit: 1)
        let delegates = (0..<60).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint) }
        try session.run(until: "60 responses") { delegates.allSatisfy(\.isComplete) }
        #expect(delegates.allSatisfy { $0.error == nil && $0.head?.status == 204 })
        #expect(origin.connections.count == 1)
    }

    @Test("a server's limit of requests for each connection is learned")
    func requestsOfConnection() throws {
        let limit = 20
        let counts = Monitor<[Int: Int]>([:])
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            var count = 0
            while let request = try script.nextRequest() {
                count += 1
                let number = count
                counts.with { $0[connection.number] = number }
                // A request above the limit gets no response: it is left out by the GOAWAY.
                if count <= limit { try script.head(204, stream: request.stream, ends: true) }
                if count == limit { try Self.goAway(script, last: request.stream) }
            }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        for _ in 0..<15 {
            let delegates = (0..<8).map { _ in RecordingDelegate() }
            for delegate in delegates { try session.start(delegate, endpoint, .post) }
            try session.run(until: "8 responses") { delegates.allSatisfy(\.isComplete) }
            #expect(delegates.allSatisfy { $0.error == nil && $0.head?.status == 204 })
        }
        let later = counts.with { counts in counts.filter { $0.key > 0 }.map(\.value) }
        #expect(later.count >= 5 && later.allSatisfy { $0 <= limit }, "\(later)")
    }

    @Test(
        "a body of 64 KB is kept for repetition, a longer one is not",
        arguments: [(64 << 10, true), ((64 << 10) + 1, false)]
    )
    func keptBody(size: Int, isRepeated: Bool) throws {
        let bodies = Monitor<[[UInt8]]>([])
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            if connection.number == 0 {
                _ = try script.nextRequest()
                try Self.goAway(script, last: 0)
                return connection.readToEnd()
            }
            guard let request = try script.nextRequest() else { return }
            try script.send(.windowUpdate, stream: 0, [0, 1, 0, 0])
            try script.send(.windowUpdate, stream: request.stream, [0, 1, 0, 0])
            var body: [UInt8] = []
            var ends = request.endsStream
            while !ends, let frame = try script.next() {
                if frame.kind == .data { body += frame.payload }
                ends = frame.endsStream
            }
            let whole = body
            bodies.with { $0.append(whole) }
            try script.head(201, stream: request.stream, ends: true)
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint(origin), .put, bodyLength: .bytes(size))
        let body = patternBytes(size)
        task.send(body.span)
        task.finishSending()
        try session.finish(delegate)
        let arrived = bodies.with { $0 }
        #expect(arrived == (isRepeated ? [body] : []))
        #expect(isRepeated ? delegate.head?.status == 201 : delegate.error?.code == .responseTruncated)
    }

    @Test("a request that gets no stream within timeouts.queue fails, and the connection goes on")
    func queueLimit() throws {
        let gate = Gate()
        let origin = try origin { connection in
            let script = try HTTP2Script(connection, streamLimit: 1)
            guard let first = try script.nextRequest() else { return }
            try gate.pass()
            try script.head(204, stream: first.stream, ends: true)
            while let next = try script.nextRequest() { try script.head(204, stream: next.stream, ends: true) }
        }
        defer { gate.open() }
        let session = try TestSession()
        var timeouts = TaskTimeouts()
        timeouts.queue = .milliseconds(200)
        let endpoint = try TestSession.endpoint(
            port: origin.port,
            httpVersion: .http2,
            timeouts: timeouts,
            connectionLimit: 1
        )
        // The server's limit is known behind its first bytes.
        let held = RecordingDelegate()
        try session.start(held, endpoint)
        let limit = { session.manager.connections.entry(for: endpoint).pool.waiters }
        try session.run(until: "the connection") { held.calls.contains(.connected) }
        var late: [RecordingDelegate] = []
        try session.run(until: "a request that waits for a stream") {
            guard limit().isEmpty else { return true }
            late.append(RecordingDelegate())
            try session.start(late[late.count - 1], endpoint)
            return !limit().isEmpty
        }
        let waiting = late[late.count - 1]
        try session.finish(waiting)
        #expect(waiting.error?.code == .limitReached && waiting.error?.details.contains("timeouts.queue") == true)
        gate.open()
        try session.run(until: "the others") { held.isComplete && late.allSatisfy(\.isComplete) }
        #expect(held.error == nil && held.head?.status == 204)
        #expect(try session.get(endpoint).error == nil)
        #expect(origin.connections.count == 1)
    }

    @Test("requests may leave a shared dial, which ends with the last of them")
    func sharedDial() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        var timeouts = TaskTimeouts()
        timeouts.connect = .milliseconds(300)
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: port, httpVersion: .http2, timeouts: timeouts)
        let delegates = (0..<3).map { _ in RecordingDelegate() }
        let tasks = try delegates.map { try session.start($0, endpoint) }
        let pool = { session.manager.connections.entry(for: endpoint).pool }
        #expect(pool().activeCount == 1 && pool().waiters.isEmpty)
        session.settle()
        tasks[0].cancel()
        #expect(delegates[0].error?.code == .cancelled && pool().activeCount == 1)
        try session.finish(delegates[1], delegates[2])
        for delegate in delegates[1...] {
            #expect(delegate.error?.code == .connectTimeout)
            #expect(delegate.error?.details.contains("timeouts.connect") == true)
        }
        #expect(pool().isEmpty)
        let last = RecordingDelegate()
        let task = try session.start(last, endpoint)
        session.settle()
        #expect(pool().activeCount == 1)
        task.cancel()
        #expect(pool().isEmpty)
    }

    @Test("an idle connection closes when a descriptor is needed, a busy one does not")
    func missingDescriptor() throws {
        let gate = Gate()
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() {
                if connection.number == 1 { try gate.pass() }
                try script.head(204, stream: request.stream, ends: true)
            }
        }
        defer { gate.open() }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        #expect(try session.get(endpoint).error == nil)
        #expect(session.manager.connections.makeRoom())
        #expect(session.manager.connections.entry(for: endpoint).pool.isEmpty)
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint)
        try session.run(until: "the request") { delegate.calls.contains(.connected) }
        #expect(!session.manager.connections.makeRoom())
        gate.open()
        try session.finish(delegate)
        #expect(delegate.error == nil && origin.connections.count == 2)
    }

    @Test("requests with and without TE: trailers share a connection")
    func trailersAccepted() throws {
        let origin = try origin { connection in
            let script = try HTTP2Script(connection)
            while let request = try script.nextRequest() { try script.head(204, stream: request.stream, ends: true) }
        }
        let session = try TestSession()
        let endpoint = try endpoint(origin)
        for accepts in [false, true, false, true] {
            var fields = HeaderFields()
            if accepts { fields.append(.te, "trailers") }
            let request = SessionRequest(endpoint: endpoint, method: .get, target: Array("/".utf8), fields: fields)
            let delegate = RecordingDelegate()
            let task = session.manager.dataTask(with: request, delegate: delegate)
            task.finishSending()
            task.resume()
            try session.finish(delegate)
            #expect(delegate.error == nil && delegate.head?.status == 204)
        }
        #expect(origin.connections.count == 1)
    }
}
