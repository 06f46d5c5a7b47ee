// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import TestSupport

@testable import HTTPSessionCore
@testable import SessionCore

/// A manager with a cache, and its origin.
struct CacheFixture {
    let cache: SessionCache
    let stage: ManagerStage
    var manager: URLSessionManager { stage.manager }
    /// Targets, with the method where it is not GET.
    var asked: [String] {
        stage.origin.requests.map { $0.method == "GET" ? $0.target : "\($0.method) \($0.target)" }
    }

    init(
        cache: SessionCache? = nil,
        pinned: [String] = [],
        successor: TestServer? = nil,
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws {
        let cache = try cache ?? SessionCache()
        self.cache = cache
        stage = try ManagerStage(pinned: pinned, successor: successor) { configuration in
            configuration.cache = cache
            change(&configuration)
        } script: {
            try script($0)
        }
    }

    init(
        cache: SessionCache? = nil,
        _ change: (inout URLSessionManager.Configuration) -> Void = { _ in },
        responding response: @escaping @Sendable (HTTPMessage) -> String
    ) throws {
        try self.init(cache: cache, change) { connection in
            while let request = try connection.readRequest() { try connection.write(response(request)) }
        }
    }

    /// Numbers its answers from 1, with these fields.
    static func counting(_ fields: String...) -> @Sendable (HTTPMessage) -> String {
        let count = Monitor(0)
        return { _ in
            let number = count.with {
                $0 += 1
                return $0
            }
            return OriginResponse.text("\(number)", fields: fields)
        }
    }

    func request(
        _ path: String = "/",
        _ method: HTTPMethod = .get,
        policy: CachePolicy? = nil,
        _ fields: (String, String)...
    ) throws -> HTTPSessionRequest {
        var request = HTTPSessionRequest(url: ManagerStage.url(path), method: method, cachePolicy: policy)
        for (name, value) in fields { request.headers.append(name: name, value: value) }
        return request
    }

    func response(_ request: HTTPSessionRequest) async throws -> DataResponse {
        try await manager.dataTask(with: request).value()
    }

    /// The body of the answer to a GET.
    func get(_ path: String = "/", policy: CachePolicy? = nil) async throws -> String {
        try await response(request(path, policy: policy)).text
    }

    func end() async { await stage.end() }
}

extension DataResponse {
    var text: String { String(decoding: data, as: UTF8.self) }
    /// Where each transaction's answer came from, and its status.
    var sources: [String] {
        (metrics.earlierTransactions + [metrics.transaction]).map { "\($0.resourceFetchType) \($0.status)" }
    }
}
