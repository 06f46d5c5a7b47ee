// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
package import ServerTrust

/// An HTTPS proxy, or one without TLS: it takes CONNECT, and tunnels all connections to one port.
package final class HTTPSProxy: Sendable {
    /// The response to a CONNECT that opens a tunnel.
    package static let opened = "HTTP/1.1 200 Connection established\r\nX-Proxy: a\r\n\r\n"

    package let port: UInt16
    /// The head of each CONNECT.
    package let asked = Monitor<[String]>([])
    /// The bytes through the tunnels, in both directions.
    package let seen = Monitor<[UInt8]>([])
    private let server: ScriptedOrigin

    /// - Parameters:
    ///   - identity: the proxy's certificate; nil for a proxy without TLS.
    ///   - origin: the port that tunnels lead to.
    ///   - recordSize: the largest number of bytes in one TLS record to the client.
    ///   - response: the response to the CONNECT of that connection; a tunnel is made when it begins with a 200.
    package init(
        _ identity: TestServer?,
        to origin: UInt16,
        successor: TestServer? = nil,
        maximum: TLSVersion = .tls13,
        recordSize: Int = 16 << 10,
        response: @escaping @Sendable (Int) -> String = { _ in opened }
    ) throws {
        let asked = asked
        let seen = seen
        server = try ScriptedOrigin(identity, successor: successor, maximum: maximum) { connection in
            guard let head = try Self.readHead(connection) else { return }
            asked.with { $0.append(head) }
            let response = response(connection.number)
            try connection.write(response)
            guard response.hasPrefix("HTTP/1.1 200 ") else { return }
            let socket = try TestSocket.connect(port: origin)
            defer { close(socket) }
            connection.relay(with: socket, recordSize: recordSize, seen: seen)
        }
        port = server.port
    }

    /// Runs the script on each connection, behind the head of its CONNECT.
    package init(_ identity: TestServer?, script: @escaping @Sendable (OriginConnection) throws -> Void) throws {
        let asked = asked
        server = try ScriptedOrigin(identity) { connection in
            guard let head = try Self.readHead(connection) else { return }
            asked.with { $0.append(head) }
            try script(connection)
        }
        port = server.port
    }

    private static func readHead(_ connection: OriginConnection) throws -> String? {
        var head: [UInt8] = []
        while !head.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            let bytes = connection.read()
            guard !bytes.isEmpty else { return nil }
            head += bytes
        }
        return String(decoding: head, as: UTF8.self)
    }

    /// The first line of each CONNECT.
    package var targets: [String] { asked.with { $0.map { String($0.prefix { $0 != "\r\n" }) } } }

    package var connections: [ScriptedOrigin.Record] { server.connections }

    package func waitForClosed(_ count: Int = 1) throws -> [ScriptedOrigin.Record] { try server.waitForClosed(count) }
}
