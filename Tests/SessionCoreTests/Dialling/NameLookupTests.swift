// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Names are looked up on the loop", .serialized, .earlyOnOwnThreads)
struct NameLookupTests {
    private static let loopback: UInt32 = 0x7F00_0001

    private func session(_ server: NameServer) throws -> TestSession {
        var configuration = SessionConfiguration()
        configuration.nameServers = server.text
        return try TestSession(configuration)
    }

    private func endpoint(
        _ host: String,
        port: UInt16,
        resolve: String? = nil,
        timeouts: TaskTimeouts = TaskTimeouts(),
        proxy: SessionProxy? = nil,
        dialRule: (@Sendable (SocketAddress) -> DialRefusal?)? = nil
    ) throws -> Endpoint {
        Endpoint(
            scheme: .http,
            host: try Host(host),
            port: port,
            resolve: try resolve.map { (host: try Host($0), port: port) },
            policy: .unpinned,
            anchors: TestPKI.shared.anchors,
            generation: 1,
            timeouts: timeouts,
            dialRule: dialRule,
            proxy: proxy
        )
    }

    private func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
                return
            }
        }
    }

    /// The names of the process's threads.
    private func threads() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").compactMap {
            // A thread may have ended meanwhile.
            try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
        }
    }

    @Test("100 requests for one name share a query, and its result is kept")
    func shared() throws {
        let origin = try origin()
        let server = try NameServer { _, _ in .address(Self.loopback, lifetime: 60) }
        let session = try session(server)
        let place = try endpoint("many.test", port: origin.port)
        let delegates = (0..<100).map { _ in RecordingDelegate() }
        for delegate in delegates { try session.start(delegate, place) }
        try session.run(until: "all to end") { delegates.allSatisfy(\.isComplete) }
        #expect(delegates.allSatisfy { $0.text == "ok" }, "\(String(describing: delegates[0].error))")
        #expect(try session.get(place).text == "ok")
        #expect(server.questions == ["many.test"])
    }

    @Test("a result is requested again after its time to live, and changes count")
    func followed() throws {
        let origin = try origin()
        let server = try NameServer { _, count in
            // 127.0.0.2 refuses by the rule below.
            .address(count == 0 ? Self.loopback + 1 : Self.loopback, lifetime: 1)
        }
        let session = try session(server)
        let place = try endpoint("moves.test", port: origin.port) {
            $0.ipv4 == Self.loopback ? nil : DialRefusal(rule: "test")
        }
        let before = Clock.monotonic
        let first = try session.get(place)
        #expect(first.error?.code == .addressDenied)
        #expect(first.error?.details.contains("127.0.0.2") == true)
        try session.run(until: "the new address") { try session.get(place).text == "ok" }
        #expect(Clock.monotonic - before >= 1_000_000_000)
        #expect(server.questions == ["moves.test", "moves.test"])
    }

    @Test("a silent name server holds no threads and 64 descriptors at most")
    func silent() throws {
        let server = try NameServer { name, _ in
            name == "good.test" ? .address(Self.loopback, lifetime: 60) : .silence
        }
        let origin = try origin()
        let session = try session(server)
        session.settle()
        let threadCount = try threads().count
        let descriptors = session.loop.registeredCount
        var timeouts = TaskTimeouts()
        timeouts.connect = .milliseconds(2500)
        let delegates = (0..<300).map { _ in RecordingDelegate() }
        for (number, delegate) in delegates.enumerated() {
            try session.start(delegate, endpoint("name\(number).test", port: origin.port, timeouts: timeouts))
        }
        session.settle()
        // Other tests run beside this one, and have threads, too.
        #expect(try threads().count < threadCount + 150)
        #expect(session.loop.registeredCount <= descriptors + 64)
        try session.run(until: "all to end") { delegates.allSatisfy(\.isComplete) }
        for delegate in delegates {
            #expect(delegate.error?.code == .dnsTimeout)
            #expect(delegate.error?.details.contains("timeouts.connect") == true)
        }
        #expect(try session.get(endpoint("good.test", port: origin.port)).text == "ok")
        #expect(session.loop.registeredCount <= descriptors + 2)
    }

    @Test("a name is dialled by one family's addresses when the other is silent")
    func silentFamily() throws {
        let origin = try origin()
        let server = try NameServer { name, _ in
            name == "old.test" ? .addressAndSilence(Self.loopback, lifetime: 60) : .silenceAndLoopback
        }
        let session = try session(server)
        let old = try session.get(endpoint("old.test", port: origin.port))
        #expect(old.text == "ok", "\(String(describing: old.error))")
        // Without a route to ::1 its response for IPv6 alone is not enough.
        guard SourceAddress.find(for: SocketAddress(ipv6Upper: 0, lower: 1, port: 0)) != nil else { return }
        // Nothing listens at ::1.
        let new = try session.get(endpoint("new.test", port: origin.port))
        #expect(new.error?.code == .connectFailed, "\(String(describing: new.error))")
    }

    @Test("a nonexistent name fails at once, although its AAAA query is silent")
    func absent() throws {
        let server = try NameServer { _, _ in .noSuchNameAndSilence }
        let session = try session(server)
        let delegate = try session.get(endpoint("none.test", port: 1))
        // Not dns_timeout.
        #expect(delegate.error?.code == .dnsFailed, "\(String(describing: delegate.error))")
        #expect(server.questions == ["none.test"])
    }

    @Test("a search list is tried to its end, although AAAA queries or servers fail")
    func searchList() async {
        // glibc reads the environment, which is the whole process's.
        await #expect(processExitsWith: .success) {
            setenv("LOCALDOMAIN", "one.test two.test", 1)
            setenv("RES_OPTIONS", "ndots:5", 1)
            for response in [NameServer.Response.noSuchNameAndSilence, .serverFailure] {
                let tests = NameLookupTests()
                let origin = try tests.origin()
                let server = try NameServer { name, _ in
                    name == "api.example.test"
                        ? .addressAndSilence(NameLookupTests.loopback, lifetime: 60) : response
                }
                let session = try tests.session(server)
                let delegate = try session.get(tests.endpoint("api.example.test", port: origin.port))
                #expect(delegate.text == "ok", "\(String(describing: delegate.error))")
                #expect(
                    Set(server.questions)
                        == ["api.example.test.one.test", "api.example.test.two.test", "api.example.test"]
                )
            }
        }
    }

    @Test("a late response for one domain does not count for the next")
    func lateResponse() async {
        await #expect(processExitsWith: .success) {
            setenv("LOCALDOMAIN", "one.test two.test", 1)
            let tests = NameLookupTests()
            let origin = try tests.origin()
            let server = try NameServer { name, _ in
                name == "api.one.test"
                    ? .noSuchNameAndLateLoopback : .addressAndSilence(NameLookupTests.loopback, lifetime: 60)
            }
            let session = try tests.session(server)
            let dialled = Monitor<[SocketAddress]>([])
            let place = try tests.endpoint("api", port: origin.port) { address in
                dialled.with { $0.append(address) }
                return nil
            }
            let delegate = try session.get(place)
            #expect(delegate.text == "ok", "\(String(describing: delegate.error))")
            #expect(server.questions == ["api.one.test", "api.two.test"])
            #expect(dialled.with { $0.map(\.family) } == [.ipv4])
        }
    }

    @Test("with a silent first server, 300 new names are found by the second")
    func silentServer() throws {
        let origin = try origin()
        let silent = try NameServer { _, _ in .silence }
        let server = try NameServer { _, _ in .address(Self.loopback, lifetime: 60) }
        var configuration = SessionConfiguration()
        configuration.nameServers = "\(silent.text),\(server.text)"
        let session = try TestSession(configuration)
        // Some always wait for their first query.
        var delegates: [RecordingDelegate] = []
        var open = 0
        func startMore() throws {
            while open < 100, delegates.count < 300 {
                let delegate = RecordingDelegate()
                delegate.onComplete = { _ in open -= 1 }
                open += 1
                delegates.append(delegate)
                try session.start(delegate, endpoint("name\(delegates.count).test", port: origin.port))
            }
        }
        try session.run(until: "all to end") {
            try startMore()
            return open == 0 && delegates.count == 300
        }
        let failed = delegates.count { $0.text != "ok" }
        #expect(failed == 0, "\(failed) failed: \(String(describing: delegates.first { $0.error != nil }?.error))")
    }

    @Test("80 silent names do not keep another one from its address")
    func notFilled() throws {
        let server = try NameServer { name, _ in
            name == "good.test" ? .address(Self.loopback, lifetime: 60) : .silence
        }
        let origin = try origin()
        let session = try session(server)
        let silent = (0..<80).map { _ in RecordingDelegate() }
        for (number, delegate) in silent.enumerated() {
            try session.start(delegate, endpoint("name\(number).test", port: origin.port))
        }
        #expect(try session.get(endpoint("good.test", port: origin.port)).text == "ok")
        #expect(silent.allSatisfy { !$0.isComplete })
    }

    @Test("each failure has its remedy, and is kept for a moment")
    func failures() throws {
        let server = try NameServer { name, _ in name.hasPrefix("broken") ? .serverFailure : .noSuchName }
        let session = try session(server)
        let unknown = try session.get(endpoint("none.test", port: 1))
        #expect(unknown.error?.code == .dnsFailed)
        #expect(unknown.error?.details.hasPrefix("none.test has no address: ") == true)
        #expect(unknown.error?.details.contains("give the host a \"resolve\" address") == true)
        let questions = server.questions.count
        #expect(try session.get(endpoint("none.test", port: 1)).error?.code == .dnsFailed)
        #expect(server.questions.count == questions)
        let broken = try session.get(endpoint("broken.test", port: 1))
        #expect(broken.error?.code == .dnsFailed)
        #expect(broken.error?.details.contains("could not be looked up") == true)
        #expect(broken.error?.details.contains("Check the name servers") == true)
    }

    @Test("names of a \"resolve\" target and of a proxy are looked up alike")
    func otherNames() throws {
        let origin = try origin()
        let server = try NameServer { name, _ in
            ["target.test", "way.test"].contains(name) ? .address(Self.loopback, lifetime: 60) : .noSuchName
        }
        let session = try session(server)
        #expect(try session.get(endpoint("host.test", port: origin.port, resolve: "target.test")).text == "ok")
        #expect(server.questions == ["target.test"])
        for isSOCKS in [false, true] {
            let tunnels = try TunnelProxy(to: origin.port, isSOCKS: isSOCKS)
            let way = SessionProxy(isSOCKS ? .socks5 : .http, host: try Host("way.test"), port: tunnels.port)
            #expect(try session.get(endpoint("host.test", port: 80, proxy: way)).text == "ok")
        }
        #expect(server.questions == ["target.test", "way.test"])
        let proxy = SessionProxy(host: try Host("proxy.test"), port: origin.port)
        let refused = try session.get(endpoint("host.test", port: origin.port, proxy: proxy))
        #expect(refused.error?.code == .dnsFailed)
        #expect(refused.error?.details.hasPrefix("The upstream proxy proxy.test has no address") == true)
        #expect(!server.questions.contains("host.test") && server.questions.contains("proxy.test"))
    }

    @Test("localhost and addresses reach no name server")
    func localNames() throws {
        let origin = try origin()
        let server = try NameServer { _, _ in .noSuchName }
        let session = try session(server)
        #expect(try session.get(endpoint("localhost", port: origin.port)).text == "ok")
        #expect(try session.get(endpoint("api.localhost", port: origin.port)).text == "ok")
        #expect(try session.get(endpoint("127.0.0.1", port: origin.port)).text == "ok")
        #expect(server.questions.isEmpty)
    }

    @Test("a cancelled task gives its lookup up")
    func cancelled() throws {
        let server = try NameServer { _, _ in .silence }
        let session = try session(server)
        session.settle()
        let descriptors = session.loop.registeredCount
        let delegate = RecordingDelegate()
        let task = try session.start(delegate, endpoint("gone.test", port: 1))
        try session.run(until: "the question") { !server.questions.isEmpty }
        #expect(session.loop.registeredCount > descriptors)
        task.cancel()
        try session.finish(delegate)
        session.settle()
        #expect(session.loop.registeredCount == descriptors)
    }

    @Test("a response that is too large for a datagram comes over TCP")
    func overTCP() throws {
        let origin = try origin()
        let server = try NameServer { _, _ in .addressOverTCP(Self.loopback, times: 60) }
        let session = try session(server)
        session.settle()
        let descriptors = session.loop.registeredCount
        let delegate = try session.get(endpoint("large.test", port: origin.port))
        #expect(delegate.text == "ok", "\(String(describing: delegate.error))")
        #expect(server.questions == ["large.test", "large.test"])
        session.settle()
        #expect(session.loop.registeredCount == descriptors)
    }

    @Test("at most 16 addresses of each family are kept")
    func manyAddresses() throws {
        let server = try NameServer { _, _ in .addressOverTCP(Self.loopback, times: 60) }
        var configuration = SessionConfiguration()
        configuration.nameServers = server.text
        let session = try TestSession()
        let names = NameResolver(loop: session.loop, configuration)
        defer { names.close() }
        var answer: NameAnswer?
        _ = names.wait(for: "many.test") { answer = $0 }
        try session.run(until: "the addresses") { answer != nil }
        #expect(try answer?.get().count == 16)
    }

    @Test("a lookup takes no descriptor of the reserve: limit_reached")
    func reserve() async {
        // The reserve is the whole process's.
        await #expect(processExitsWith: .success) {
            let tests = NameLookupTests()
            let origin = try tests.origin()
            let server = try NameServer { _, _ in .address(NameLookupTests.loopback, lifetime: 60) }
            let session = try tests.session(server)
            let place = try tests.endpoint("reserve.test", port: origin.port)
            DescriptorReserve.start(at: 3)
            let error = try session.get(place).error
            #expect(error?.code == .limitReached && server.questions.isEmpty, "\(String(describing: error))")
            DescriptorReserve.start(at: .max)
            try session.run(until: "the failure is forgotten") { try session.get(place).text == "ok" }
        }
    }

    @Test("a lookup without a descriptor frees one, and its failure is not kept")
    func madeRoom() async {
        await #expect(processExitsWith: .success) {
            let tests = NameLookupTests()
            let kept = try ScriptedOrigin(nil) { connection in
                while try connection.readRequest() != nil {
                    try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                }
            }
            let origin = try tests.origin()
            let server = try NameServer { _, _ in .address(NameLookupTests.loopback, lifetime: 60) }
            let session = try tests.session(server)
            #expect(try session.get(tests.endpoint("127.0.0.1", port: kept.port)).text == "ok")
            // The idle connection has the highest number below the reserve.
            let next = dup(0)
            close(next)
            DescriptorReserve.start(at: Int(next))
            let delegate = try session.get(tests.endpoint("room.test", port: origin.port))
            #expect(delegate.text == "ok", "\(String(describing: delegate.error))")
        }
    }

    @Test("without a descriptor of the system a lookup is limit_reached as well")
    func noDescriptor() async {
        await #expect(processExitsWith: .success) {
            let tests = NameLookupTests()
            let origin = try tests.origin()
            let server = try NameServer { _, _ in .address(NameLookupTests.loopback, lifetime: 1) }
            let session = try tests.session(server)
            #expect(try session.get(tests.endpoint("first.test", port: origin.port)).text == "ok")
            session.settle()
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let next = dup(0)
            close(next)
            limit.rlim_cur = rlim_t(next)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let error = try session.get(tests.endpoint("second.test", port: origin.port)).error
            #expect(error?.code == .limitReached, "\(String(describing: error))")
        }
    }

    @Test("the system's resolver has four threads, however many names are looked up")
    func system() throws {
        var configuration = SessionConfiguration()
        configuration.resolver = .system
        let session = try TestSession(configuration)
        var timeouts = TaskTimeouts()
        timeouts.connect = .seconds(2)
        let delegates = (0..<100).map { _ in RecordingDelegate() }
        for (number, delegate) in delegates.enumerated() {
            try session.start(delegate, endpoint("name\(number).invalid", port: 1, timeouts: timeouts))
        }
        session.settle()
        #expect(try threads().count { $0.hasPrefix("names-") } == 4)
        try session.run(until: "all to end") { delegates.allSatisfy(\.isComplete) }
        // The system's name servers may be silent.
        for delegate in delegates { #expect([.dnsFailed, .dnsTimeout].contains(delegate.error?.code)) }
    }
}
