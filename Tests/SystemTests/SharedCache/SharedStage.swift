// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// An origin whose responses follow from path and version. A path `/65537/x` has a body of that many bytes, others of 100.
final class VersionedOrigin: Sendable {
    let server: TestServer
    let port: UInt16
    private let origin: ScriptedOrigin
    private let versions: Monitor<[String: Int]>
    private let counts: Monitor<[String: Int]>

    /// - Parameters:
    ///   - fields: of a response besides ETag and X-Version.
    ///   - before: runs before a request is looked at.
    init(
        fields: @escaping @Sendable (_ request: HTTPMessage, _ version: Int) -> [String] = { _, _ in
            ["Cache-Control: max-age=600"]
        },
        before: @escaping @Sendable (HTTPMessage) throws -> Void = { _ in }
    ) throws {
        let versions = Monitor<[String: Int]>([:])
        let counts = Monitor<[String: Int]>([:])
        self.versions = versions
        self.counts = counts
        server = try Stage.pki.server(Stage.host)
        origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                let path = request.target
                counts.with { $0[path, default: 0] += 1 }
                try before(request)
                guard request.method == "GET" else {
                    versions.with { $0[path] = ($0[path] ?? 1) + 1 }
                    try connection.write(OriginResponse.text("done"))
                    continue
                }
                let version = versions.read { $0[path] ?? 1 }
                // Each language has a tag of its own.
                let variant = (request["Accept-Language"] ?? "").filter(\.isLetter)
                let tag = "\"\(path)-\(version)-\(variant)\""
                let isKnown = request["If-None-Match"]?.contains(tag) == true
                let body = Self.body(path, version)
                var lines = [
                    isKnown ? "HTTP/1.1 304 Not Modified" : "HTTP/1.1 200 OK", "ETag: \(tag)", "X-Version: \(version)",
                ]
                lines += fields(request, version)
                if !isKnown { lines.append("Content-Length: \(body.count)") }
                let head = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
                try connection.write(isKnown ? head : head + body)
            }
        }
        port = origin.port
    }

    static func body(_ path: String, _ version: Int) -> [UInt8] {
        let seed = "\(path) \(version)".utf8.reduce(UInt64(14_695_981_039_346_656_037)) {
            ($0 ^ UInt64($1)) &* 1_099_511_628_211
        }
        return patternBytes(path.split(separator: "/").first.flatMap { Int($0) } ?? 100, seed: seed)
    }

    func version(of path: String) -> Int { versions.read { $0[path] ?? 1 } }

    /// Makes the next version of each.
    func change(_ paths: String...) { change(paths) }

    func change(_ paths: [String]) {
        versions.with { for path in paths { $0[path] = ($0[path] ?? 1) + 1 } }
    }

    /// The number of requests for a path, those for validation included.
    func count(_ path: String) -> Int { counts.read { $0[path] ?? 0 } }

    var count: Int { counts.read { $0.values.reduce(0, +) } }
}

/// What a client of a machine has got, of which every byte is the origin's.
struct SeenResponse {
    let response: HTTPMessage
    let version: Int

    var status: String { response["Cache-Status"] ?? "" }
    /// Whether it came from the shared cache: the only place that knows how it is said.
    var isShared: Bool { status.contains("hit") && status.contains("detail=shared") }
}

/// A pinproxy as its clients and its owner reach it, for any thread.
struct Machine: Sendable {
    let port: UInt16
    let admin: UInt16

    func ask(_ method: String, _ path: String, fields: [String] = [], body: String? = nil) throws -> HTTPMessage {
        let client = try TestClient(port: port)
        try client.send(ProxyUnderTest.request(method, "http://\(Stage.host)\(path)", fields: fields, body: body))
        return try client.readResponse(to: method)
    }

    /// GET, with a look at every byte of the response.
    @discardableResult
    func get(_ path: String, fields: [String] = [], _ place: SourceLocation = #_sourceLocation) throws -> SeenResponse {
        try Self.look(at: try ask("GET", path, fields: fields), of: path, place)
    }

    @discardableResult
    static func look(
        at response: HTTPMessage,
        of path: String,
        _ place: SourceLocation = #_sourceLocation
    ) throws -> SeenResponse {
        #expect(
            response.status == 200,
            "\(path): \(response.fields) \(response.text.prefix(500))",
            sourceLocation: place
        )
        let version = Int(response["X-Version"] ?? "") ?? 0
        let difference = firstDifference(response.body, VersionedOrigin.body(path, version))
        #expect(difference == nil, "\(path), version \(version): \(difference ?? "")", sourceLocation: place)
        #expect(response["ETag"]?.hasPrefix("\"\(path)-\(version)-") == true, "\(path)", sourceLocation: place)
        return SeenResponse(response: response, version: version)
    }

    private func owner(_ method: String, _ target: String) throws -> HTTPMessage {
        let client = try TestClient(port: admin)
        try client.send("\(method) \(target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return try client.readResponse(to: method)
    }

    /// Purges what a query names, as `tag=red` or `all`.
    ///
    /// - Returns: whether the shared cache has confirmed it.
    func purge(_ name: String, _ value: String? = nil, isSoft: Bool = false) throws -> Bool {
        let encoded = value?.addingPercentEncoding(withAllowedCharacters: .alphanumerics)
        let query = name + (encoded.map { "=\($0)" } ?? "") + (isSoft ? "&soft" : "")
        let response = try owner("DELETE", "/cache?\(query)")
        let object = try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any]
        guard response.status == 200, let object else {
            throw ChildProcess.Failure(description: "purge of \(query): \(response.startLine) \(response.text)")
        }
        return object["shared"] as? Bool ?? false
    }

    /// A sample of the metrics, as `pinproxy_shared_cache_lookups_total{result="hit"}`; nil when there is none.
    func metric(_ name: String) throws -> Int? {
        let page = try owner("GET", "/metrics").text
        let line = page.split(separator: "\n").first { $0.hasPrefix("\(name) ") }
        return line.flatMap { Double($0.dropFirst(name.utf8.count + 1)) }.map { Int($0) }
    }

    /// The number of look-ups with a result: `hit`, `miss`, `timeout` or `failed`.
    func lookUps(_ result: String) throws -> Int {
        try metric("pinproxy_shared_cache_lookups_total{result=\"\(result)\"}") ?? 0
    }

    var storedCount: Int {
        get throws { try metric("pinproxy_shared_cache_stored_total") ?? 0 }
    }

    /// Waits until it has stored so many responses in Redis.
    func waitForStored(_ count: Int) throws {
        try Patience.poll(for: "\(count) responses in Redis", every: 0.02) { try storedCount >= count ? true : nil }
    }

    /// Whether a server is of use, as the metrics say.
    func waitForServer(_ server: String, isUp: Bool, _ meanwhile: () throws -> Void = {}) throws {
        try Patience.poll(for: "\(server) to be \(isUp ? "up" : "down")", every: 0.1) {
            try meanwhile()
            return try metric("pinproxy_shared_cache_server_up{server=\"\(server)\"}") == (isUp ? 1 : 0) ? true : nil
        }
    }
}

/// Some pinproxies with one cache in Redis, before one origin.
struct SharedStage {
    static let prefix = "test:"
    /// The owner's key, as `openssl rand -base64 32` writes it.
    static let key = Data(patternBytes(32)).base64EncodedString() + "\n"

    let origin: VersionedOrigin
    /// Of each machine.
    let settings: [ProxySettings]
    let proxies: [ProxyUnderTest]
    let machines: [Machine]

    /// - Parameters:
    ///   - redis: `cache.redis`.
    ///   - change: changes the settings of one machine.
    init(
        _ redis: [String: Any],
        machines count: Int = 2,
        origin: VersionedOrigin? = nil,
        _ change: (_ machine: Int, _ settings: inout ProxySettings) -> Void = { _, _ in }
    ) throws {
        let origin = try origin ?? VersionedOrigin()
        self.origin = origin
        settings = (0..<count).map { machine in
            var settings = ProxySettings(trusting: Stage.pki)
            settings.serve(Stage.host, origin.server, at: origin.port)
            settings.members["workers"] = 1
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.members["cache"] = ["redis": redis]
            settings.files["shared.key"] = Self.key
            change(machine, &settings)
            return settings
        }
        proxies = try settings.map { try ProxyUnderTest($0) }
        machines = proxies.map { Machine(port: $0.port, admin: $0.port(of: $0.listening.count - 1)) }
    }

    subscript(machine: Int) -> Machine { machines[machine] }

    /// `cache.redis` for some servers. The time is longer than the usual one: a busy machine's pauses are no subject of most tests.
    static func redis(_ servers: [RedisProcess], timeout: String = "1s") -> [String: Any] {
        redis(servers.map(\.address).joined(separator: ","), timeout: timeout)
    }

    static func redis(_ addresses: String, timeout: String = "1s") -> [String: Any] {
        ["url": "redis://\(addresses)", "prefix": prefix, "keyFile": "shared.key", "timeout": timeout]
    }

    /// Has a machine fetch paths, one after the other, and waits until they are in Redis.
    func store(_ paths: [String], by machine: Int = 0) throws {
        let before = try self[machine].storedCount
        for path in paths { try self[machine].get(path) }
        try self[machine].waitForStored(before + paths.count)
    }

    /// Changes a machine's settings and lets it read them.
    @discardableResult
    func reload(_ machine: Int, _ change: (inout ProxySettings) -> Void) throws -> LogLine {
        var settings = settings[machine]
        change(&settings)
        return try proxies[machine].reload(settings)
    }

    /// Sets members of `cache.redis`.
    static func setRedis(_ members: [String: Any], in settings: inout ProxySettings) {
        var cache = settings.members["cache"] as? [String: Any] ?? [:]
        cache["redis"] = (cache["redis"] as? [String: Any] ?? [:]).merging(members) { $1 }
        settings.members["cache"] = cache
    }

    /// Waits for a word in the events of a machine: servers that are of no use are logged with the reason.
    func waitForLog(_ machine: Int, _ word: String) throws {
        try Patience.poll(for: "\(word) in the log", every: 0.05) {
            proxies[machine].errors.contains(word) ? true : nil
        }
    }
}
