// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Names with several addresses, some of which are dead", .onOwnThreads)
struct SeveralAddressesTests {
    /// The name `api.example.com` at 127.0.0.1, 127.0.0.2 and so on, with a listening socket at each of them.
    private final class Place {
        let listeners: [Int32]
        let port: UInt16
        let session: TestSession
        private let names: NameServer
        private let dialled = Monitor<[UInt32]>([])
        /// What is closed at the end.
        private var held: [Int32] = []
        private var mute: MuteServer?

        init(_ count: Int = 2, clock: LoopClock = .system) throws {
            (listeners, port) = try TestSocket.listenOnSeveral(count)
            let addresses = (0..<UInt32(count)).map { 0x7F00_0001 + $0 }
            names = try NameServer { _, _ in .addresses(addresses, lifetime: 300) }
            var configuration = SessionConfiguration()
            configuration.nameServers = names.text
            session = try TestSession(configuration, clock: clock)
        }

        deinit { for descriptor in held { close(descriptor) } }

        /// The last octets of the addresses that were dialled, in order.
        func takeDialled() -> [UInt32] {
            dialled.with { list in
                defer { list = [] }
                return list.map { $0 & 0xFF }
            }
        }

        var dialledCount: Int { dialled.with { $0.count } }

        func dropSYNs(at number: Int) throws {
            held += [try TestSocket.dropSYNs(at: listeners[number - 1]), listeners[number - 1]]
        }

        func refuse(at number: Int) { close(listeners[number - 1]) }

        func accept(at number: Int, resets: Bool) -> MuteServer {
            let server = MuteServer(listeners[number - 1], resets: resets)
            mute = server
            return server
        }

        func reset(at number: Int) { _ = accept(at: number, resets: true) }

        func origin(_ server: TestServer?, at number: Int, protocols: [String] = []) throws -> ScriptedOrigin {
            try ScriptedOrigin(server, protocols: protocols, on: (listeners[number - 1], port)) { connection in
                while let request = try connection.readRequest() {
                    try connection.write(
                        "HTTP/1.1 200 OK\r\nContent-Length: \(request.target.utf8.count)\r\nConnection: close\r\n\r\n\(request.target)"
                    )
                    return
                }
            }
        }

        func endpoint(
            _ scheme: Endpoint.Scheme,
            policy: SecurityPolicy = .unpinned,
            httpVersion: Endpoint.HTTPVersion = .http1,
            denying denied: UInt32? = nil,
            timeouts: TaskTimeouts = TaskTimeouts(),
            proxy: SessionProxy.Kind? = nil,
            connectionLimit: Int? = nil
        ) throws -> Endpoint {
            let name = try Host(TestSession.host)
            return Endpoint(
                scheme: scheme,
                host: proxy == nil ? name : try Host("origin.example.com"),
                port: proxy == nil ? port : 80,
                httpVersion: httpVersion,
                policy: policy,
                anchors: TestPKI.shared.anchors,
                generation: 1,
                timeouts: timeouts,
                dialRule: { [dialled] address in
                    dialled.with { $0.append(address.ipv4) }
                    return address.ipv4 & 0xFF == denied ? DialRefusal(rule: "test") : nil
                },
                proxy: proxy.map { SessionProxy($0, host: name, port: port) },
                connectionLimit: connectionLimit
            )
        }
    }

    /// A server that takes connections, and never says anything.
    private final class MuteServer: Sendable {
        private let listener: Int32
        private let heard = Monitor<Int>(0)

        /// The number of connections on which something has come.
        var heardCount: Int { heard.with { $0 } }

        /// - Parameter resets: resets each connection when something has come.
        init(_ listener: Int32, resets: Bool) {
            self.listener = listener
            Thread.detachNewThread { [heard] in
                var held: [Int32] = []
                while true {
                    let descriptor = accept(listener, nil, nil)
                    guard descriptor >= 0 else { break }
                    var byte: UInt8 = 0
                    TestSocket.setTimeouts(descriptor)
                    recv(descriptor, &byte, 1, 0)
                    if resets { TestSocket.reset(descriptor) } else { held.append(descriptor) }
                    heard.with { $0 += 1 }
                }
                for descriptor in held { close(descriptor) }
                close(listener)
            }
        }

        deinit { shutdown(listener, Int32(SHUT_RDWR)) }
    }

    private static let server = try! TestPKI.shared.server(TestSession.host)

    // MARK: A dead address

    @Test("an address that drops SYNs is overtaken by the second one")
    func dropsSYNs() throws {
        let place = try Place()
        try place.dropSYNs(at: 1)
        let origin = try place.origin(Self.server, at: 2)
        // One place for both dials.
        let endpoint = try place.endpoint(.https, policy: .pinning(Self.server.pin), connectionLimit: 1)
        let before = Clock.monotonic
        let first = try place.session.get(endpoint, target: "/1")
        #expect(first.text == "/1", "\(String(describing: first.error))")
        #expect(Clock.monotonic - before < endpoint.timeouts.spans.connect.nanoseconds)
        #expect(place.takeDialled() == [1, 2])
        #expect(first.transaction.connection?.remoteAddressText == "127.0.0.2:\(place.port)")
        #expect(try place.session.get(endpoint, target: "/2").text == "/2")
        #expect(place.takeDialled() == [2])
        #expect(origin.connections.count == 2)
    }

    @Test("a dead address is overtaken over HTTP/2")
    func http2() throws {
        let place = try Place()
        try place.dropSYNs(at: 1)
        let origin = try ScriptedOrigin(Self.server, protocols: ["h2"], on: (place.listeners[1], place.port)) {
            let script = try HTTP2Script($0)
            while let request = try script.nextRequest() {
                try script.head(200, stream: request.stream)
                try script.body("two", stream: request.stream)
            }
        }
        #expect(try place.session.get(place.endpoint(.https, httpVersion: .http2)).text == "two")
        #expect(origin.connections.count == 1)
    }

    @Test("a dead address is overtaken for a stream, as of a tunnel")
    func stream() throws {
        let place = try Place()
        try place.dropSYNs(at: 1)
        let origin = try ScriptedOrigin(nil, on: (place.listeners[1], place.port)) { connection in
            try connection.write("hello")
        }
        let stream = RecordingStream()
        place.session.open(stream, try place.endpoint(.http))
        try place.session.run(until: "the stream's bytes") { stream.text == "hello" }
        #expect(origin.connections.count == 1)
    }

    @Test("a dead address of a proxy is overtaken", arguments: [SessionProxy.Kind.http, .socks5])
    func proxy(kind: SessionProxy.Kind) throws {
        let place = try Place()
        try place.dropSYNs(at: 1)
        let origin = try ScriptedOrigin(nil) { connection in
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
        let proxy = try TunnelProxy(to: origin.port, isSOCKS: kind == .socks5, on: (place.listeners[1], place.port))
        let stream = RecordingStream()
        stream.onConnect = { $0.send("GET /way HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") }
        place.session.open(stream, try place.endpoint(.http, proxy: kind))
        try place.session.run(until: "the stream's bytes") { stream.text.hasSuffix("/way") || stream.isComplete }
        #expect(stream.text.hasSuffix("/way"), "\(String(describing: stream.error))")
        #expect(proxy.asked.with { $0.count } == 1)
        #expect(place.takeDialled() == [1, 2])
    }

    // MARK: Without waiting: the clock of these sessions is moved by hand.

    @Test("after an address that refuses, the next one is dialled at once")
    func refuses() throws {
        let place = try Place(clock: .byHand)
        place.refuse(at: 1)
        let origin = try place.origin(nil, at: 2)
        let endpoint = try place.endpoint(.http)
        #expect(try place.session.get(endpoint, target: "/1").text == "/1")
        #expect(place.takeDialled() == [1, 2])
        #expect(try place.session.get(endpoint, target: "/2").text == "/2")
        #expect(place.takeDialled() == [2])
        // For a minute.
        place.session.loop.advance(by: FailedAddresses.lifetime)
        #expect(try place.session.get(endpoint, target: "/3").text == "/3")
        #expect(place.takeDialled() == [1, 2])
        #expect(origin.connections.count == 3)
    }

    @Test("each address is checked by the rules, and a refused one skipped")
    func denied() throws {
        let place = try Place(clock: .byHand)
        let denied = try place.origin(nil, at: 1)
        let origin = try place.origin(nil, at: 2)
        let endpoint = try place.endpoint(.http, denying: 1)
        for _ in 0..<2 {
            #expect(try place.session.get(endpoint).text == "/")
            #expect(place.takeDialled() == [1, 2])
        }
        #expect(denied.connections.isEmpty && origin.connections.count == 2)
        let other = try place.endpoint(.http, denying: 2)
        #expect(try place.session.get(other).text == "/")
        #expect(place.takeDialled() == [1])
    }

    @Test("when all refuse, each refusal is reported")
    func allRefuse() throws {
        let place = try Place(3, clock: .byHand)
        for number in 1...3 { place.refuse(at: number) }
        let error = try place.session.get(place.endpoint(.http)).error
        #expect(error?.code == .connectFailed)
        for number in 1...3 { #expect(error?.details.contains("127.0.0.\(number)") == true, "\(error?.details ?? "")") }
        #expect(place.takeDialled() == [1, 2, 3])
    }

    @Test("an address that accepts and resets is skipped, and last for a minute")
    func resets() throws {
        let place = try Place(clock: .byHand)
        place.reset(at: 1)
        let origin = try place.origin(Self.server, at: 2)
        let endpoint = try place.endpoint(.https, policy: .pinning(Self.server.pin))
        let first = try place.session.get(endpoint, target: "/1")
        #expect(first.text == "/1", "\(String(describing: first.error))")
        #expect(place.takeDialled() == [1, 2])
        #expect(try place.session.get(endpoint, target: "/2").text == "/2")
        #expect(place.takeDialled() == [2])
        place.session.loop.advance(by: FailedAddresses.lifetime)
        #expect(try place.session.get(endpoint, target: "/3").text == "/3")
        #expect(place.takeDialled() == [1, 2])
        #expect(origin.connections.count == 3)
    }

    @Test("when the last address resets, too, the error is that of its handshake")
    func lastResets() throws {
        let place = try Place(1, clock: .byHand)
        place.reset(at: 1)
        let alone = try place.session.get(place.endpoint(.https)).error
        let both = try Place(2, clock: .byHand)
        both.refuse(at: 1)
        both.reset(at: 2)
        let error = try both.session.get(both.endpoint(.https)).error
        #expect(alone?.code == .tlsHandshakeFailed && error?.code == .tlsHandshakeFailed)
        #expect(both.takeDialled() == [1, 2])
    }

    @Test("an address that accepts and stays silent is skipped in time")
    func saysNothing() throws {
        let place = try Place(clock: .byHand)
        let silent = place.accept(at: 1, resets: false)
        let origin = try place.origin(Self.server, at: 2)
        let endpoint = try place.endpoint(.https, policy: .pinning(Self.server.pin))
        let delegate = RecordingDelegate()
        try place.session.start(delegate, endpoint)
        try place.session.run(until: "the hello") { silent.heardCount == 1 }
        place.session.loop.advance(by: AddressRace.answerPatience)
        try place.session.finish(delegate)
        #expect(delegate.text == "/", "\(String(describing: delegate.error))")
        #expect(place.takeDialled() == [1, 2])
        #expect(try place.session.get(endpoint).text == "/")
        #expect(place.takeDialled() == [2])
        #expect(origin.connections.count == 2)
    }

    @Test("after a refused certificate no other address is dialled")
    func refusedCertificate() throws {
        let place = try Place(clock: .byHand)
        let first = try place.origin(Self.server, at: 1)
        let second = try place.origin(try TestPKI.shared.server(TestSession.host), at: 2)
        let pinned = try place.endpoint(.https, policy: .pinning(.unrelated(2)))
        for _ in 0..<2 {
            #expect(try place.session.get(pinned).error?.code == .pinMismatch)
            #expect(place.takeDialled() == [1])
        }
        #expect(first.connections.count == 2 && second.connections.isEmpty)
        #expect(try place.session.get(place.endpoint(.https)).text == "/")
        #expect(place.takeDialled() == [1])
    }

    @Test("an HTTP proxy that resets is replaced by its other address")
    func proxyResets() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
        let place = try Place(clock: .byHand)
        place.reset(at: 1)
        let proxy = try TunnelProxy(to: origin.port, on: (place.listeners[1], place.port))
        let stream = RecordingStream()
        place.session.open(stream, try place.endpoint(.http, proxy: .http))
        try place.session.run(until: "the stream") { stream.isConnected || stream.isComplete }
        #expect(stream.isConnected, "\(String(describing: stream.error))")
        #expect(place.takeDialled() == [1, 2])
        #expect(proxy.asked.with { $0.count } == 1)

        let other = try Place(clock: .byHand)
        let refusing = try TunnelProxy(
            to: origin.port,
            response: "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
            on: (other.listeners[0], other.port)
        )
        let refused = RecordingStream()
        other.session.open(refused, try other.endpoint(.http, proxy: .http))
        try other.session.run(until: "the refusal") { refused.isComplete }
        #expect(refused.error?.code == .proxyRefused)
        #expect(other.takeDialled() == [1] && refusing.asked.with { $0.count } == 1)
    }

    @Test("without TLS, an address that resets keeps its request, and the next request moves")
    func plainResets() throws {
        let place = try Place(clock: .byHand)
        place.reset(at: 1)
        let origin = try place.origin(nil, at: 2)
        let endpoint = try place.endpoint(.http)
        #expect(try place.session.get(endpoint).error?.code == .responseTruncated)
        #expect(place.takeDialled() == [1])
        #expect(try place.session.get(endpoint).text == "/")
        #expect(place.takeDialled() == [2])

        place.session.loop.advance(by: FailedAddresses.lifetime)
        let stream = RecordingStream()
        stream.onConnect = { $0.send("hello") }
        place.session.open(stream, endpoint)
        try place.session.run(until: "the stream's end") { stream.isComplete }
        #expect(place.takeDialled() == [1])
        #expect(try place.session.get(endpoint).text == "/")
        #expect(place.takeDialled() == [2])
        #expect(origin.connections.count == 2)
    }

    @Test("of many dead addresses four are dialled at a time, in turn")
    func many() throws {
        let place = try Place(7, clock: .byHand)
        for number in 1...6 { try place.dropSYNs(at: number) }
        let origin = try place.origin(nil, at: 7)
        let delegate = RecordingDelegate()
        try place.session.start(delegate, place.endpoint(.http))
        try place.session.run(until: "the first address") { place.dialledCount > 0 }
        let before = place.session.loop.registeredCount
        var most = 0
        try place.session.run(until: "the answer") {
            if place.dialledCount < 7 { place.session.loop.advance(by: .milliseconds(50)) }
            most = max(most, place.session.loop.registeredCount)
            return delegate.isComplete
        }
        #expect(delegate.text == "/", "\(String(describing: delegate.error))")
        #expect(place.takeDialled() == [1, 2, 3, 4, 5, 6, 7])
        #expect(most <= before + 4)
        #expect(origin.connections.count == 1)
    }

    @Test("timeouts.connect bounds the whole, whatever the number of addresses")
    func bounded() throws {
        let place = try Place(3, clock: .byHand)
        for number in 1...3 { try place.dropSYNs(at: number) }
        let delegate = RecordingDelegate()
        let endpoint = try place.endpoint(.http)
        place.session.settle()
        let kept = place.session.loop.registeredCount
        try place.session.start(delegate, endpoint)
        try place.session.run(until: "the first address") { place.dialledCount > 0 }
        let start = place.session.loop.now
        try place.session.run(until: "the end") {
            place.session.loop.advance(by: .milliseconds(50))
            return delegate.isComplete
        }
        #expect(delegate.error?.code == .connectTimeout)
        #expect(place.session.loop.now - start <= endpoint.timeouts.spans.connect.nanoseconds + 100_000_000)
        #expect(place.takeDialled() == [1, 2, 3])
        place.session.settle()
        #expect(place.session.loop.registeredCount == kept)
    }
}
