// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport

/// A pinned host behind a proxy with a cache.
struct CacheFixture {
    let stage: Stage
    var proxy: ProxyUnderTest { stage.proxy }
    var origin: ScriptedOrigin { stage.origin }
    /// The requests that the origin has received.
    var requests: [HTTPMessage] { stage.origin.requests }

    /// - Parameters:
    ///   - cache: of the configuration.
    ///   - host: `cache` of the host's entry.
    init(
        _ cache: [String: Any] = [:],
        host: [String: Any]? = nil,
        _ change: (inout ProxySettings) -> Void = { _ in },
        environment: [String: String] = [:],
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws {
        try self.init(cache, host: host, change, environment: environment) { connection in
            while let request = try connection.readRequest() { try connection.write(response(request)) }
        }
    }

    init(
        _ cache: [String: Any] = [:],
        host: [String: Any]? = nil,
        _ change: (inout ProxySettings) -> Void = { _ in },
        environment: [String: String] = [:],
        script: @escaping ScriptedOrigin.Script
    ) throws {
        stage = try Stage(
            {
                $0.members["cache"] = cache
                // One, so that requests come to the origin, and lines into the log, in their order.
                $0.members["workers"] = 1
                if let host { $0.hosts[Stage.host]?["cache"] = host }
                change(&$0)
            },
            environment: environment,
            script: script
        )
    }

    func get(_ path: String = "/", fields: [String] = []) throws -> HTTPMessage { try stage.get(path, fields: fields) }

    /// Any method.
    func ask(_ method: String, _ path: String = "/", fields: [String] = [], body: String? = nil) throws -> HTTPMessage {
        let length = body.map { ["Content-Length: \($0.utf8.count)"] } ?? []
        let head = ProxyUnderTest.request(method, stage.url(path), fields: fields + length)
        return try proxy.exchange(head + (body ?? ""), method: method)
    }

    /// The cache's outcome in each line of the log.
    func outcomes(_ count: Int) throws -> [String] {
        try proxy.waitForTaskLines(count).map { $0.string("cache") ?? "-" }
    }

    /// Ends a proxy, which has its disk take what waits for it, and starts another.
    static func restart(_ proxy: ProxyUnderTest, with settings: ProxySettings) throws -> ProxyUnderTest {
        _ = try proxy.terminate()
        return try ProxyUnderTest(settings)
    }

    /// An answer that is fresh for an hour.
    static func fresh(_ body: String, _ fields: [String] = []) -> String {
        OriginResponse.text(body, fields: ["Content-Type: text/plain", "Cache-Control: max-age=3600"] + fields)
    }
}
