/// A stored response as an operator is told of it.
public struct CacheListing: Hashable, Sendable {
    /// The URL, without a port that says nothing.
    public let url: String
    /// What keeps it from other clients; empty where all share it.
    public let partition: String
    public let status: Int
    /// Of the body, in bytes.
    public let length: Int
    /// When it was received or last validated, in seconds since 1970.
    public let storedAt: Int
    /// The first second at which it is stale.
    public let freshUntil: Int
    /// By which it may be purged together with others.
    public let tags: [String]
    /// The fields of requests that it is for, in lower case, without their values.
    public let varies: [String]

    init(_ entry: CachedEntry) {
        func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
        let response = entry.response
        let freshness = response.freshness(now: response.responseTime)
        url = text(Self.withoutDefaultPort(entry.key.url))
        partition = text(entry.key.partition)
        status = response.status
        length = entry.body.count
        storedAt = response.responseTime
        freshUntil = response.responseTime + freshness.lifetime - freshness.age
        tags = entry.tags.map(text)
        varies = response.selecting.names.map(text)
    }

    private static func withoutDefaultPort(_ url: ArraySlice<UInt8>) -> [UInt8] {
        let port = Array((url.starts(with: "https:".utf8) ? ":443" : ":80").utf8)
        // Behind the two slashes.
        let authority = url.dropFirst(url.starts(with: "https:".utf8) ? 8 : 7)
        let end = authority.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? authority.endIndex
        guard url[..<end].suffix(port.count).elementsEqual(port) else { return Array(url) }
        return Array(url[..<(end - port.count)] + url[end...])
    }
}

extension CacheStore {
    /// What was stored or validated last, the latest first: for operators. On disk, where an entry that is validated keeps
    /// its turn, that is nearly so.
    ///
    /// - Parameters:
    ///   - host: in its normal form, IPv6 in brackets; nil for all hosts.
    ///   - limit: how many at most.
    ///   - deliver: has the completion called where the caller wants it.
    public func list(
        host: String? = nil,
        atMost limit: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable ([CacheListing]) -> Void
    ) {
        @Sendable func latest(_ entries: [CachedEntry]) -> [CachedEntry] {
            Array(entries.sorted { $0.response.responseTime > $1.response.responseTime }.prefix(limit))
        }
        let wanted = host.map { Array($0.utf8) }
        let inMemory = latest(
            memory.allEntries.filter { entry in wanted.map { entry.key.host.elementsEqual($0) } ?? true }
        )
        guard let disk else { return deliver { completion(inMemory.map(CacheListing.init)) } }
        // A large body gets its row later than a small one that came behind it.
        disk.list(host: host, atMost: min(limit, 1 << 20) + 100, deliver: deliver) { [memory] onDisk in
            let others = onDisk.filter { entry in
                !memory.entries(for: entry.key).contains { $0.replaces(entry) }
            }
            completion(latest(inMemory + others).map(CacheListing.init))
        }
    }
}
