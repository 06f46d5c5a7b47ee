// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport

/// The set-up of most tests: a host at a scripted origin, pinned to its key, behind a proxy of its own.
struct Stage {
    static let host = "api.example.com"
    /// One for all tests: making it costs more than a request.
    static let pki = try! TestPKI()

    let server: TestServer
    let origin: ScriptedOrigin
    let proxy: ProxyUnderTest
    /// The settings that the proxy was started with.
    let settings: ProxySettings

    /// Plays the script on each connection of the origin.
    init(
        _ change: (inout ProxySettings) -> Void = { _ in },
        environment: [String: String] = [:],
        script: @escaping ScriptedOrigin.Script
    ) throws {
        server = try Self.pki.server(Self.host)
        origin = try ScriptedOrigin(server, script: script)
        var settings = ProxySettings(trusting: Self.pki)
        settings.serve(Self.host, server, at: origin.port)
        change(&settings)
        self.settings = settings
        proxy = try ProxyUnderTest(settings, environment: environment)
    }

    /// An origin that answers every request, as long as the connection lasts.
    init(
        _ change: (inout ProxySettings) -> Void = { _ in },
        environment: [String: String] = [:],
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws {
        try self.init(change, environment: environment) { connection in
            while let request = try connection.readRequest() { try connection.write(response(request)) }
        }
    }

    /// Takes other settings in by SIGHUP.
    @discardableResult
    func reload(_ change: (inout ProxySettings) -> Void) throws -> LogLine {
        var settings = settings
        change(&settings)
        return try proxy.reload(settings)
    }

    /// A URL of the host in the form that is upgraded.
    func url(_ path: String = "/") -> String { "http://\(Self.host)\(path)" }

    /// GET through the proxy.
    func get(_ path: String = "/", fields: [String] = []) throws -> HTTPMessage {
        try proxy.get(url(path), fields: fields)
    }
}
