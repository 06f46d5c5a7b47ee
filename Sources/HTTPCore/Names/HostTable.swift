import IOCore

/// Values by host, found by the most specific domain: the exact host, else the longest parent whose entry includes its
/// subdomains.
///
/// A lookup reads the name once, from its end to its front, and probes once a label; its cost does not depend on the
/// number of entries, and it allocates nothing. Hosts are compared in their normal form, and a subdomain begins at a
/// dot: `evilexample.com` is none of `example.com`.
package struct HostTable<Value> {
    fileprivate struct Entry {
        let host: Host
        let hash: UInt32
        let includesSubdomains: Bool
        var value: Value
    }

    private var entries: [Entry] = []
    /// Open addressing: the index of an entry plus one, 0 where free. Its size is a power of two, at most half full.
    private var slots: [UInt32] = Array(repeating: 0, count: 16)

    package init() {}

    package var count: Int { entries.count }

    package var isEmpty: Bool { entries.isEmpty }

    /// - Returns: false, and nothing changes, when `host` is already there.
    @discardableResult
    package mutating func insert(_ host: Host, includeSubdomains: Bool, _ value: Value) -> Bool {
        var hash = Self.seed
        for byte in host.bytes.reversed() { hash = Self.mix(hash, byte) }
        guard find(host.bytes.span, from: 0, hash) == nil else { return false }
        entries.append(
            Entry(
                host: host,
                hash: hash,
                includesSubdomains: includeSubdomains && host.kind == .name,
                value: value
            )
        )
        if entries.count * 2 > slots.count {
            slots = Array(repeating: 0, count: slots.count * 2)
            for index in entries.indices { place(index) }
        } else {
            place(entries.count - 1)
        }
        return true
    }

    package func lookup(_ host: Host) -> Value? {
        lookup(bytes: host.bytes.span, isName: host.kind == .name)
    }

    /// Takes a host in its normal form, as `Host.bytes` and `RequestHead.host` hold it.
    package func lookup(bytes: borrowing Span<UInt8>, isName: Bool) -> Value? {
        guard let index = lookupIndex(bytes, isName: isName) else { return nil }
        return entries[index].value
    }

    /// The value of exactly this host, subdomains aside.
    package func exact(_ host: Host) -> Value? {
        var hash = Self.seed
        for byte in host.bytes.reversed() { hash = Self.mix(hash, byte) }
        guard let index = find(host.bytes.span, from: 0, hash) else { return nil }
        return entries[index].value
    }

    /// Every entry, in the order of insertion.
    package func forEach(_ body: (_ host: Host, _ includesSubdomains: Bool, _ value: Value) -> Void) {
        for entry in entries { body(entry.host, entry.includesSubdomains, entry.value) }
    }

    // MARK: -

    private func lookupIndex(_ bytes: borrowing Span<UInt8>, isName: Bool) -> Int? {
        guard !entries.isEmpty else { return nil }
        var best: Int?
        var hash = Self.seed
        var index = bytes.count
        while index > 0 {
            index &-= 1
            let byte = bytes[index]
            if byte == ASCII.dot, isName, let found = find(bytes, from: index &+ 1, hash),
                entries[found].includesSubdomains
            {
                best = found
            }
            hash = Self.mix(hash, byte)
        }
        return find(bytes, from: 0, hash) ?? best
    }

    private static var seed: UInt32 { 2_166_136_261 }

    @inline(__always)
    private static func mix(_ hash: UInt32, _ byte: UInt8) -> UInt32 {
        (hash ^ UInt32(byte)) &* 16_777_619
    }

    private mutating func place(_ index: Int) {
        let mask = slots.count - 1
        var slot = Int(entries[index].hash) & mask
        while slots[slot] != 0 { slot = (slot + 1) & mask }
        slots[slot] = UInt32(index + 1)
    }

    /// The entry whose host is the end of `bytes` from `start` on.
    private func find(_ bytes: borrowing Span<UInt8>, from start: Int, _ hash: UInt32) -> Int? {
        let mask = slots.count - 1
        var slot = Int(hash) & mask
        while slots[slot] != 0 {
            let index = Int(slots[slot]) - 1
            if entries[index].hash == hash {
                let known = entries[index].host.bytes
                if known.span.equals(bytes.extracting(start..<bytes.count)) { return index }
            }
            slot = (slot + 1) & mask
        }
        return nil
    }
}

extension HostTable: Sendable where Value: Sendable {}
extension HostTable.Entry: Sendable where Value: Sendable {}
