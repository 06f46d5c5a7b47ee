// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

/// The demonstration: an origin, a proxy before it, and one request each to a host with the right pin and to one with
/// the wrong pin.
struct Demo {
    /// The result of one request.
    struct Scene {
        var host: String
        var response: PlainClient.Response
        /// Bytes of requests that the origin received for this host.
        var originReceived: Int
        /// The proxy's task log line of the request.
        var logLine: String
    }

    static let rightHost = "right.pinproxy.test"
    static let wrongHost = "wrong.pinproxy.test"
    static let path = "/hello"

    var proxyAddress: SocketAddress
    var originAddress: SocketAddress
    var right: Scene
    var wrong: Scene

    /// Whether the right pin was accepted, and nothing was sent for the wrong one.
    var isAsItShouldBe: Bool {
        right.response.status == 200 && right.originReceived > 0 && right.logLine.contains("\"verdict\":\"pass\"")
            && wrong.response.status == 502 && wrong.originReceived == 0 && wrong.logLine.contains("\"pin_mismatch\"")
    }

    /// Runs the demonstration on free ports of loopback.
    static func play() throws -> Demo {
        let origin = try DemoOrigin(hosts: [rightHost, wrongHost])
        defer { origin.stop() }
        var log: [Int32] = [-1, -1]
        guard pipe(&log) == 0 else { throw IOFailure(code: errno, during: "pipe") }
        defer { close(log[0]) }
        let server = try ProxyServer(
            parts: try parts(origin),
            log: try LogWriter(descriptor: log[1], closing: true),
            monitoring: .command
        )
        let proxy = server.listening[0].address
        let responses: (PlainClient.Response, PlainClient.Response)
        do {
            responses = (
                try PlainClient.get(host: rightHost, path: path, proxy: proxy),
                try PlainClient.get(host: wrongHost, path: path, proxy: proxy)
            )
        } catch {
            server.stop()
            throw error
        }
        // The server writes out the log and closes its end of the pipe.
        server.stop()
        let lines = readAll(log[0]).split(separator: "\n")
        func scene(_ host: String, _ response: PlainClient.Response) -> Scene {
            Scene(
                host: host,
                response: response,
                originReceived: origin.requestBytes(for: host),
                logLine: lines.first { $0.contains("//\(host)") }.map(String.init) ?? ""
            )
        }
        return Demo(
            proxyAddress: proxy,
            originAddress: origin.address,
            right: scene(rightHost, responses.0),
            wrong: scene(wrongHost, responses.1)
        )
    }

    private static func parts(_ origin: DemoOrigin) throws -> PolicyParts {
        var configuration = Configuration()
        configuration.workers = 1
        configuration.listeners = [
            ListenerConfiguration(endpoint: .address(AddressAndPort(IPAddress(ipv4: 0x7F00_0001), 0)))
        ]
        var parts = PolicyParts(
            configuration: configuration,
            pinnedDomains: PinnedDomains(),
            trustAnchors: TrustAnchors(certificates: [])
        )
        try DemoHost(name: rightHost, origin: origin, pin: origin.pin).add(to: &parts)
        try DemoHost(name: wrongHost, origin: origin, pin: KeyPair(.p256).pin).add(to: &parts)
        return parts
    }

    private static func readAll(_ descriptor: Int32) -> String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += chunk[..<count]
        }
    }
}
