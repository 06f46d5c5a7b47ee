// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A table of values by host. The most specific domain applies: the exact host, otherwise the longest parent whose
/// entry includes its subdomains.
///
/// A lookup reads the name once, from end to start, with one probe for each label; its cost does not depend on the
/// number of entries, and it allocates nothing. Hosts are compared in normal form, and a subdomain begins at a dot:
/// `evilexample.com` is not a subdomain of `example.com`.
///
/// The lookups are inlined: a generic function of another module looks its types up at every call, and a route makes ten lookups.
@usableFromInline
package struct HostTable<Value> {
    @usableFromInline var index = HostIndex()
    private var hosts: [Host] = []
    @usableFromInline var values: [Value] = []

    package init() {}

    package var count: Int { values.count }

    package var isEmpty: Bool { values.isEmpty }

    /// - Returns: false without a change when `host` already has an entry.
    @discardableResult
    package mutating func insert(_ host: Host, includeSubdomains: Bool, _ value: Value) -> Bool {
        guard index.insert(host.bytes.span, includesSubdomains: includeSubdomains && host.kind == .name) else {
            return false
        }
        hosts.append(host)
        values.append(value)
        return true
    }

    @inlinable @inline(__always)
    package func lookup(_ host: Host) -> Value? {
        guard let found = index.lookup(host) else { return nil }
        return values[found]
    }

    /// Looks up a host in normal form, such as `Host.bytes` and `RequestHead.hostBytes`.
    @inlinable @inline(__always)
    package func lookup(bytes: borrowing Span<UInt8>, isName: Bool) -> Value? {
        guard let found = index.lookup(bytes, isName: isName) else { return nil }
        return values[found]
    }

    /// The value of exactly this host, without the rule for subdomains.
    @inlinable @inline(__always)
    package func exact(_ host: Host) -> Value? {
        guard let found = index.exact(host) else { return nil }
        return values[found]
    }

    /// Every entry, in the order of insertion.
    package func forEach(_ body: (_ host: Host, _ includesSubdomains: Bool, _ value: Value) -> Void) {
        for place in values.indices { body(hosts[place], index.includesSubdomains(place), values[place]) }
    }
}

extension HostTable: Sendable where Value: Sendable {}

/// The part of the table that is independent of the values: it maps a host to the number of its entry.
///
/// All names are in one array, so that a lookup needs no reference counting.
@usableFromInline
struct HostIndex: Sendable {
    private struct Entry: Sendable {
        let start: UInt32
        let count: UInt32
        let hash: UInt32
        let includesSubdomains: Bool
    }

    private var names: [UInt8] = []
    private var entries: [Entry] = []
    /// Open addressing: the number of an entry plus one, 0 for a free slot. The size is a power of two, at most half
    /// full.
    private var slots: [UInt32] = Array(repeating: 0, count: 16)

    func includesSubdomains(_ entry: Int) -> Bool { entries[entry].includesSubdomains }

    mutating func insert(_ host: borrowing Span<UInt8>, includesSubdomains: Bool) -> Bool {
        let hash = Self.hash(host)
        guard find(host, from: 0, hash) == nil else { return false }
        entries.append(
            Entry(
                start: UInt32(names.count),
                count: UInt32(host.count),
                hash: hash,
                includesSubdomains: includesSubdomains
            )
        )
        names.append(host)
        if entries.count * 2 > slots.count {
            slots = Array(repeating: 0, count: slots.count * 2)
            for entry in entries.indices { place(entry) }
        } else {
            place(entries.count - 1)
        }
        return true
    }

    @usableFromInline
    func exact(_ host: Host) -> Int? {
        let bytes = host.bytes.span
        return find(bytes, from: 0, Self.hash(bytes))
    }

    @usableFromInline
    func lookup(_ host: Host) -> Int? { lookup(host.bytes.span, isName: host.kind == .name) }

    @usableFromInline
    func lookup(_ host: borrowing Span<UInt8>, isName: Bool) -> Int? {
        guard !entries.isEmpty else { return nil }
        var best: Int?
        var hash = Self.seed
        var index = host.count
        while index > 0 {
            index &-= 1
            let byte = host[index]
            if byte == ASCII.dot, isName, let found = find(host, from: index &+ 1, hash),
                entries[found].includesSubdomains
            {
                best = found
            }
            hash = Self.mix(hash, byte)
        }
        return find(host, from: 0, hash) ?? best
    }

    /// From the end to the start, so that the hash of each parent is computed on the way.
    private static func hash(_ host: borrowing Span<UInt8>) -> UInt32 {
        var hash = seed
        var index = host.count
        while index > 0 {
            index &-= 1
            hash = mix(hash, host[index])
        }
        return hash
    }

    private static var seed: UInt32 { 2_166_136_261 }

    @inline(__always)
    private static func mix(_ hash: UInt32, _ byte: UInt8) -> UInt32 {
        (hash ^ UInt32(byte)) &* 16_777_619
    }

    private mutating func place(_ entry: Int) {
        let mask = slots.count - 1
        var slot = Int(entries[entry].hash) & mask
        while slots[slot] != 0 { slot = (slot + 1) & mask }
        slots[slot] = UInt32(entry + 1)
    }

    /// The entry whose host equals the suffix of `bytes` from `start`.
    private func find(_ bytes: borrowing Span<UInt8>, from start: Int, _ hash: UInt32) -> Int? {
        let mask = slots.count &- 1
        var slot = Int(hash) & mask
        while slots[slot] != 0 {
            let found = Int(slots[slot]) &- 1
            let entry = entries[found]
            if entry.hash == hash {
                let name = names.span.extracting(Int(entry.start)..<Int(entry.start &+ entry.count))
                if name.equals(bytes.extracting(start..<bytes.count)) { return found }
            }
            slot = (slot &+ 1) & mask
        }
        return nil
    }
}
