// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import ProxyCore
import ServerTrust

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

    static func document(_ figures: CacheFigures) -> String {
        var text = ByteBuffer()
        text.append("{\"shared\":")
        text.append(figures.isShared ? "true" : "false")
        append(figures.counts, to: &text)
        text.append(member: "stored", figures.counts.stored)
        text.append(member: "collapsed", figures.counts.collapsed)
        text.append(member: "waiting", figures.waiting)
        text.append(",\"memory\":{\"entries\":")
        text.append(decimal: figures.memory.entries)
        text.append(member: "bytes", figures.memory.bytes)
        text.append(member: "capacity", figures.memoryCapacity)
        text.append(member: "evictions", figures.memory.evictions)
        text.append("}")
        if let disk = figures.disk {
            text.append(",\"disk\":{\"path\":")
            text.append(jsonString: disk.path)
            text.append(member: "entries", disk.statistics.entries)
            text.append(member: "bytes", disk.statistics.bytes)
            text.append(member: "capacity", disk.capacity)
            text.append(member: "evictions", disk.statistics.evictions)
            if let reason = disk.statistics.offBecause {
                text.append(",\"offBecause\":")
                text.append(jsonString: reason)
            }
            text.append("}")
        }
        text.append(",\"hosts\":[")
        for (index, host) in figures.hosts.enumerated() {
            text.append(index == 0 ? "{\"host\":" : ",{\"host\":")
            text.append(jsonString: host.host)
            append(host.counts, to: &text)
            text.append(member: "stored", host.counts.stored)
            text.append(member: "collapsed", host.counts.collapsed)
            text.append("}")
        }
        text.append("],\"rules\":[")
        for (index, rule) in figures.rules.enumerated() {
            text.append(index == 0 ? "{\"host\":" : ",{\"host\":")
            text.append(jsonString: rule.entry)
            text.append(member: "rule", rule.place)
            text.append(",\"text\":")
            text.append(jsonString: rule.text)
            text.append(member: "matches", rule.matches)
            text.append("}")
        }
        text.append("]}\n")
        return String(copying: text.bytes)
    }

    /// `,"requests":{…}`
    private static func append(_ counts: ResponseCache.Counts, to text: inout ByteBuffer) {
        text.append(",\"requests\":{")
        for (index, request) in CacheFigures.requests(counts).enumerated() {
            text.append(index == 0 ? "\"" : ",\"")
            text.append(request.outcome.text)
            text.append("\":")
            text.append(decimal: request.count)
        }
        text.append("}")
    }

    /// - Parameter log: masks the same values as the task log.
    static func document(_ entries: [CacheListing], masking log: TaskLogLine) -> String {
        var text = ByteBuffer()
        text.append("{\"entries\":[")
        for (index, entry) in entries.enumerated() {
            text.append(index == 0 ? "\n{\"url\":\"" : ",\n{\"url\":\"")
            log.writeTarget(Array(entry.url.utf8).span, to: &text)
            text.append("\"")
            if !entry.partition.isEmpty {
                text.append(",\"user\":")
                text.append(jsonString: entry.partition)
            }
            text.append(member: "status", entry.status)
            text.append(member: "bytes", entry.length)
            text.append(member: "stored", time: entry.storedAt)
            text.append(member: "freshUntil", time: entry.freshUntil)
            text.append(member: "varies", texts: entry.varies)
            text.append(member: "tags", texts: entry.tags)
            text.append("}")
        }
        text.append("]}\n")
        return String(copying: text.bytes)
    }

    /// The removals that find a URL's responses under the owner's rules for keys, whatever parameters it names.
    static func widened(_ purge: Purge, under snapshot: PolicySnapshot) -> [Purge] {
        guard case .uri(let key) = purge, let url = AbsoluteURL(Array(key.url).span) else { return [purge] }
        return snapshot.policy(for: url.origin.host).configuration.cache.keys.keys(of: url).map { .uri($0) }
    }

    static func document(purged count: Int, softly: Bool) -> String {
        "{\"\(softly ? "expired" : "removed")\":\(count)}\n"
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

extension ByteBuffer {
    /// `,"name":1`
    fileprivate mutating func append(member name: StaticString, _ value: Int) {
        begin(name)
        append(decimal: value)
    }

    /// - Parameter time: in seconds since 1970.
    fileprivate mutating func append(member name: StaticString, time: Int) {
        begin(name)
        append(jsonString: Timestamp.text(unixSeconds: Int64(time)))
    }

    /// Appends nothing for an empty list.
    fileprivate mutating func append(member name: StaticString, texts: [String]) {
        guard !texts.isEmpty else { return }
        begin(name)
        for (index, text) in texts.enumerated() {
            append(index == 0 ? "[" : ",")
            append(jsonString: text)
        }
        append("]")
    }

    private mutating func begin(_ name: StaticString) {
        append(",\"")
        append(name)
        append("\":")
    }
}
