// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Glibc
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

extension Bool {
    fileprivate mutating func exchange(with value: Bool) -> Bool {
        defer { self = value }
        return self
    }
}

@Suite("HTTPS and HTTP proxies", .onOwnThreads)
struct ProxyTunnelTests {
    private static let server = try! TestPKI.shared.server(TestSession.host)
    private static let identity = try! TestPKI.shared.server("127.0.0.1")

    private static func endpoint(
        proxy port: UInt16,
        scheme: Endpoint.Scheme = .https,
        httpVersion: Endpoint.HTTPVersion = .http1,
        policy: SecurityPolicy = .unpinned,
        proxyPolicy: SecurityPolicy = .unpinned,
        generation: UInt64 = 1,
        timeouts: TaskTimeouts = TaskTimeouts(),
        credentials: (user: String, password: String)? = nil,
        kind: SessionProxy.Kind = .https
    ) throws -> Endpoint {
        Endpoint(
            scheme: scheme,
            host: try Host(TestSession.host),
            port: scheme == .https ? 443 : 80,
            httpVersion: httpVersion,
            policy: policy,
            anchors: TestPKI.shared.anchors,
            generation: generation,
            timeouts: timeouts,
            proxy: SessionProxy(kind, host: try Host("127.0.0.1"), port: port, credentials: credentials),
            proxyPolicy: proxyPolicy
        )
    }

    private static func responding(_ scheme: Endpoint.Scheme = .https) throws -> ScriptedOrigin {
        try ScriptedOrigin(scheme == .https ? server : nil) { request in
            OriginResponse.text("\(request.target) \(request.body.count)")
        }
    }

    private static func failure(
        _ proxy: HTTPSProxy,
        scheme: Endpoint.Scheme = .https,
        timeouts: TaskTimeouts = TaskTimeouts(),
        kind: SessionProxy.Kind = .https
    ) throws -> SessionError? {
        let session = try TestSession()
        return try session.get(try endpoint(proxy: proxy.port, scheme: scheme, timeouts: timeouts, kind: kind)).error
    }

    // MARK: What goes through

    @Test("requests go through, with and without TLS to the origin", arguments: [Endpoint.Scheme.https, .http])
    func through(scheme: Endpoint.Scheme) throws {
        let origin = try Self.responding(scheme)
        let proxy = try HTTPSProxy(Self.identity, to: origin.port)
        let session = try TestSession()
        let endpoint = try Self.endpoint(
            proxy: proxy.port,
            scheme: scheme,
            policy: scheme == .https ? .pinning(Self.server.pin) : .unpinned,
            proxyPolicy: .pinning(Self.identity.pin),
            credentials: ("user", "pass:word")
        )
        let first = try session.get(endpoint, target: "/1")
        #expect(first.error == nil && first.text == "/1 0")
        let second = try session.get(endpoint, target: "/2")
        #expect(second.text == "/2 0" && second.transaction.isReusedConnection)
        let port = scheme == .https ? 443 : 80
        #expect(
            proxy.asked.with { $0 } == [
                "CONNECT \(TestSession.host):\(port) HTTP/1.1\r\nHost: \(TestSession.host):\(port)\r\n"
                    + "Proxy-Authorization: Basic dXNlcjpwYXNzOndvcmQ=\r\n\r\n"
            ]
        )
        #expect(origin.requests.allSatisfy { $0["Proxy-Authorization"] == nil && $0["Host"] == TestSession.host })
        let info = try #require(first.transaction.connection)
        #expect(info.remoteAddressText == "127.0.0.1:\(proxy.port)")
        #expect(info.evaluation?.verdict == (scheme == .https ? .pass : nil))
        #expect(info.proxy?.evaluation?.verdict == .pass && info.proxy?.tlsVersion?.description == "TLSv1.3")
        #expect(info.proxy?.authority.description == "127.0.0.1:\(proxy.port)")
        let transaction = first.transaction
        var times = [
            transaction.connectStart, transaction.proxySecureConnectionStart, transaction.proxySecureConnectionEnd,
        ]
        if scheme == .https { times += [transaction.secureConnectionStart, transaction.secureConnectionEnd] }
        times += [transaction.connectEnd, transaction.requestStart]
        #expect(times == times.sorted() && times.allSatisfy { $0 >= 0 }, "\(times)")
        #expect(second.transaction.proxySecureConnectionStart == TransactionMetrics.absent)
    }

    @Test(
        "bodies of both directions arrive whole, however the proxy cuts its records",
        arguments: [1, 1000, 16 << 10],
        [TLSVersion.tls12, .tls13]
    )
    func bodies(recordSize: Int, version: TLSVersion) throws {
        let count = recordSize == 1 ? 20_000 : 3 << 20
        let body = patternBytes(count)
        for scheme in [Endpoint.Scheme.https, .http] {
            let origin = try ScriptedOrigin(scheme == .https ? Self.server : nil) { connection in
                while let request = try connection.readRequest() {
                    try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(request.body.count)\r\n\r\n")
                    try connection.write(request.body)
                }
            }
            let proxy = try HTTPSProxy(Self.identity, to: origin.port, maximum: version, recordSize: recordSize)
            let session = try TestSession()
            let endpoint = try Self.endpoint(proxy: proxy.port, scheme: scheme)
            for _ in 0..<2 {
                let delegate = RecordingDelegate()
                // The response is paused now and then, so that bytes stay in OpenSSL's hands.
                delegate.onData = { [unowned delegate] _ in delegate.dataCalls % 3 == 0 ? .pause : .proceed }
                let task = try session.start(delegate, endpoint, .post, bodyLength: .bytes(count))
                task.send(body.span)
                task.finishSending()
                try session.run(until: "the body's end") {
                    task.resumeReceiving()
                    return delegate.isComplete
                }
                #expect(delegate.error == nil && delegate.body == body)
            }
            #expect(proxy.targets.count == 1)
        }
    }

    @Test("HTTP/2 goes through, many requests on one tunnel", arguments: [1, 16 << 10])
    func http2(recordSize: Int) throws {
        let blob = patternBytes(recordSize == 1 ? 10_000 : 1 << 20)
        let nginx = try NginxOrigin(Self.server, http2: true, files: ["blob": blob])
        let proxy = try HTTPSProxy(Self.identity, to: nginx.port, recordSize: recordSize)
        let session = try TestSession()
        let endpoint = try Self.endpoint(proxy: proxy.port, httpVersion: .http2)
        let delegates = (0..<20).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, endpoint, target: "/files/blob") }
        try session.run(until: "the responses") { delegates.allSatisfy(\.isComplete) }
        #expect(delegates.allSatisfy { $0.error == nil && $0.body == blob && $0.transaction.protocolVersion == 20 })
        #expect(proxy.targets == ["CONNECT \(TestSession.host):443 HTTP/1.1"])
    }

    @Test(
        "a stream passes a proxy, and early bytes of a plain server stay",
        arguments: [Endpoint.Scheme.https, .http]
    )
    func stream(scheme: Endpoint.Scheme) throws {
        let origin = try ScriptedOrigin(scheme == .https ? Self.server : nil) { connection in
            while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
        }
        let greeting = scheme == .http ? "220 ready\r\n" : ""
        let proxy = try HTTPSProxy(Self.identity, to: origin.port) { _ in HTTPSProxy.opened + greeting }
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { stream in
            stream.send("to and fro")
            stream.closeWrite()
        }
        session.open(delegate, try Self.endpoint(proxy: proxy.port, scheme: scheme))
        try session.finish(delegate)
        #expect(delegate.error == nil && delegate.text == "\(greeting)to and fro")
    }

    // MARK: The proxy's verdict

    @Test("a proxy with another key gets no byte, neither CONNECT nor credentials", arguments: [true, false])
    func wrongKey(isRight: Bool) throws {
        let origin = try Self.responding()
        let proxy = try HTTPSProxy(Self.identity, to: origin.port)
        let session = try TestSession()
        var told: [String] = []
        session.manager.sessionDidEvaluateServerTrust = { trust, endpoint in
            told.append("\(trust.host):\(endpoint.port) \(trust.evaluation.verdict)")
        }
        let endpoint = try Self.endpoint(
            proxy: proxy.port,
            proxyPolicy: .pinning(isRight ? Self.identity.pin : .unrelated(7)),
            credentials: ("user", "secret")
        )
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint)
        try session.finish(delegate)
        if isRight {
            #expect(delegate.error == nil)
            #expect(told == ["127.0.0.1:\(proxy.port) pass", "\(TestSession.host):443 notPinned"])
            return
        }
        let error = try #require(delegate.error)
        #expect(error.code == .proxyUntrusted && error.details.contains("127.0.0.1:\(proxy.port)"))
        #expect(error.details.contains("pin_mismatch") && !error.details.contains("secret"))
        #expect(error.evaluation?.host == endpoint.proxyEndpoint?.host && error.originFailure == .other)
        // The verdict is not one on the origin.
        #expect(task.evaluation == nil && delegate.transaction.connection?.evaluation == nil)
        #expect(delegate.transaction.connection?.proxy?.evaluation?.verdict == .fail)
        #expect(delegate.transaction.proxySecureConnectionEnd >= 0)
        #expect(told == ["127.0.0.1:\(proxy.port) fail"])
        #expect(try proxy.waitForClosed().map(\.applicationBytes) == [0])
        #expect(proxy.targets.isEmpty && origin.connections.isEmpty)
    }

    @Test("a proxy of another host's certificate or a foreign authority gets no byte")
    func foreign() throws {
        let origin = try Self.responding()
        for identity in [try TestPKI.shared.server("proxy.example.com"), try TestPKI().server("127.0.0.1")] {
            let proxy = try HTTPSProxy(identity, to: origin.port)
            #expect(try Self.failure(proxy)?.code == .proxyUntrusted)
            #expect(try proxy.waitForClosed().map(\.applicationBytes) == [0])
        }
    }

    @Test("a proxy without TLS, or one that cuts the handshake, has its own error")
    func handshake() throws {
        let plain = try ScriptedOrigin(nil) { connection in
            try connection.write("HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.readToEnd()
        }
        let session = try TestSession()
        let error = try session.get(try Self.endpoint(proxy: plain.port)).error
        #expect(error?.code == .proxyHandshakeFailed && error?.details.contains("does not speak TLS") == true)
        let cutting = try ScriptedOrigin(nil) { connection in
            _ = connection.read()
            connection.close(.reset)
        }
        let cut = try session.get(try Self.endpoint(proxy: cutting.port)).error
        #expect(cut?.code == .proxyHandshakeFailed && cut?.originFailure == .unreachable)
    }

    @Test("the proxy's verdict is checked again for each request")
    func age() throws {
        let origin = try Self.responding()
        let proxy = try HTTPSProxy(Self.identity, to: origin.port)
        let session = try TestSession()
        let right = try SecurityPolicy.pinning(Self.identity.pin)
        let same = try SecurityPolicy.pinning(Self.identity.pin)
        func get(_ policy: SecurityPolicy, _ version: Endpoint.HTTPVersion, generation: UInt64 = 1) throws
            -> RecordingDelegate
        {
            try session.get(
                Self.endpoint(
                    proxy: proxy.port,
                    httpVersion: version,
                    policy: .unpinned,
                    proxyPolicy: policy,
                    generation: generation
                )
            )
        }
        #expect(try get(right, .http1).error == nil)
        #expect(try get(right, .http1).transaction.isReusedConnection)
        #expect(try !get(same, .http1).transaction.isReusedConnection)
        #expect(try !get(same, .http1, generation: 2).transaction.isReusedConnection)
        #expect(try get(.pinning(.unrelated(7)), .http1).error?.code == .proxyUntrusted)
        #expect(origin.connections.count == 3)
    }

    @Test("after the last day of the proxy's pin set no connection is used")
    func expiry() throws {
        let origin = try Self.responding()
        let proxy = try HTTPSProxy(Self.identity, to: origin.port)
        var pins = SecurityPolicy.Configuration()
        pins.pinningMode = .publicKey
        pins.pins = [Pin(Self.identity.pin), Pin(.unrelated(1))]
        pins.expiration = CalendarDate("2097-12-31")
        for scheme in [Endpoint.Scheme.https, .http] {
            let endpoint = try Self.endpoint(proxy: proxy.port, scheme: scheme, proxyPolicy: SecurityPolicy(pins))
            // OpenSSL's handshake has the system's clock, and accepts the proxy; the loop's clock is moved by hand.
            let session = try TestSession(clock: .byHand)
            session.loop.setWallClock(4_000_000_000_000_000)
            if scheme == .https { #expect(try session.get(endpoint).text == "/ 0") }
            let before = proxy.connections.map(\.applicationBytes)
            session.loop.setWallClock(4_045_000_000_000_000)
            let error = try session.get(endpoint).error
            #expect(error?.code == .proxyUntrusted, "\(String(describing: error))")
            try session.run(until: "the end of the connections") { proxy.connections.allSatisfy(\.isClosed) }
            #expect(proxy.connections.map(\.applicationBytes).dropFirst(before.count).allSatisfy { $0 == 0 })
            #expect(proxy.connections.count == before.count + 1)
        }
        #expect(origin.requests.count == 1)
    }

    @Test(
        "a request stays back when the proxy's verdict lapses while its tunnel opens",
        arguments: [Endpoint.Scheme.https, .http]
    )
    func lapse(scheme: Endpoint.Scheme) throws {
        let origin = try Self.responding()
        let isReleased = Monitor(false)
        let proxy = try HTTPSProxy(Self.identity, to: origin.port) { _ in
            _ = try? isReleased.wait(for: "the clock to be moved") { $0 ? true : nil }
            return HTTPSProxy.opened
        }
        var pins = SecurityPolicy.Configuration()
        pins.pinningMode = .publicKey
        pins.pins = [Pin(Self.identity.pin), Pin(.unrelated(1))]
        pins.expiration = CalendarDate("2097-12-31")
        let endpoint = try Self.endpoint(proxy: proxy.port, scheme: scheme, proxyPolicy: SecurityPolicy(pins))
        let session = try TestSession(clock: .byHand)
        session.loop.setWallClock(4_000_000_000_000_000)
        let delegate = RecordingDelegate()
        try session.start(delegate, endpoint)
        try session.run(until: "the CONNECT") { !proxy.targets.isEmpty }
        session.loop.setWallClock(4_045_000_000_000_000)
        isReleased.with { $0 = true }
        try session.finish(delegate)
        #expect(delegate.error?.code == .proxyUntrusted, "\(String(describing: delegate.error))")
        #expect(origin.requests.isEmpty)
    }

    @Test("an HTTP/2 connection takes no request when the proxy's verdict has lapsed")
    func sharedAge() throws {
        let nginx = try NginxOrigin(Self.server, http2: true)
        let proxy = try HTTPSProxy(Self.identity, to: nginx.port)
        let session = try TestSession()
        func get(_ policy: SecurityPolicy) throws -> RecordingDelegate {
            try session.get(
                Self.endpoint(proxy: proxy.port, httpVersion: .http2, proxyPolicy: policy),
                target: "/plain"
            )
        }
        let right = try SecurityPolicy.pinning(Self.identity.pin)
        #expect(try get(right).error == nil)
        #expect(try get(right).transaction.isReusedConnection)
        #expect(try !get(.pinning(Self.identity.pin)).transaction.isReusedConnection)
        #expect(try get(.pinning(.unrelated(7))).error?.code == .proxyUntrusted)
    }

    @Test("stored responses belong to the proxy's policy")
    func digest() throws {
        let anchors = TestPKI.shared.anchors
        func digest(_ scheme: Endpoint.Scheme, _ policy: SecurityPolicy?) throws -> [UInt8]? {
            let endpoint = Endpoint(
                scheme: scheme,
                host: try Host(TestSession.host),
                port: 1,
                policy: .unpinned,
                anchors: anchors,
                proxy: SessionProxy(policy == nil ? .http : .https, host: try Host("127.0.0.1"), port: 1),
                proxyPolicy: policy ?? .unpinned
            )
            return endpoint.cacheDigest(at: 1_800_000_000)?.bytes
        }
        var expired = SecurityPolicy.Configuration()
        expired.pinningMode = .publicKey
        expired.pins = [Pin(.unrelated(1)), Pin(.unrelated(2))]
        expired.expiration = CalendarDate("2026-01-31")
        for scheme in [Endpoint.Scheme.https, .http] {
            let digests = [
                try digest(scheme, nil), try digest(scheme, .unpinned), try digest(scheme, .pinning(.unrelated(3))),
                try digest(scheme, .pinning(.unrelated(4))),
            ]
            #expect(!digests.contains(nil) && Set(digests).count == digests.count)
            #expect(try digest(scheme, .unpinned) == digest(scheme, .unpinned))
            #expect(try digest(scheme, SecurityPolicy(expired)) == nil)
        }
    }

    // MARK: CONNECT

    @Test(
        "a response to CONNECT that is cut at any byte opens no tunnel",
        arguments: [true, false],
        [SessionProxy.Kind.https, .http]
    )
    func cut(isClean: Bool, kind: SessionProxy.Kind) throws {
        let whole = Array(HTTPSProxy.opened.utf8)
        let session = try TestSession()
        for count in 0..<whole.count {
            let proxy = try HTTPSProxy(kind == .https ? Self.identity : nil) { connection in
                try connection.write(Array(whole[..<count]))
                connection.close(isClean ? .clean : .cut)
            }
            for scheme in [Endpoint.Scheme.https, .http] {
                let error = try session.get(try Self.endpoint(proxy: proxy.port, scheme: scheme, kind: kind)).error
                #expect(error?.code == .proxyRefused, "\(count): \(String(describing: error))")
            }
            #expect(proxy.targets.count == 2)
        }
    }

    @Test("a response to CONNECT in single bytes, behind informational ones, opens a tunnel", arguments: [true, false])
    func pieces(isTLS: Bool) throws {
        let origin = try Self.responding()
        let response = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\(HTTPSProxy.opened)"
        let proxy = try HTTPSProxy(isTLS ? Self.identity : nil) { connection in
            for byte in response.utf8 { try connection.write([byte]) }
            let socket = try TestSocket.connect(port: origin.port)
            defer { close(socket) }
            connection.relay(with: socket)
        }
        let session = try TestSession()
        let endpoint = try Self.endpoint(proxy: proxy.port, kind: isTLS ? .https : .http)
        #expect(try session.get(endpoint).text == "/ 0")
        #expect(try session.get(endpoint).transaction.isReusedConnection)
    }

    @Test(
        "a refused tunnel has its own error",
        arguments: [
            ("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno", "credentials"),
            ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "403"),
            ("HTTP/1.1 301 Moved\r\nLocation: https://elsewhere.example/\r\nContent-Length: 0\r\n\r\n", "301"),
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "invalid"),
            ("HTTP/2 200 OK\r\n\r\n", "invalid"), ("SSH-2.0-x\r\n", "invalid"),
            ("HTTP/1.1 200 OK\r\nX: y\n\r\n", "invalid"),
            ("HTTP/1.1 200 OK\r\nX: \(String(repeating: "y", count: 300_000))\r\n\r\n", "invalid"),
            (String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100), "informational"),
        ]
    )
    func refusal(response: String, words: String) throws {
        for kind in [SessionProxy.Kind.https, .http] {
            let proxy = try HTTPSProxy(kind == .https ? Self.identity : nil) { connection in
                try connection.write(response)
                connection.readToEnd()
            }
            for scheme in [Endpoint.Scheme.https, .http] {
                let error = try #require(try Self.failure(proxy, scheme: scheme, kind: kind))
                #expect(error.code == .proxyRefused && error.details.contains(words), "\(error)")
                #expect(
                    error.details.contains("responds with 407") == error.details.contains("credentials"),
                    "\(error)"
                )
            }
        }
    }

    @Test(
        "bytes behind a proxy's response are not the origin's response",
        arguments: [SessionProxy.Kind.https, .http]
    )
    func poison(kind: SessionProxy.Kind) throws {
        let origin = try Self.responding(.http)
        let isPoisoned = Monitor(true)
        let proxy = try HTTPSProxy(kind == .https ? Self.identity : nil, to: origin.port) { _ in
            HTTPSProxy.opened + (isPoisoned.with { $0 } ? OriginResponse.text("poison") : "")
        }
        let session = try TestSession()
        let endpoint = try Self.endpoint(proxy: proxy.port, scheme: .http, kind: kind)
        let refused = try session.get(endpoint)
        #expect(refused.error?.code == .proxyRefused && refused.text.isEmpty, "\(refused.text)")
        #expect(proxy.targets.count == 1 && origin.requests.isEmpty)
        isPoisoned.with { $0 = false }
        #expect(try session.get(endpoint).text == "/ 0")
    }

    @Test(
        "bytes behind the response, before TLS with the origin, fail the tunnel",
        arguments: [true, false],
        [SessionProxy.Kind.https, .http]
    )
    func early(isOneRecord: Bool, kind: SessionProxy.Kind) throws {
        let origin = try Self.responding()
        let proxy = try HTTPSProxy(kind == .https ? Self.identity : nil) { connection in
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
            if isOneRecord {
                try connection.write(head + "hello")
            } else {
                try connection.writeTogether(head, "hello")
            }
            connection.readToEnd()
        }
        let error = try #require(try Self.failure(proxy, kind: kind))
        #expect(error.code == .proxyRefused && error.details.contains("behind its response"), "\(error)")
        #expect(origin.connections.isEmpty)
    }

    @Test(
        "the framing of a 200 to CONNECT means nothing",
        arguments: ["Content-Length: 5", "Transfer-Encoding: chunked"]
    )
    func framing(field: String) throws {
        let origin = try Self.responding()
        let proxy = try HTTPSProxy(Self.identity, to: origin.port) { _ in "HTTP/1.1 200 OK\r\n\(field)\r\n\r\n" }
        let session = try TestSession()
        #expect(try session.get(try Self.endpoint(proxy: proxy.port)).text == "/ 0")
    }

    @Test("one deadline covers everything up to the origin's handshake", arguments: 0..<4)
    func deadline(stage: Int) throws {
        let gate = Gate()
        defer { gate.open() }
        let silent: ScriptedOrigin.Script = { connection in
            if stage == 2 { try connection.write(String(HTTPSProxy.opened.dropLast(2))) }
            if stage == 3 { try connection.write(HTTPSProxy.opened) }
            try gate.pass()
        }
        let port: UInt16
        let plain = try ScriptedOrigin(nil, script: silent)
        let proxy = try HTTPSProxy(Self.identity, script: silent)
        port = stage == 0 ? plain.port : proxy.port
        let session = try TestSession()
        let timeouts = TaskTimeouts(connect: .milliseconds(300))
        for version in [Endpoint.HTTPVersion.http1, .http2] {
            let delegate = try session.get(try Self.endpoint(proxy: port, httpVersion: version, timeouts: timeouts))
            let error = delegate.error
            #expect(error?.code == .connectTimeout, "\(String(describing: error))")
            #expect(error?.details.contains("opened no tunnel") == (stage < 3), "\(String(describing: error))")
            let transaction = delegate.transaction
            #expect(transaction.proxySecureConnectionStart >= 0)
            #expect((transaction.proxySecureConnectionEnd >= 0) == (stage > 0))
            #expect((transaction.secureConnectionStart >= 0) == (stage == 3))
        }
    }

    @Test("a task that is cancelled at any stage leaves nothing behind", arguments: 0..<4)
    func cancelled(stage: Int) throws {
        let gate = Gate()
        defer { gate.open() }
        let proxy = try HTTPSProxy(Self.identity) { connection in
            if stage == 2 { try connection.write(String(HTTPSProxy.opened.dropLast(2))) }
            if stage == 3 { try connection.write(HTTPSProxy.opened) }
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        let resting = session.loop.registeredCount
        let task = try session.start(delegate, try Self.endpoint(proxy: proxy.port))
        if stage > 0 { try session.run(until: "CONNECT") { proxy.targets.count == 1 } }
        session.settle()
        task.cancel()
        try session.finish(delegate)
        #expect(delegate.error?.code == .cancelled)
        if stage > 0 { _ = try proxy.waitForClosed() }
        session.settle()
        #expect(session.loop.registeredCount == resting)
    }

    // MARK: The end of connections

    @Test("a kept connection stays usable after TLS records of the proxy alone")
    func idleRecords() throws {
        for kind in ["ticket", "key update", "origin's bytes", "proxy's end"] {
            let first = Gate()
            let sent = Gate()
            let isAwaited = Monitor(false)
            let seen = Monitor<[UInt8]>([])
            // The number of bytes before the excess, which has gone out when the relay begins its next round.
            let known = Monitor(Int.max)
            let origin = try ScriptedOrigin(Self.server) { connection in
                var count = 0
                while let request = try connection.readRequest() {
                    try connection.respond(request.target)
                    count += 1
                    guard kind == "origin's bytes", connection.number == 0, count == 1 else { continue }
                    try first.pass()
                    try connection.write("excess")
                }
            }
            let proxy = try HTTPSProxy(Self.identity) { connection in
                try connection.write(HTTPSProxy.opened)
                let socket = try TestSocket.connect(port: origin.port)
                defer { close(socket) }
                connection.relay(with: socket, seen: seen) { tls in
                    if seen.with({ $0.count }) > known.with({ $0 }) { sent.open() }
                    guard isAwaited.with({ $0.exchange(with: false) }) else { return }
                    switch kind {
                    case "ticket": SSL_new_session_ticket(tls)
                    case "key update": SSL_key_update(tls, SSL_KEY_UPDATE_REQUESTED)
                    default: SSL_shutdown(tls)
                    }
                    if kind != "proxy's end" { SSL_do_handshake(tls) }
                    sent.open()
                }
            }
            let session = try TestSession()
            let endpoint = try Self.endpoint(proxy: proxy.port)
            #expect(try session.get(endpoint, target: "/1").text == "/1")
            if kind == "origin's bytes" {
                let count = seen.with { $0.count }
                known.with { $0 = count }
            } else {
                isAwaited.with { $0 = true }
            }
            first.open()
            try sent.pass()
            let isReused = ["ticket", "key update"].contains(kind)
            let second = try session.get(endpoint, target: "/2")
            #expect(second.text == "/2" && second.transaction.isReusedConnection == isReused, "\(kind)")
            let third = try session.get(endpoint, target: "/3")
            #expect(third.text == "/3" && third.transaction.isReusedConnection, "\(kind)")
            #expect(proxy.targets.count == (isReused ? 1 : 2), "\(kind)")
        }
    }

    @Test("a body up to the connection's end is whole only with the origin's close_notify")
    func ends() throws {
        for isClean in [true, false] {
            let origin = try ScriptedOrigin(Self.server) { connection in
                _ = try connection.readRequest()
                try connection.write("HTTP/1.1 200 OK\r\n\r\nall of it")
                connection.close(isClean ? .clean : .cut)
            }
            let proxy = try HTTPSProxy(Self.identity, to: origin.port)
            let session = try TestSession()
            let delegate = try session.get(try Self.endpoint(proxy: proxy.port))
            #expect(delegate.text == "all of it")
            #expect(delegate.error?.code == (isClean ? nil : .responseTruncated))
        }
    }

    @Test("a cancelled upload is incomplete for the proxy; a closed connection ends both layers")
    func closing() throws {
        let notified = Monitor<[Bool]>([])
        for scheme in [Endpoint.Scheme.https, .http] {
            let origin = try Self.responding(scheme)
            let proxy = try HTTPSProxy(Self.identity) { connection in
                try connection.write(HTTPSProxy.opened)
                let socket = try TestSocket.connect(port: origin.port)
                defer { close(socket) }
                connection.relay(with: socket)
                notified.with { $0.append(connection.receivedCloseNotify) }
            }
            for (number, isWhole) in [true, false].enumerated() {
                notified.with { $0 = [] }
                let delegate = RecordingDelegate()
                do {
                    let session = try TestSession()
                    let endpoint = try Self.endpoint(proxy: proxy.port, scheme: scheme)
                    let task = try session.start(delegate, endpoint, .post, bodyLength: .bytes(10))
                    let half = Array("12345".utf8)
                    task.send(half.span)
                    if isWhole {
                        task.send(half.span)
                        task.finishSending()
                    }
                    try session.run(until: "the request") {
                        origin.connections.count > number && origin.connections[number].applicationBytes > 0
                    }
                    if isWhole { try session.finish(delegate) } else { task.cancel() }
                }
                let ended = try notified.wait(for: "the end") { $0.isEmpty ? nil : $0 }
                #expect(ended == [isWhole], "\(scheme) \(isWhole)")
            }
        }
    }
}
