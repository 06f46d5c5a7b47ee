// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Tasks that wait for the network", .onOwnThreads)
struct ConnectivityTests {
    private typealias Stage = ManagerStage
    private static let url = "http://away.example.com/"

    /// The network as a test wants it.
    private final class Network: Sendable {
        let listeners = Monitor<[@Sendable (Bool) -> Void]>([])
        let hosts = Monitor<[HTTPCore.Host?]>([])

        func tell(_ isReachable: Bool) {
            for listener in listeners.with({ $0 }) { listener(isReachable) }
        }
    }

    /// A session with a host on whose port no server listens.
    private func stage(_ network: Network, port: UInt16, waits: Bool = true, total: Duration? = nil) throws -> Stage {
        let host = try HTTPCore.Host("away.example.com")
        let address = try HTTPCore.Host("127.0.0.1")
        return try Stage {
            $0.waitsForConnectivity = waits
            $0.timeouts = TaskTimeouts(total: total)
            $0.resolve[host] = (host: address, port: port)
            $0.connectivity = { host, tell in
                network.hosts.with { $0.append(host) }
                network.listeners.with { $0.append(tell) }
                return network
            }
        } script: { _ in
        }
    }

    @Test("a task waits without a network, reports it once, and continues with one")
    func waiting() async throws {
        let refusing = try TestSocket.reserveRefusingPort()
        let network = Network()
        let stage = try stage(network, port: refusing.port)
        stage.manager.taskIsWaitingForConnectivity = { [stage] task in stage.note("waits \(task.state)") }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        let response = beside { try await task.value() }
        try await eventually("to listen") { network.listeners.with { !$0.isEmpty } }
        network.tell(false)
        network.tell(false)
        _ = try await stage.wait(for: "waits running")
        listen(refusing.descriptor, 5)
        network.tell(true)
        let served = beside {
            let client = accept(refusing.descriptor, nil, nil)
            let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
            _ = send(client, text, text.utf8.count, 0)
            return client
        }
        #expect(try await response.value.data == Array("ok".utf8))
        close(try await served.value)
        close(refusing.descriptor)
        #expect(stage.log.with { $0 } == ["waits running"])
        #expect(try network.hosts.with { $0 } == [HTTPCore.Host("away.example.com")])
        await stage.end()
    }

    @Test("with a network, or by default, the error stands")
    func reachable() async throws {
        let refusing = try TestSocket.reserveRefusingPort()
        defer { close(refusing.descriptor) }
        let network = Network()
        let stage = try stage(network, port: refusing.port)
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        task.resume()
        try await eventually("to listen") { network.listeners.with { !$0.isEmpty } }
        network.tell(true)
        await #expect { try await task.value() } throws: { $0.sessionCode == .connectFailed }
        await stage.end()
        let hasty = try self.stage(network, port: refusing.port, waits: false)
        let other = try hasty.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        await #expect { try await other.value() } throws: { $0.sessionCode == .connectFailed }
        #expect(network.hosts.with { $0.count } == 1)
        await hasty.end()
    }

    @Test("a waiting task can be cancelled, and ends with its time limit")
    func endings() async throws {
        let refusing = try TestSocket.reserveRefusingPort()
        defer { close(refusing.descriptor) }
        let network = Network()
        let stage = try stage(network, port: refusing.port)
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        task.resume()
        try await eventually("to listen") { network.listeners.with { !$0.isEmpty } }
        network.tell(false)
        task.cancel()
        await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
        network.tell(true)
        await stage.end()
        let short = try self.stage(Network(), port: refusing.port, total: .milliseconds(200))
        let bounded = try short.manager.dataTask(with: HTTPSessionRequest(url: Self.url))
        await #expect { try await bounded.value() } throws: { $0.sessionCode == .connectFailed }
        await short.end()
    }

    @Test("the kernel says that loopback is reachable")
    func routes() async throws {
        let told = Monitor<[Bool]>([])
        let watch = try ConnectivityWait.routes(try HTTPCore.Host("127.0.0.1")) { isReachable in
            told.with { $0.append(isReachable) }
        }
        try await eventually("a status") { told.with { !$0.isEmpty } }
        withExtendedLifetime(watch) {}
        #expect(told.with { $0[0] })
    }
}
