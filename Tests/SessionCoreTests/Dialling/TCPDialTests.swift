// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("The dial of one address, without a library", .onOwnThreads)
struct TCPDialTests {
    /// A loop with a dialler, and the results of its dials.
    private final class Stage {
        let loop: EventLoop
        let dialler: Dialler
        private(set) var connected: [Int32] = []
        private(set) var peers: [SocketAddress?] = []
        private(set) var errors: [SessionError] = []
        private(set) var isDescriptorMissing = false
        /// The addresses that the rule was asked about.
        let asked = Monitor<[SocketAddress]>([])

        init() throws {
            loop = try EventLoop()
            dialler = Dialler(loop: loop, names: NameResolver(loop: loop, SessionConfiguration()))
        }

        deinit { for descriptor in connected { close(descriptor) } }

        var count: Int { connected.count + errors.count }

        func make(_ host: String, port: UInt16, denying rule: String? = nil) throws -> Dial {
            let endpoint = try endpoint(host, port: port, denying: rule)
            return Dial(endpoint, dialler: dialler, didEnd: { [unowned self] in note($0) }, isAnswered: { true })
        }

        /// The dial of one address, whatever the host.
        func makeAlone(_ address: SocketAddress, denying rule: String? = nil) throws -> AddressDial {
            dialler.makeDial(to: address, for: try endpoint("127.0.0.1", port: 1, denying: rule)) { [unowned self] in
                dialler.forget($0)
                switch $1 {
                case .connected(let descriptor, let peer): note(.connected(descriptor, to: peer))
                case .failed(let failure): note(Dial.Outcome([failure]))
                }
            }
        }

        private func endpoint(_ host: String, port: UInt16, denying rule: String?) throws -> Endpoint {
            Endpoint(
                scheme: .http,
                host: try Host(host),
                port: port,
                policy: .unpinned,
                anchors: TestPKI.shared.anchors,
                generation: 1,
                dialRule: { [asked] address in
                    asked.with { $0.append(address) }
                    return rule.map { DialRefusal(rule: $0) }
                }
            )
        }

        private func note(_ outcome: Dial.Outcome) {
            switch outcome {
            case .connected(let descriptor, let peer):
                connected.append(descriptor)
                peers.append(peer)
            case .failed(let error): errors.append(error)
            case .failedWithoutDescriptor(let error):
                errors.append(error)
                isDescriptorMissing = true
            }
        }

        /// Dials until there are so many results.
        func finish(_ count: Int = 1, _ dials: Dial...) throws {
            for dial in dials { dial.start() }
            #expect(loop.run(until: { self.count >= count }, atMost: .seconds(Int(Patience.seconds))))
        }
    }

    private static func option(_ descriptor: Int32, _ level: Int32, _ name: Int32) -> Int32 {
        var value: Int32 = -1
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, level, name, &value, &length)
        return value
    }

    @Test("the socket is non-blocking, without delay, kept alive, and waits for its next owner")
    func connects() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let stage = try Stage()
        let before = stage.loop.registeredCount
        let dial = try stage.make("127.0.0.1", port: port)
        try stage.finish(1, dial)
        let descriptor = try #require(stage.connected.first)
        #expect(stage.peers == [.loopback(port: port)] && peerAddress(descriptor) == .loopback(port: port))
        #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0 && fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
        #expect(Self.option(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY) == 1)
        #expect(Self.option(descriptor, SOL_SOCKET, SO_KEEPALIVE) == 1)
        #expect(Self.option(descriptor, Int32(IPPROTO_TCP), TCP_KEEPIDLE) == 30)
        #expect(stage.loop.registeredCount == before)
        let accepted = accept(listener, nil, nil)
        defer { close(accepted) }
        let handler = Counting()
        try stage.loop.register(descriptor, .readable, handler)
        #expect(send(accepted, "a", 1, 0) == 1)
        stage.loop.run(until: { handler.count > 0 }, atMost: .seconds(Int(Patience.seconds)))
        #expect(handler.last == .readable)
        stage.loop.unregister(descriptor)
    }

    private final class Counting: EventHandler {
        var count = 0
        var last: Readiness = []

        override func ready(_ readiness: Readiness) {
            count += 1
            last = readiness
        }
    }

    @Test("a refused connection is told with address, port and the system's reason")
    func refused() throws {
        let held = try TestSocket.reserveRefusingPort()
        defer { close(held.descriptor) }
        let stage = try Stage()
        try stage.finish(1, stage.make("127.0.0.1", port: held.port))
        let error = try #require(stage.errors.first)
        #expect(error.code == .connectFailed)
        let words = "could not be reached: Failed to connect to 127.0.0.1 port \(held.port) after "
        #expect(error.details.hasPrefix("127.0.0.1:\(held.port) \(words)"))
        #expect(error.details.hasSuffix(" ms: Connection refused."))
        stage.loop.turn(waitingAtMost: .milliseconds(0))
        #expect(stage.count == 1)
    }

    @Test("a failure that connect(2) itself reports comes later, too")
    func unreachable() throws {
        let stage = try Stage()
        // There is no TCP with a group of receivers.
        let dial = try stage.make("224.0.0.1", port: 80)
        dial.start()
        #expect(stage.count == 0)
        try stage.finish()
        #expect(stage.errors.map(\.code) == [.connectFailed])
        #expect(stage.errors.first?.details.hasSuffix("Network is unreachable.") == true)
    }

    @Test("an address that the rule refuses gets no connection")
    func denied() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let stage = try Stage()
        try stage.finish(1, stage.make("127.0.0.1", port: port, denying: "test"))
        #expect(stage.errors.map(\.code) == [.addressDenied])
        #expect(stage.asked.with { $0 } == [.loopback(port: port)])
        _ = fcntl(listener, F_SETFL, O_NONBLOCK)
        #expect(accept(listener, nil, nil) < 0)
    }

    @Test("the unspecified address is told as the one that it leads to")
    func unspecified() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let stage = try Stage()
        try stage.finish(1, stage.make("0.0.0.0", port: port))
        #expect(stage.peers == [.loopback(port: port)])
        #expect(stage.asked.with { $0 } == [SocketAddress(ipv4: 0, port: port)])
    }

    @Test("IPv6 is dialled, and its zone belongs to the address that is dialled")
    func zones() throws {
        let (ipv4, ipv6, port) = try TestSocket.listenOnBoth()
        defer {
            close(ipv4)
            close(ipv6)
        }
        let stage = try Stage()
        let dial = try stage.make("::1", port: port)
        try stage.finish(1, dial)
        #expect(stage.peers == [SocketAddress(ipv6Upper: 0, lower: 1, port: port)])
        let local = SocketAddress(ipv6Upper: 0xFE80 << 48, lower: 1, port: port, scope: 7)
        let failure = stage.dialler.start(try stage.makeAlone(local, denying: "test"))
        #expect(failure?.refused?.address == local)
        #expect(stage.asked.with { $0.last } == local && stage.asked.with { $0.last?.scope } == 7)
    }

    @Test("a connection that stands at once is told of later, from the loop")
    func atOnce() throws {
        let folder = try TemporaryFolder()
        let address = SocketAddress(unixPath: "\(folder.path)/socket")
        // Of stream sockets only Unix sockets connect at once.
        let listener = try ListeningSocket(address)
        let stage = try Stage()
        let dial = try stage.makeAlone(address)
        #expect(stage.dialler.start(dial) == nil && stage.count == 0)
        try stage.finish()
        #expect(stage.connected.count == 1)
        let cancelled = try stage.makeAlone(address)
        #expect(stage.dialler.start(cancelled) == nil)
        stage.dialler.cancel(cancelled)
        for _ in 0..<3 { stage.loop.turn(waitingAtMost: .milliseconds(0)) }
        #expect(stage.count == 1)
        withExtendedLifetime(listener) {}
    }

    /// The open sockets for IPv4 in this process.
    private static var socketCount: Int {
        (0..<1024).count { option($0, SOL_SOCKET, SO_DOMAIN) == AF_INET }
    }

    @Test("a dial that is given up, or whose dialler closes, leaves no descriptor", arguments: [false, true])
    func givenUp(closes: Bool) async {
        // Descriptors are the whole process's.
        await #expect(processExitsWith: .success) { [closes] in
            let (listener, port) = try TestSocket.listen()
            let held = try TestSocket.dropSYNs(at: listener)
            let stage = try Stage()
            let (before, sockets) = (stage.loop.registeredCount, TCPDialTests.socketCount)
            let dial = try stage.make("127.0.0.1", port: port)
            dial.start()
            stage.loop.turn(waitingAtMost: .milliseconds(0))
            #expect(stage.loop.registeredCount == before + 1 && TCPDialTests.socketCount == sockets + 1)
            if closes { stage.dialler.close() } else { dial.cancel() }
            #expect(stage.loop.registeredCount == before && TCPDialTests.socketCount == sockets)
            stage.loop.turn(waitingAtMost: .milliseconds(0))
            #expect(stage.count == 0)
            close(held)
            close(listener)
        }
    }

    @Test("a dial takes no descriptor of the reserve, and says so")
    func reserve() async {
        await #expect(processExitsWith: .success) {
            let (_, port) = try TestSocket.listen()
            let stage = try Stage()
            DescriptorReserve.start(at: 3)
            try stage.finish(1, stage.make("127.0.0.1", port: port))
            #expect(stage.isDescriptorMissing && stage.errors.map(\.code) == [.connectFailed])
            #expect(stage.errors.first?.details.hasSuffix("Too many open files.") == true)
        }
    }

    @Test("a dial without a socket knows why, though libcurl does not")
    func withoutSocket() async {
        await #expect(processExitsWith: .success) {
            let stage = try Stage()
            let dial = try stage.make("127.0.0.1", port: 1)
            let alone = try stage.makeAlone(.loopback(port: 1))
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
            dial.start()
            // As for libcurl, which passes no code on.
            let opened = SocketAddress.loopback(port: 1).withSockaddr { alone.open($0, $1) }
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            #expect(opened == -EMFILE && alone.failure(.noConnection, "").isDescriptorMissing)
            try stage.finish()
            #expect(stage.isDescriptorMissing && stage.errors.map(\.code) == [.connectFailed])
        }
    }

    @Test("of many dials each has its own socket; those given up have none")
    func many() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let stage = try Stage()
        let before = stage.loop.registeredCount
        let dials = try (0..<200).map { _ in try stage.make("127.0.0.1", port: port) }
        for dial in dials { dial.start() }
        for dial in dials[100...] { dial.cancel() }
        try stage.finish(100)
        for _ in 0..<3 { stage.loop.turn(waitingAtMost: .milliseconds(0)) }
        #expect(stage.connected.count == 100 && Set(stage.connected).count == 100 && stage.errors.isEmpty)
        #expect(stage.loop.registeredCount == before)
    }
}
