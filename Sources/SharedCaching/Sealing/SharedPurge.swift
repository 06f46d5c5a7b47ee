// SPDX-License-Identifier: Apache-2.0
import HTTPCaching

/// A purge in the list that all machines read, before it is sealed.
struct SharedPurge: Sendable {
    var purge: Purge
    /// Whether it makes entries stale, and does not remove them.
    var expires: Bool
    /// Seconds since 1970.
    var time: Int

    private static let version: UInt8 = 1
    private static let latest = 1 << 40
    private enum Kind: UInt8 { case everything = 1, uri, prefix, host, tag }

    init(_ purge: Purge, expires: Bool, time: Int) {
        self.purge = purge
        self.expires = expires
        self.time = time
    }

    func encoded() -> [UInt8] {
        let (kind, text): (Kind, [UInt8]) =
            switch purge {
            case .everything: (.everything, [])
            case .uri(let key): (.uri, key.uri)
            case .prefix(let key): (.prefix, key.uri)
            case .host(let host): (.host, Array(host.utf8))
            case .tag(let tag): (.tag, Array(tag.utf8))
            }
        // A purge that no machine could read would look like a lost one. What is so long names too much rather than nothing.
        guard text.count <= SharedRecord.uriAtMost else {
            return SharedPurge(.everything, expires: expires, time: time).encoded()
        }
        var writer = HeadCoding.Writer()
        writer.bytes = [Self.version, kind.rawValue, expires ? 1 : 0]
        writer.number(min(max(0, time), Self.latest))
        writer.run(text.span)
        return writer.bytes
    }

    /// - Returns: nil when it is not one of this version, or any number or length in it is out of its bounds.
    init?(_ bytes: [UInt8]) {
        var reader = HeadCoding.Reader(bytes: bytes, end: bytes.count)
        guard reader.byte() == Self.version, let kind = reader.byte().flatMap(Kind.init), let expires = reader.byte(),
            expires <= 1, let time = reader.number(), (0...Self.latest).contains(time),
            let text = reader.run(atMost: SharedRecord.uriAtMost), reader.isAtEnd,
            let purge = Self.purge(kind, text)
        else { return nil }
        self.init(purge, expires: expires == 1, time: time)
    }

    private static func purge(_ kind: Kind, _ text: [UInt8]) -> Purge? {
        switch kind {
        case .everything: text.isEmpty ? .everything : nil
        case .uri: .uri(CacheKey(uri: text, part: []))
        case .prefix: .prefix(CacheKey(uri: text, part: []))
        case .host: String(validating: text, as: UTF8.self).map { .host($0) }
        case .tag: String(validating: text, as: UTF8.self).map { .tag($0) }
        }
    }
}
