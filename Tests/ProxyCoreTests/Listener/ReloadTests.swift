// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Reload", .onOwnThreads)
struct ReloadTests {
    private func configuration(_ change: (inout Configuration) -> Void = { _ in }) throws -> Configuration {
        var configuration = Configuration()
        configuration.workers = 2
        configuration.log.tasks = .off
        configuration.listeners = [
            ListenerConfiguration(endpoint: .address(try AddressAndPort(parsing: "127.0.0.1:0")))
        ]
        change(&configuration)
        return configuration
    }

    private func parts(_ configuration: Configuration) -> PolicyParts {
        PolicyParts(
            configuration: configuration,
            pinnedDomains: PinnedDomains(),
            trustAnchors: TrustAnchors(certificates: [])
        )
    }

    @Test("only a changed key of the start needs a restart")
    func restartNeeds() throws {
        let running = try configuration()
        #expect(RestartNeed.between(running, running).isEmpty)
        #expect(RestartNeed.between(running, try configuration { $0.workers = 3 }) == [.workers])
        #expect(RestartNeed.between(running, try configuration { $0.listeners = [.standard] }) == [.listeners])
        let admin = AdminConfiguration(endpoint: .address(AddressAndPort(IPAddress(ipv4: 0x7F00_0001), 8081)))
        #expect(RestartNeed.between(running, try configuration { $0.admin = admin }) == [.admin])
        let denied = HostPatternSet([.exactly(try Host("api.example.com"))])
        #expect(RestartNeed.between(running, try configuration { $0.listeners[0].allowHosts = denied }) == [.listeners])
        let other = try configuration {
            $0.unpinnedHosts = .deny
            $0.limits.connections = 1
            $0.access.denyHosts = [.any]
            $0.log.redact = ["key"]
        }
        #expect(RestartNeed.between(running, other).isEmpty)
    }

    @Test("the new policy has the listeners' addresses and the start's settings")
    func carriedOver() throws {
        let server = try ProxyServer(parts: parts(try configuration()))
        defer { server.stop() }
        let own = server.snapshot.parts.ownListeners
        #expect(own.count == 1 && own[0].port != 0)
        let next = try configuration {
            $0.workers = 5
            $0.listeners = [.standard, .standard]
            $0.access.denyAddresses = []
        }
        #expect(try server.reload(parts(next)) == [.listeners, .workers])
        #expect(server.snapshot.generation == 2)
        #expect(server.snapshot.parts.ownListeners == own)
        #expect(server.snapshot.configuration.workers == 2)
        #expect(server.listening.count == 1)
        let verdict = server.snapshot.access.evaluate(own[0].address, port: own[0].port)
        #expect(verdict == .deniedOwnListener)
    }

    @Test("a replaced policy is released, at once without running requests")
    func released() throws {
        let server = try ProxyServer(parts: parts(try configuration()))
        defer { server.stop() }
        weak var former = server.snapshot
        #expect(former != nil)
        for generation in 2...5 {
            try server.reload(parts(try configuration()))
            try Patience.poll(for: "the end of generation \(generation - 1)") { former == nil ? true : nil }
            former = server.snapshot
        }
    }

    @Test("a log that cannot be opened leaves everything unchanged")
    func badLog() throws {
        let server = try ProxyServer(parts: parts(try configuration()))
        defer { server.stop() }
        let bad = try configuration { $0.log.tasks = .file(path: "/nonexistent/task.log") }
        #expect(throws: ProxyServer.StartFailure.self) { try server.reload(parts(bad)) }
        #expect(server.snapshot.generation == 1)
    }

    @Test("a reload during a drain, or after a stop, does no harm")
    func lateReloads() throws {
        let server = try ProxyServer(parts: parts(try configuration()))
        server.drain()
        #expect(try server.reload(parts(try configuration())).isEmpty)
        server.stop()
        #expect(try server.reload(parts(try configuration())).isEmpty)
    }
}
