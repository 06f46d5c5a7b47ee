// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ProxyConfiguration
import ProxyCore
import TestSupport

/// One proxy, its clients and its origins, while they carry out one program.
final class ProxyRun {
    private final class Client {
        let socket: FuzzSocket
        let speaksHTTP2: Bool
        var sent: [UInt8] = []
        var received: [UInt8] = []
        var isReading = true
        /// Whether the client has disconnected itself, so that its responses are not checked.
        var hasLeft = false

        init(_ socket: FuzzSocket, speaksHTTP2: Bool) {
            self.socket = socket
            self.speaksHTTP2 = speaksHTTP2
        }

        /// A readable description of its beginning and end.
        var account: String {
            func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
            return "it sent \(text(sent.prefix(300))), and got \(text(received.suffix(300)))"
        }

        func work() -> Bool {
            let hasWritten = socket.flush()
            return isReading && socket.receive(into: &received) || hasWritten
        }
    }

    private let server: ProxyServer
    /// Whether the server's worker still exists.
    let workerIsAlive: () -> Bool
    private let policies: [PolicyParts]
    private let origin: FuzzOrigin
    private let folder: String
    /// The connections of each client, the last one in use.
    private var clients: [Int: Client] = [:]
    private var former: [Client] = []
    private let clientCount: Int
    private var isDraining = false

    /// Runs until the loop is idle; an endless activity is a finding.
    private static let mostTurns = 2000

    init(_ policies: [PolicyParts], _ origin: FuzzOrigin, clients: Int, folder: String) throws {
        var monitoring = PinMonitor.Settings.command
        monitoring.log = { _, _, _ in }
        // No threads: they would make runs nondeterministic, and would dominate the cost.
        monitoring.clock = .byHand
        server = try ProxyServer(
            parts: policies[0],
            log: try LogWriter(path: "/dev/null", clock: .byHand),
            monitoring: monitoring,
            clock: .byHand
        )
        workerIsAlive = server.workerIsAlive
        self.policies = policies
        self.origin = origin
        self.folder = folder
        clientCount = clients
    }

    func stop() {
        for client in former + Array(clients.values) { client.socket.close() }
        server.stop()
    }

    // MARK: Steps

    func carryOut(_ step: ProxyProgram.Step) {
        carryOut(step.operation)
        if step.settles { _ = settle() } else { _ = turn() }
    }

    private func carryOut(_ operation: ProxyProgram.Operation) {
        switch operation {
        case .open(let number, let listener): open(number % clientCount, listener)
        case .send(let number, let bytes): send(bytes, by: number % clientCount)
        case .halfClose(let number): clients[number % clientCount]?.socket.halfClose()
        case .reset(let number): leave(number % clientCount, byReset: true)
        case .close(let number): leave(number % clientCount, byReset: false)
        case .setReading(let number, let isReading): clients[number % clientCount]?.isReading = isReading
        case .respond(let response): origin.add(response)
        case .respondAlways(let response): origin.setStanding(response)
        case .originSends(let connection, let bytes): origin.send(bytes, on: connection)
        case .originHalfCloses(let connection): origin.halfClose(connection)
        case .originResets(let connection): origin.reset(connection)
        case .changeKey: origin.changeKey()
        case .reload(let variant): _ = try? server.reload(policies[variant % policies.count])
        case .advance(let milliseconds): server.advance(by: .milliseconds(milliseconds))
        case .wait: _ = server.turn(waitingAtMost: .milliseconds(3))
        case .drain:
            isDraining = true
            server.drain()
        }
    }

    private func open(_ number: Int, _ listener: Int) {
        if let client = clients[number] { former.append(client) }
        let index = listener % FuzzConfiguration.listenerCount
        let path = FuzzConfiguration.socketPath(folder, index)
        guard let descriptor = try? TestSocket.connect(unixPath: path) else {
            clients[number] = nil
            return
        }
        clients[number] = Client(FuzzSocket(adopting: descriptor), speaksHTTP2: index == 0)
    }

    private func send(_ bytes: [UInt8], by number: Int) {
        if clients[number] == nil { open(number, 0) }
        guard let client = clients[number] else { return }
        client.sent += bytes
        client.socket.send(bytes)
    }

    private func leave(_ number: Int, byReset: Bool) {
        clients[number]?.hasLeft = true
        clients[number]?.socket.close(byReset: byReset)
    }

    // MARK: Work

    private func turn() -> Bool {
        var hasWorked = server.turn()
        if origin.work() { hasWorked = true }
        for client in former where client.work() { hasWorked = true }
        for number in 0..<clientCount where clients[number]?.work() ?? false { hasWorked = true }
        return hasWorked
    }

    /// - Returns: whether it became idle.
    private func settle() -> Bool {
        for _ in 0..<Self.mostTurns where !turn() { return true }
        return false
    }

    /// Lets all clients read, and all time limits pass; then every exchange and connection must have ended.
    func conclude() throws(FuzzFinding) {
        let all = former + (0..<clientCount).compactMap { clients[$0] }
        for client in all { client.isReading = true }
        // Work on threads (passwords, files) has no time limit on the loop's clock.
        for round in 0..<400 {
            if round > 0 {
                if all.allSatisfy({ $0.hasLeft || $0.socket.hasEnded }) { break }
                _ = server.turn(waitingAtMost: .milliseconds(5))
            }
            for milliseconds in [0, 2500, 11_000, 61_000, 61_000, 301_000, 301_000, 301_000, 601_000, 3000] {
                server.advance(by: .milliseconds(milliseconds))
                guard settle() else { throw FuzzFinding("the proxy never comes to rest") }
            }
        }
        if origin.hasLeaked { throw FuzzFinding("a request has reached an origin under a wrong key") }
        for client in all where !client.hasLeft {
            guard client.socket.hasEnded else {
                throw FuzzFinding("a client's connection never ends: \(client.account)")
            }
            _ = try ClientReading(
                sent: client.sent,
                received: client.received,
                hasEnded: true,
                speaksHTTP2: client.speaksHTTP2
            )
        }
        for client in all { client.socket.close() }
        try checkLeftovers()
    }

    private func checkLeftovers() throws(FuzzFinding) {
        var left: [String] = []
        // Threads may still work for it.
        for _ in 0..<200 {
            _ = server.turn(waitingAtMost: .milliseconds(left.isEmpty ? 0 : 5))
            _ = settle()
            server.advance(by: .seconds(3))
            _ = settle()
            left = server.leftovers
            if left.isEmpty { return }
        }
        throw FuzzFinding("left at the end: \(left.joined(separator: ", "))")
    }
}
