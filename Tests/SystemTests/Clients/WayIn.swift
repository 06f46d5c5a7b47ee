// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// The ways into the proxy, each over a listener of its kind.
enum WayIn: CaseIterable {
    /// Absolute-form `http://`, upgraded.
    case http
    /// Absolute-form `https://`.
    case https
    /// Origin-form to a gateway listener.
    case gateway
    /// Absolute-form over a Unix socket.
    case unixSocket
    /// curl with `--unix-socket` to a gateway.
    case unixGateway

    /// Adds the listeners for all of them, in the order in which `get` expects them.
    static func addListeners(to settings: inout ProxySettings, host: String, folder: TemporaryFolder) {
        settings.addGateway(to: host)
        settings.addUnixSocket("\(folder.path)/forward.sock")
        settings.addUnixSocket("\(folder.path)/gateway.sock", gatewayTo: host)
    }

    private static let gatewayListener = 1
    private static let unixListener = 2
    private static let unixGatewayListener = 3

    func get(_ path: String, of host: String, through proxy: ProxyUnderTest) throws -> HTTPMessage {
        switch self {
        case .http:
            return try proxy.get("http://\(host)\(path)")
        case .https:
            return try proxy.get("https://\(host)\(path)")
        case .gateway:
            let port = proxy.port(of: Self.gatewayListener)
            return try proxy.exchange(
                "GET \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n",
                on: Self.gatewayListener
            )
        case .unixSocket:
            return try proxy.exchange(ProxyUnderTest.request("GET", "http://\(host)\(path)"), on: Self.unixListener)
        case .unixGateway:
            let socket = proxy.listening[Self.unixGatewayListener].unixPath ?? ""
            let curl = try Programs.run("curl", ["-sS", "-i", "--unix-socket", socket, "http://localhost\(path)"])
            guard curl.exitCode == 0 else {
                throw ChildProcess.Failure(description: "curl ended with \(curl.exitCode): \(curl.errors)")
            }
            var reader = MessageReader()
            var pieces = [Array(curl.output.utf8)]
            guard let message = try reader.message(.response(to: "GET"), from: { pieces.popLast() ?? [] }) else {
                throw MessageReader.Malformed(description: "curl printed no answer")
            }
            return message
        }
    }
}
