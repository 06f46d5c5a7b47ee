// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import SharedCaching
import StrictJSON

/// Requests of an operator about the cache, and their responses: JSON documents of one line.
enum CacheAdministration {
    enum Request {
        /// The cache's counts and contents.
        case figures
        /// The stored responses, latest first.
        case entries(host: Host?, limit: Int)
        /// Removes all of these, or makes them stale.
        case purge([Purge], softly: Bool)
    }

    /// The number of entries listed when the request names no limit.
    static let usualLimit = 100
    static let largestLimit = 10_000

    // MARK: Responses

    /// - Parameter shared: nil without a cache that machines share.
    static func document(_ figures: CacheFigures, _ shared: SharedCacheStatus? = nil) -> String {
        var line = JSONLine()
        line.add("shared", figures.isShared)
        add(figures.counts, to: &line)
        line.add("waiting", figures.waiting)
        var memory = JSONLine()
        memory.add("entries", figures.memory.entries)
        memory.add("bytes", figures.memory.bytes)
        memory.add("capacity", figures.memoryCapacity)
        memory.add("evictions", figures.memory.evictions)
        line.add("memory", memory)
        if let disk = figures.disk {
            var json = JSONLine()
            json.add("path", disk.path)
            json.add("entries", disk.statistics.entries)
            json.add("bytes", disk.statistics.bytes)
            json.add("capacity", disk.capacity)
            json.add("evictions", disk.statistics.evictions)
            if let reason = disk.statistics.offBecause { json.add("offBecause", reason) }
            line.add("disk", json)
        }
        if let shared { line.add("redis", shared.json) }
        line.add(
            "hosts",
            array: figures.hosts.map { host in
                var line = JSONLine()
                line.add("host", host.host)
                add(host.counts, to: &line)
                return line.object
            }
        )
        line.add(
            "rules",
            array: figures.rules.map { rule in
                var line = JSONLine()
                line.add("host", rule.entry)
                line.add("rule", rule.place)
                line.add("text", rule.text)
                line.add("matches", rule.matches)
                return line.object
            }
        )
        return line.text
    }

    private static func add(_ counts: ResponseCache.Counts, to line: inout JSONLine) {
        var requests = JSONLine()
        for (outcome, count) in CacheFigures.requests(counts) { requests.add("\(outcome.text)", count) }
        line.add("requests", requests)
        line.add("stored", counts.stored)
        line.add("collapsed", counts.collapsed)
    }

    /// - Parameter log: masks the same values as the task log.
    static func document(_ entries: [CacheListing], masking log: TaskLogLine) -> String {
        var line = JSONLine()
        // Each entry on a line of its own.
        line.add("entries", array: entries.map { "\n" + json($0, masking: log).object })
        return line.text
    }

    private static func json(_ entry: CacheListing, masking log: TaskLogLine) -> JSONLine {
        var url = ByteBuffer()
        url.append("\"")
        log.writeTarget(Array(entry.url.utf8).span, to: &url)
        url.append("\"")
        var line = JSONLine()
        line.add("url", json: String(copying: url.bytes))
        if !entry.partition.isEmpty { line.add("user", entry.partition) }
        line.add("status", entry.status)
        line.add("bytes", entry.length)
        line.add("stored", Timestamp.text(unixSeconds: Int64(entry.storedAt)))
        line.add("freshUntil", Timestamp.text(unixSeconds: Int64(entry.freshUntil)))
        if !entry.varies.isEmpty { line.add("varies", strings: entry.varies) }
        if !entry.tags.isEmpty { line.add("tags", strings: entry.tags) }
        return line
    }

    /// The removals that find a URL's responses under the owner's rules for keys, whatever parameters it names.
    static func widened(_ purge: Purge, under snapshot: PolicySnapshot) -> [Purge] {
        guard case .uri(let key) = purge, let url = AbsoluteURL(Array(key.url).span) else { return [purge] }
        return snapshot.policy(for: url.origin.host).configuration.cache.keys.keys(of: url).map { .uri($0) }
    }

    /// - Parameter isShared: whether the shared level has confirmed it; nil without one.
    static func document(purged count: Int, softly: Bool, isShared: Bool?) -> String {
        var line = JSONLine()
        line.add(softly ? "expired" : "removed", count)
        if let isShared { line.add("shared", isShared) }
        return line.text
    }
}

// MARK: - Requests

extension CacheAdministration.Request {
    /// Reads `?host=a.example&limit=20`; both parts are optional.
    static func entries(_ parameters: QueryParameters) throws(Problem) -> Self {
        var host: Host?
        var limit: Int?
        for (name, value) in parameters.all {
            switch name {
            case "host" where host == nil: host = try Self.host(value)
            case "limit" where limit == nil:
                guard let number = Int(value), (1...CacheAdministration.largestLimit).contains(number) else {
                    throw wrong("limit is a number from 1 to \(CacheAdministration.largestLimit).")
                }
                limit = number
            default: throw wrong("/cache/entries takes host and limit, each once; \"\(name)\" is none of them.")
            }
        }
        return .entries(host: host, limit: limit ?? CacheAdministration.usualLimit)
    }

    /// Reads one of `?url=…`, `?prefix=…`, `?host=…`, `?tag=…` and `?all`, perhaps with `soft`.
    static func purge(_ parameters: QueryParameters) throws(Problem) -> Self {
        let named = parameters.all.filter { $0.name != "soft" }
        let soft = parameters.all.filter { $0.name == "soft" }
        guard named.count == 1, let (name, value) = named.first else {
            throw wrong("Name one thing to purge: url, prefix, host, tag or all.")
        }
        guard soft.count <= 1, soft.allSatisfy(\.value.isEmpty) else { throw wrong("soft stands once, without value.") }
        return .purge(try purges(name, value), softly: !soft.isEmpty)
    }

    private static func purges(_ name: String, _ value: String) throws(Problem) -> [Purge] {
        switch name {
        case "url": return try keys(value).map { .uri($0) }
        case "prefix": return try keys(value).map { .prefix($0) }
        case "host": return [.host(try Self.host(value).authorityText)]
        case "tag":
            guard !value.isEmpty else { throw wrong("The tag is empty.") }
            return [.tag(value)]
        case "all":
            guard value.isEmpty else { throw wrong("all takes no value.") }
            return [.everything]
        default: throw wrong("Name one thing to purge: url, prefix, host, tag or all; \"\(name)\" is none of them.")
        }
    }

    /// The keys of a URL. An http URL may be upgraded, and its response is stored under https then.
    private static func keys(_ text: String) throws(Problem) -> [CacheKey] {
        guard let url = AbsoluteURL(text) else {
            throw wrong("The url is no http or https URL. Write all of it, as in https://api.example.com/v1/items.")
        }
        var origins = [url.origin]
        if url.origin.scheme == .http {
            let port = url.origin.port == 80 ? 443 : url.origin.port
            origins.append(Origin(scheme: .https, host: url.origin.host, port: port))
        }
        return origins.map { CacheKey(method: .get, origin: $0, target: url.target.span) }
    }

    private static func host(_ text: String) throws(Problem) -> Host {
        do throws(DomainName.Fault) {
            return try DomainName.host(text)
        } catch {
            throw wrong("The host is none: \(error.message).")
        }
    }

    private static func wrong(_ details: String) -> Problem { Problem(.requestInvalid, details) }
}
