// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Connections and their verdicts", .onOwnThreads)
struct ConnectionTests {
    private static func responding(_ server: TestServer) throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { request in OriginResponse.text(request["Host"] ?? "") }
    }

    @Test("consecutive tasks share a connection, simultaneous ones do not")
    func reuse() throws {
        let both = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/together" { try both.pass() }
                try connection.respond(request.target)
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        for number in 1...5 { #expect(try session.get(endpoint, target: "/\(number)").text == "/\(number)") }
        #expect(origin.connections.count == 1)
        let delegates = (0..<3).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint, target: "/together") }
        try session.run(until: "three connections") { delegates.allSatisfy { $0.calls == [.connected] } }
        both.open()
        try session.run(until: "the answers") { delegates.allSatisfy(\.isComplete) }
        #expect(origin.connections.count == 3)
        let numbers = Set(delegates.compactMap { $0.transaction.connection?.identifier })
        #expect(numbers.count == 3)
    }

    @Test("connectionsPerHost is respected: further requests wait")
    func connectionLimit() throws {
        let origin = try Self.responding(try TestPKI.shared.server(TestSession.host))
        var configuration = SessionConfiguration()
        configuration.connectionsPerHost = 2
        let session = try TestSession(configuration)
        let endpoint = try TestSession.endpoint(port: origin.port)
        let delegates = (0..<12).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint) }
        try session.run(until: "the answers") { delegates.allSatisfy(\.isComplete) }
        #expect(delegates.allSatisfy { $0.text == TestSession.host })
        #expect(origin.connections.count <= 2)
    }

    @Test("a request that waits too long fails; the others have their turn")
    func queueTimeout() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while let request = try connection.readRequest() {
                if request.target == "/held" { try gate.pass() }
                try connection.respond(request.target)
            }
        }
        var impatient = TaskTimeouts()
        impatient.queue = .milliseconds(100)
        let session = try TestSession()
        let held = RecordingDelegate()
        let patient = RecordingDelegate()
        let tooLate = RecordingDelegate()
        let cancelled = RecordingDelegate()
        let endpoint = try TestSession.endpoint(port: origin.port, connectionLimit: 1)
        // Another endpoint of the same host and port: they share the limit.
        let other = try TestSession.endpoint(port: origin.port, timeouts: impatient, connectionLimit: 1)
        try session.start(held, endpoint, target: "/held")
        let task = try session.start(cancelled, endpoint, target: "/cancelled")
        try session.start(tooLate, other, target: "/late")
        try session.start(patient, endpoint, target: "/patient")
        try session.finish(tooLate)
        #expect(tooLate.error?.code == .limitReached)
        #expect(tooLate.error?.details.contains("timeouts.queue (100 ms)") == true)
        #expect(tooLate.transaction.status == 0)
        #expect(!patient.isComplete && patient.calls.isEmpty)
        task.cancel()
        #expect(cancelled.error?.code == .cancelled)
        gate.open()
        try session.finish(held, patient)
        #expect(held.text == "/held" && patient.text == "/patient")
        #expect(origin.requests.map(\.target) == ["/held", "/patient"])
        #expect(origin.connections.count == 1)
    }

    @Test("requests that share a connection of HTTP/2 do not wait for each other")
    func multiplexedLimit() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let origin = try ScriptedOrigin(server, protocols: ["h2"]) { connection in
            let script = try HTTP2Script(connection)
            var streams: [Int] = []
            // The origin responds only when all requests have been received.
            while streams.count < 5, let request = try script.nextRequest() { streams.append(request.stream) }
            for stream in streams {
                try script.head(200, stream: stream)
                try script.body("\(stream)", stream: stream)
            }
            connection.readToEnd()
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, httpVersion: .http2, connectionLimit: 1)
        let delegates = (0..<5).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint) }
        try session.run(until: "the answers") { delegates.allSatisfy(\.isComplete) }
        #expect(delegates.allSatisfy { $0.error == nil && $0.head?.status == 200 })
        #expect(origin.connections.count == 1)
    }

    @Test("a session that ends cancels waiting requests, and starts none")
    func endWithWaiters() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { $0.readToEnd() }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, connectionLimit: 1)
        let delegates = (0..<5).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint) }
        try session.run(until: "a connection") { delegates[0].calls.contains(.connected) }
        session.manager.invalidateSession(cancelingTasks: true)
        #expect(delegates.allSatisfy { $0.error?.code == .cancelled })
        #expect(delegates.dropFirst().allSatisfy { !$0.calls.contains(.connected) })
    }

    @Test("many hosts each have a queue of their own, and none is lost")
    func manyHosts() throws {
        let hosts = (0..<300).map { "h\($0).example.com" }
        let server = try TestPKI.shared.server("*.example.com")
        let origin = try Self.responding(server)
        let session = try TestSession()
        for host in hosts {
            let endpoint = try TestSession.endpoint(host, port: origin.port, connectionLimit: 1)
            let delegates = [RecordingDelegate(), RecordingDelegate()]
            for delegate in delegates { try session.start(delegate, endpoint) }
            try session.run(until: "both answers") { delegates.allSatisfy(\.isComplete) }
            #expect(delegates.allSatisfy { $0.text == host }, "\(host)")
        }
        #expect(origin.connections.count == hosts.count)
    }

    @Test("69 two hosts at one address never share a connection")
    func twoHosts() throws {
        let server = try TestPKI.shared.server(TestSession.host, "other.example.com")
        let origin = try Self.responding(server)
        let nginx = try NginxOrigin(server, http2: true)
        let session = try TestSession()
        for (port, version) in [(origin.port, Endpoint.HTTPVersion.http1), (nginx.port, .http2)] {
            let one = try TestSession.endpoint(port: port, httpVersion: version)
            let other = try TestSession.endpoint("other.example.com", port: port, httpVersion: version)
            let tasks = try [one, other, one, other].map { try session.get($0, target: "/echo/") }
            #expect(tasks.allSatisfy { $0.error == nil && $0.head?.status == 200 })
            let numbers = tasks.compactMap { $0.transaction.connection?.identifier }
            #expect(numbers.count == 4)
            #expect(numbers[0] == numbers[2] && numbers[1] == numbers[3] && numbers[0] != numbers[1])
            #expect(tasks[2].transaction.isReusedConnection && tasks[3].transaction.isReusedConnection)
        }
        let hosts = origin.connections.map { $0.requests.map { $0["Host"] } }
        #expect(hosts == [TestSession.host, "other.example.com"].map { [$0, $0] })
    }

    @Test("68 a connection of another generation, or of another policy, carries no request")
    func generations() throws {
        let server = try TestPKI.shared.server(TestSession.host)
        let origin = try Self.responding(server)
        let session = try TestSession()
        let endpoints = try [
            TestSession.endpoint(port: origin.port, generation: 1),
            TestSession.endpoint(port: origin.port, generation: 2),
            TestSession.endpoint(port: origin.port, policy: .pinning(server.pin), generation: 2),
        ]
        for endpoint in endpoints {
            let delegate = try session.get(endpoint)
            #expect(delegate.error == nil)
            #expect(!delegate.transaction.isReusedConnection)
            #expect(try session.get(endpoint).transaction.isReusedConnection)
        }
        let refusing = try TestSession.endpoint(port: origin.port, policy: .pinning(.unrelated(2)), generation: 2)
        let requests = origin.requests.count
        #expect(try session.get(refusing).error?.code == .pinMismatch)
        #expect(origin.requests.count == requests)
    }

    @Test("a lapsed verdict makes a new connection; an impossible one fails")
    func staleVerdict() throws {
        // The certificate ends in two seconds or less: good for the first request and not for a later one.
        let end = Clock.realtime / 1_000_000 + 2
        let short = try TestPKI.shared.server(
            CertificateBuilder.server(hosts: [TestSession.host], validity: 1_577_836_800..<end)
        )
        let origin = try Self.responding(short)
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        let first = try session.get(endpoint)
        #expect(first.error == nil)
        let goodUntil = try #require(first.transaction.connection?.evaluation?.goodUntil)
        #expect(goodUntil >= end && goodUntil <= end + 1)
        try session.run(until: "the certificate's end") { Clock.realtime / 1_000_000 > end }
        let requests = origin.requests.count
        let second = try session.get(endpoint)
        #expect(second.error?.code == .certificateExpired)
        #expect(origin.connections.count == 2, "asked again on a new connection")
        #expect(origin.requests.count == requests)
    }

    @Test("73 a renewed certificate is seen when the old verdict ends")
    func renewedVerdict() throws {
        let end = Clock.realtime / 1_000_000 + 2
        let short = try TestPKI.shared.server(
            CertificateBuilder.server(hosts: [TestSession.host], validity: 1_577_836_800..<end)
        )
        let old = try Self.responding(short)
        let new = try Self.responding(try TestPKI.shared.server(TestSession.host))
        // The first connection leads to the old certificate, all others to the new one.
        let count = Monitor(0)
        let oldPort = old.port
        let newPort = new.port
        let relay = try RecordRelay(
            choosing: {
                count.with {
                    $0 += 1; return $0 == 1 ? oldPort : newPort
                }
            },
            shape: { try $0.passRest() }
        )
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: relay.port)
        let first = try session.get(endpoint)
        #expect(first.error == nil)
        try session.run(until: "the certificate's end") { Clock.realtime / 1_000_000 > end }
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint, .post, bodyLength: .unknown).send(Array("body".utf8).span)
        delegate.onNeedsBodyData = { $0.finishSending() }
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(delegate.text == TestSession.host)
        #expect(!delegate.transaction.isReusedConnection)
        #expect(old.requests.count == 1)
        #expect(new.requests.map(\.text) == ["body"])
    }

    @Test("an address that the dial rule refuses is not dialled")
    func dialRule() throws {
        let origin = try Self.responding(try TestPKI.shared.server(TestSession.host))
        let session = try TestSession()
        let port = origin.port
        let refused = try TestSession.endpoint(port: port) { address in
            address == .loopback(port: port) ? DialRefusal(rule: "loopback") : nil
        }
        let delegate = try session.get(refused)
        #expect(delegate.error?.code == .addressDenied)
        #expect(delegate.error?.details.contains("loopback") == true)
        #expect(origin.connections.isEmpty)
        let allowed = try TestSession.endpoint(port: port) { _ in nil }
        #expect(try session.get(allowed).error == nil)
    }

    @Test("a POST on a dying kept connection is not repeated, a GET is", arguments: [true, false])
    func repeats(isPost: Bool) throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while try connection.readRequest() != nil {
                try connection.respond("\(connection.number)")
                guard connection.number == 0 else { continue }
                // The second request is read, and answered by the connection's end.
                _ = try connection.readRequest()
                return
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        #expect(try session.get(endpoint).text == "0")
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint, isPost ? .post : .get)
        try session.finish(delegate)
        if isPost {
            #expect(delegate.error?.code == .responseTruncated)
            try origin.waitForClosed()
            #expect(origin.requests.filter { $0.method == "POST" }.count == 1)
        } else {
            #expect(delegate.text == "1")
            #expect(delegate.calls == [.connected, .response(200), .data, .completed])
        }
        #expect(try session.get(endpoint).error == nil)
    }

    @Test("tasks over HTTP/2 share a connection at once, with bodies both ways")
    func http2() throws {
        let blob = patternBytes(300 << 10)
        let nginx = try NginxOrigin(try TestPKI.shared.server(TestSession.host), http2: true, files: ["blob": blob])
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: nginx.port, httpVersion: .http2)
        let delegates = (0..<8).map { _ in RecordingDelegate() }
        for (index, delegate) in delegates.enumerated() {
            if index % 2 == 1 {
                let loop = session.loop
                delegate.onData = { task in
                    loop.atEndOfTurn { task.resumeReceiving() }
                    return .pause
                }
            }
            try session.start(delegate, endpoint, target: "/files/blob")
        }
        try session.run(until: "the answers") { delegates.allSatisfy(\.isComplete) }
        for delegate in delegates {
            let isWhole = delegate.body == blob
            #expect(isWhole && delegate.error == nil)
            #expect(delegate.transaction.protocolVersion == 20)
        }
        #expect(Set(delegates.compactMap { $0.transaction.connection?.identifier }).count == 1)

        let upload = RecordingDelegate()
        let task = try session.start(upload, endpoint, .put, target: "/files/new", bodyLength: .bytes(blob.count))
        task.send(blob.span)
        task.finishSending()
        try session.finish(upload)
        #expect(upload.head?.status == 201)
        let isStored = try nginx.file("new") == blob
        #expect(isStored)

        let head = RecordingDelegate()
        try session.start(head, endpoint, .head, target: "/files/blob")
        let empty = RecordingDelegate()
        try session.start(empty, endpoint, target: "/empty")
        let cancelled = RecordingDelegate()
        cancelled.onData = {
            $0.cancel()
            return .proceed
        }
        try session.start(cancelled, endpoint, target: "/files/blob")
        try session.finish(head, empty, cancelled)
        #expect(head.head?.contentLength == blob.count && head.body.isEmpty && head.error == nil)
        #expect(empty.head?.status == 204 && empty.error == nil)
        #expect(cancelled.error?.code == .cancelled)
        #expect(try session.get(endpoint, target: "/plain").text == "plain text from the origin\n")
    }

    @Test("a redirect is an ordinary response: its target is not requested")
    func redirect() throws {
        let server = try TestPKI.shared.server(TestSession.host, "localhost")
        let other = try ScriptedOrigin(server) { request in OriginResponse.text(request.target) }
        let location = "Location: https://localhost:\(other.port)/elsewhere"
        let origin = try ScriptedOrigin(server) { request in
            OriginResponse.text(
                request.target == "/body" ? "moved" : "",
                status: "302 Found",
                fields: [request.target == "/self" ? "Location: /again" : location]
            )
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        for target in ["/body", "/empty", "/self", "/body"] {
            let delegate = try session.get(endpoint, target: target)
            #expect(delegate.error == nil)
            #expect(delegate.head?.status == 302 && delegate.text == (target == "/body" ? "moved" : ""))
        }
        #expect(origin.requests.map(\.target) == ["/body", "/empty", "/self", "/body"])
        #expect(origin.connections.count == 1)
        #expect(other.connections.isEmpty)
    }

    @Test("an origin's Alt-Svc is ignored")
    func alternativeServices() throws {
        let server = try TestPKI.shared.server("localhost")
        let other = try ScriptedOrigin(server) { request in OriginResponse.text("elsewhere") }
        let alternative = "Alt-Svc: h1=\"localhost:\(other.port)\"; ma=3600, h2=\"localhost:\(other.port)\"; ma=3600"
        let origin = try ScriptedOrigin(server) { connection in
            while try connection.readRequest() != nil {
                try connection.respond("here", fields: [alternative, "Connection: close"])
                return
            }
        }
        let session = try TestSession()
        let endpoint = Endpoint(
            scheme: .https,
            host: try Host("localhost"),
            port: origin.port,
            policy: .unpinned,
            anchors: TestPKI.shared.anchors,
            generation: 1
        )
        for _ in 0..<3 { #expect(try session.get(endpoint).text == "here") }
        #expect(origin.requests.count == 3)
        #expect(other.connections.isEmpty)
    }

    @Test("a sent PUT is not repeated when its kept connection ends")
    func repeatsOfBodies() throws {
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            while try connection.readRequest() != nil {
                try connection.respond("\(connection.number)")
                guard connection.number == 0 else { continue }
                _ = try connection.readRequest()
                return
            }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port)
        #expect(try session.get(endpoint).text == "0")
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint, .put, bodyLength: .bytes(4))
        task.send(Array("body".utf8).span)
        task.finishSending()
        try session.finish(delegate)
        #expect(delegate.error?.code == .responseTruncated)
        #expect(origin.requests.filter { $0.method == "PUT" }.count == 1)
    }
}
