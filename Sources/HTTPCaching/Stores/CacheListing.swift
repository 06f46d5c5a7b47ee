// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A stored response in a listing for operators.
public struct CacheListing: Hashable, Sendable {
    /// The URL, without a default port.
    public let url: String
    /// The partition that separates it from other clients; empty when all share it.
    public let partition: String
    /// 206 for a response of which only parts are stored.
    public let status: Int
    /// The length of the body, or of its stored parts together, in bytes.
    public let length: Int
    /// The time of its receipt or last validation, in seconds since 1970.
    public let storedAt: Int
    /// The first second at which it is stale.
    public let freshUntil: Int
    /// The tags for purging it together with others.
    public let tags: [String]
    /// The names of the request fields in its key, and of its selecting ones, in lower case, without values.
    public let varies: [String]

    init(_ entry: CachedEntry) {
        func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
        let response = entry.response
        let freshness = response.freshness(now: response.responseTime)
        url = text(Self.withoutDefaultPort(entry.key.url))
        partition = text(entry.key.partition)
        status = entry.parts == nil ? response.status : 206
        length = entry.parts?.count ?? entry.body.count
        storedAt = response.responseTime
        freshUntil = response.responseTime.addingSaturated(freshness.lifetime).subtractingSaturated(freshness.age)
        tags = entry.tags.map(text)
        varies = (CacheKeyTerms.fieldNames(ofVariant: entry.key.variant) + response.selecting.names).map(text)
    }

    private static func withoutDefaultPort(_ url: ArraySlice<UInt8>) -> [UInt8] {
        let port = Array((url.starts(with: "https:".utf8) ? ":443" : ":80").utf8)
        // The index after the two slashes.
        let authority = url.dropFirst(url.starts(with: "https:".utf8) ? 8 : 7)
        let end = authority.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? authority.endIndex
        guard url[..<end].suffix(port.count).elementsEqual(port) else { return Array(url) }
        return Array(url[..<(end - port.count)] + url[end...])
    }
}

extension CacheStore {
    /// The entries that were stored or validated last, the latest first: for operators. The order is approximate on
    /// disk, where a validated entry keeps its place.
    ///
    /// - Parameters:
    ///   - host: in its normal form, IPv6 in brackets; nil for all hosts.
    ///   - limit: the largest number of entries.
    ///   - deliver: runs the completion on the caller's thread or loop.
    ///   - completion: called once, with the result.
    public func list(
        host: String? = nil,
        atMost limit: Int,
        deliver: @escaping Delivery,
        _ completion: @escaping @Sendable ([CacheListing]) -> Void
    ) {
        @Sendable func latest(_ entries: [CachedEntry]) -> [CachedEntry] {
            Array(entries.sorted(by: Self.isListedBefore).prefix(limit))
        }
        let wanted = host.map { Array($0.utf8) }
        let inMemory = latest(
            memory.allEntries.filter { entry in wanted.map { entry.key.host.elementsEqual($0) } ?? true }
        )
        guard let disk else { return deliver { completion(inMemory.map(CacheListing.init)) } }
        // A large body may get its row later than a small one that arrived after it.
        disk.list(host: host, atMost: min(limit, 1 << 20) + 100, deliver: deliver) { [memory] onDisk in
            let others = onDisk.filter { entry in
                !memory.entries(for: entry.key).contains { $0.replaces(entry) }
            }
            completion(latest(inMemory + others).map(CacheListing.init))
        }
    }
    /// The latest first; those of one second by their URLs, partitions and variants, so that a list that is read twice is the same.
    private static func isListedBefore(_ one: CachedEntry, _ other: CachedEntry) -> Bool {
        let times = (one.response.responseTime, other.response.responseTime)
        guard times.0 == times.1 else { return times.0 > times.1 }
        for part in [\CacheKey.uri, \.partition, \.variant] where one.key[keyPath: part] != other.key[keyPath: part] {
            return one.key[keyPath: part].lexicographicallyPrecedes(other.key[keyPath: part])
        }
        return false
    }
}
