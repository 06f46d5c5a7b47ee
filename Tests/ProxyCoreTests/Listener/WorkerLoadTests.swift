// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Connections of several workers", .onOwnThreads)
struct WorkerLoadTests {
    private static let question = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private func server(workers: Int, connections: Int = 1000) throws -> ProxyServer {
        try ProxyServer(parts: parts(workers: workers, connections: connections))
    }

    private func parts(workers: Int, connections: Int = 1000) throws -> PolicyParts {
        var configuration = Configuration()
        configuration.workers = workers
        configuration.limits.connections = connections
        configuration.log.tasks = .off
        configuration.listeners = [
            ListenerConfiguration(endpoint: .address(try AddressAndPort(parsing: "127.0.0.1:0"))),
            ListenerConfiguration(endpoint: .address(try AddressAndPort(parsing: "127.0.0.1:0"))),
        ]
        return PolicyParts(
            configuration: configuration,
            pinnedDomains: PinnedDomains(),
            trustAnchors: TrustAnchors(certificates: [])
        )
    }

    private func port(of server: ProxyServer, listener: Int = 0) throws -> UInt16 {
        try #require(AddressAndPort(server.listening[listener].address)).port
    }

    private func isServed(_ client: TestClient) throws -> Bool {
        try client.send(Self.question)
        return try client.readResponse(to: "OPTIONS").status == 200
    }

    private func waitFor(_ count: Int, of server: ProxyServer) throws {
        try Patience.poll(for: "\(count) connections") { server.connectionsByWorker.reduce(0, +) == count ? true : nil }
    }

    @Test("connections of a few clients are spread over the workers", arguments: [2, 3])
    func areSpread(workers: Int) throws {
        let server = try server(workers: workers)
        defer { server.stop() }
        var clients: [TestClient] = []
        for number in 1...8 * workers {
            let client = try TestClient(port: port(of: server, listener: number % 2))
            clients.append(client)
            #expect(try isServed(client))
        }
        let counts = server.connectionsByWorker
        #expect(counts.reduce(0, +) == 8 * workers)
        #expect(counts.min()! >= 6, "\(counts)")
        clients = []
        try waitFor(0, of: server)
        #expect(server.connectionsByWorker == Array(repeating: 0, count: workers))
    }

    @Test("a burst of connections is spread over the workers")
    func burst() throws {
        let server = try server(workers: 2)
        defer { server.stop() }
        // Connected before anything is read, so that one turn of a worker accepts many.
        let clients = try (0..<64).map { _ in try TestClient(port: port(of: server)) }
        for client in clients { #expect(try isServed(client)) }
        #expect(server.connectionsByWorker.min()! >= 30, "\(server.connectionsByWorker)")
    }

    @Test("the limit of connections covers all workers together")
    func limit() throws {
        let server = try server(workers: 2, connections: 5)
        defer { server.stop() }
        let clients = try (0..<5).map { _ in try TestClient(port: port(of: server)) }
        for client in clients { #expect(try isServed(client)) }
        let refused = try TestClient(port: port(of: server))
        #expect(try refused.readResponse().status == 503)
        #expect(server.connections == 5)
        clients[0].close()
        try Patience.poll(for: "a free place") { server.connections == 4 ? true : nil }
        #expect(try isServed(try TestClient(port: port(of: server))))
    }

    @Test("a blocked worker gets few connections, and serves them later")
    func heldUp() throws {
        let server = try server(workers: 2)
        defer { server.stop() }
        let isOver = Monitor(false)
        let isHeldUp = Latch(count: 1)
        server.submit(toWorker: 1) {
            isHeldUp.countDown()
            _ = try? isOver.wait(for: "the clients") { $0 ? true : nil }
        }
        isHeldUp.wait()
        var clients: [TestClient] = []
        // Once the other worker has noticed, all further ones are its own.
        try Patience.poll(for: "the other worker to keep its connections") {
            clients.append(try TestClient(port: port(of: server)))
            try clients.last?.send(Self.question)
            let counts = server.connectionsByWorker
            try #require(clients.count < 900)
            return counts[0] >= counts[1] + 20 ? true : nil
        }
        isOver.with { $0 = true }
        for client in clients { #expect(try client.readResponse(to: "OPTIONS").status == 200) }
    }

    @Test("connections in transit between workers are served despite a reload")
    func reload() throws {
        let server = try server(workers: 2)
        defer { server.stop() }
        let isOver = Monitor(false)
        let isHeldUp = Latch(count: 1)
        server.submit(toWorker: 1) {
            isHeldUp.countDown()
            _ = try? isOver.wait(for: "the reload") { $0 ? true : nil }
        }
        isHeldUp.wait()
        var clients: [TestClient] = []
        try Patience.poll(for: "connections on their way") {
            clients.append(try TestClient(port: port(of: server)))
            try #require(clients.count < 900)
            return server.connectionsByWorker[1] >= 2 ? true : nil
        }
        let next = try parts(workers: 2, connections: clients.count + 1)
        // The connections stand before the new policy in the worker's queue.
        server.submit(toWorker: 0) { isOver.with { $0 = true } }
        for _ in 0..<3 { try server.reload(next) }
        for client in clients { #expect(try isServed(client)) }
        // And again behind the reload, in which the limit has changed.
        for client in clients { #expect(try isServed(client)) }
        #expect(server.connectionsByWorker.reduce(0, +) == clients.count)
        #expect(try isServed(try TestClient(port: port(of: server))))
        try waitFor(clients.count, of: server)
        clients = []
        try waitFor(0, of: server)
        #expect(server.connections == 0)
    }

    @Test("a stop ends connections in transit between workers")
    func stop() throws {
        for _ in 0..<20 {
            let server = try server(workers: 2)
            let clients = try (0..<40).map { _ in try TestClient(port: port(of: server)) }
            server.drain()
            try Patience.poll(for: "the end of all connections") { server.isDrained ? true : nil }
            #expect(server.connectionsByWorker == [0, 0])
            server.stop()
            for client in clients { _ = try? client.readToEnd() }
        }
    }
}
