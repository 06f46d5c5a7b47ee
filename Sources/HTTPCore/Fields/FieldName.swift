// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The field names that this program knows, recognised once while a head is parsed.
///
/// A raw value is a bit number in `FieldNameSet`, so that at most 64 are possible.
@usableFromInline
package enum FieldName: UInt8, CaseIterable, Sendable {
    /// Any other name; such a field is forwarded unchanged.
    case other

    // Routing and connection (RFC 9110 7, RFC 9112).
    case host, connection, keepAlive, proxyConnection, te, trailer, transferEncoding, upgrade, via, expect, maxForwards
    case http2Settings
    /// `Transfer_Encoding` and `Content_Length`: spellings that evade one of two parsers; never legitimate.
    case underscoredTransferEncoding, underscoredContentLength

    // Content (RFC 9110 8).
    case contentLength, contentType, contentEncoding, contentLanguage, contentLocation, contentRange, contentDisposition

    // Authentication and state.
    case authorization, proxyAuthorization, wwwAuthenticate, proxyAuthenticate, proxyAuthenticationInfo
    case cookie, setCookie, strictTransportSecurity

    // Control data and caching (RFC 9110 10, RFC 9111).
    case date, server, location, refresh, allow, cacheControl, pragma, age, expires, etag, lastModified
    case vary, warning

    // Conditions and ranges (RFC 9110 13 and 14).
    case ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince, ifRange, range, acceptRanges

    // The client's preferences and identity.
    case accept, acceptEncoding, acceptLanguage, userAgent, referer, origin

    // Places (RFC 8288, RFC 4918, and the Fetch standard).
    case link, destination, `if`, accessControlAllowOrigin

    // Reports of intermediaries (RFC 9209, 9211, 7239, 7838).
    case proxyStatus, cacheStatus, forwarded, altSvc

    /// The name in its usual case; empty for `other`.
    package var text: StaticString {
        switch self {
        case .other: ""
        case .host: "Host"
        case .connection: "Connection"
        case .keepAlive: "Keep-Alive"
        case .proxyConnection: "Proxy-Connection"
        case .te: "TE"
        case .trailer: "Trailer"
        case .transferEncoding: "Transfer-Encoding"
        case .upgrade: "Upgrade"
        case .via: "Via"
        case .expect: "Expect"
        case .maxForwards: "Max-Forwards"
        case .http2Settings: "HTTP2-Settings"
        case .underscoredTransferEncoding: "Transfer_Encoding"
        case .underscoredContentLength: "Content_Length"
        case .contentLength: "Content-Length"
        case .contentType: "Content-Type"
        case .contentEncoding: "Content-Encoding"
        case .contentLanguage: "Content-Language"
        case .contentLocation: "Content-Location"
        case .contentRange: "Content-Range"
        case .contentDisposition: "Content-Disposition"
        case .authorization: "Authorization"
        case .proxyAuthorization: "Proxy-Authorization"
        case .wwwAuthenticate: "WWW-Authenticate"
        case .proxyAuthenticate: "Proxy-Authenticate"
        case .proxyAuthenticationInfo: "Proxy-Authentication-Info"
        case .cookie: "Cookie"
        case .setCookie: "Set-Cookie"
        case .strictTransportSecurity: "Strict-Transport-Security"
        case .date: "Date"
        case .server: "Server"
        case .location: "Location"
        case .refresh: "Refresh"
        case .allow: "Allow"
        case .cacheControl: "Cache-Control"
        case .pragma: "Pragma"
        case .age: "Age"
        case .expires: "Expires"
        case .etag: "ETag"
        case .lastModified: "Last-Modified"
        case .vary: "Vary"
        case .warning: "Warning"
        case .ifMatch: "If-Match"
        case .ifNoneMatch: "If-None-Match"
        case .ifModifiedSince: "If-Modified-Since"
        case .ifUnmodifiedSince: "If-Unmodified-Since"
        case .ifRange: "If-Range"
        case .range: "Range"
        case .acceptRanges: "Accept-Ranges"
        case .accept: "Accept"
        case .acceptEncoding: "Accept-Encoding"
        case .acceptLanguage: "Accept-Language"
        case .userAgent: "User-Agent"
        case .referer: "Referer"
        case .origin: "Origin"
        case .link: "Link"
        case .destination: "Destination"
        case .if: "If"
        case .accessControlAllowOrigin: "Access-Control-Allow-Origin"
        case .proxyStatus: "Proxy-Status"
        case .cacheStatus: "Cache-Status"
        case .forwarded: "Forwarded"
        case .altSvc: "Alt-Svc"
        }
    }

    /// Recognises a name in any case; `other` for unknown names.
    package init(_ name: borrowing Span<UInt8>) { self = FieldNameTable.shared.find(name, 0..<name.count) }
}

/// A hash table of field names.
///
/// Open addressing over arrays inside the object (without reference counting). A name is hashed and compared by its first and its
/// last eight bytes, which overlap in most names; longer ones are compared whole. The comparison is exact, so that a collision
/// never confuses two names.
final class FieldNameTable: Sendable {
    static let shared = FieldNameTable()

    /// The longest known name has 27 bytes.
    private static let longest = 32
    private static let slotCount = 256

    /// A name in lower case.
    private struct Name {
        var length = 0
        var first: UInt64 = 0
        var last: UInt64 = 0
        /// 0x20 where the name has a letter: with this bit set, upper and lower case are the same, and no other byte is.
        var firstCases: UInt64 = 0
        var lastCases: UInt64 = 0
    }

    private let names: InlineArray<64, Name>
    private let slots: InlineArray<256, FieldName>

    private init() {
        var names = InlineArray<64, Name>(repeating: Name())
        var slots = InlineArray<256, FieldName>(repeating: .other)
        for name in FieldName.allCases where name != .other {
            let bytes = name.text.bytes
            precondition(bytes.count <= Self.longest)
            var entry = Name(length: bytes.count)
            for index in bytes.indices {
                let byte = UInt64(ASCII.lowercased(bytes[index]))
                let letter: UInt64 = ASCII.isLetter(bytes[index]) ? 0x20 : 0
                if index < 8 {
                    entry.first |= byte << UInt64(8 * index)
                    entry.firstCases |= letter << UInt64(8 * index)
                }
                let position = index - max(0, bytes.count - 8)
                if position >= 0 {
                    entry.last |= byte << UInt64(8 * position)
                    entry.lastCases |= letter << UInt64(8 * position)
                }
            }
            names[Int(name.rawValue)] = entry
            var slot = Self.position(entry.first, entry.last, bytes.count)
            while slots[slot] != .other { slot = (slot + 1) % Self.slotCount }
            slots[slot] = name
        }
        self.names = names
        self.slots = slots
    }

    /// Up to eight bytes of `range` from `start`, the first one lowest; bytes behind the range are 0.
    @inline(__always)
    private static func word(_ bytes: borrowing Span<UInt8>, _ start: Int, _ end: Int) -> UInt64 {
        let length = end &- start
        if start &+ 8 <= bytes.count {
            let word = WordOfBytes.load(bytes.bytes, start)
            return length >= 8 ? word : word & ((1 &<< UInt64(8 &* length)) &- 1)
        }
        var word: UInt64 = 0
        var index = Swift.min(end, start &+ 8)
        while index > start {
            index &-= 1
            word = word &<< 8 | UInt64(bytes[index])
        }
        return word
    }

    /// Upper and lower case of a letter give the same.
    @inline(__always)
    private static func position(_ first: UInt64, _ last: UInt64, _ length: Int) -> Int {
        let cases = WordOfBytes.repeating(0x20)
        let mixed =
            ((first | cases) &* 0x9E37_79B9_7F4A_7C15) ^ ((last | cases) &* 0xC2B2_AE3D_27D4_EB4F) &+ UInt64(length)
        return Int(truncatingIfNeeded: (mixed &* 0x9E37_79B9_7F4A_7C15) &>> 56)
    }

    /// Of long names the middle, too. Out of line: most names are short.
    @inline(never)
    private static func isWhole(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>, _ name: FieldName) -> Bool {
        bytes.extracting(range).equalsIgnoringCase(name.text)
    }

    /// The name at `range`; `other` for one that is not known.
    @inline(__always)
    func find(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> FieldName {
        let length = range.count
        guard range.lowerBound >= 0, length > 1, length <= Self.longest else { return .other }
        let first = Self.word(bytes, range.lowerBound, range.upperBound)
        let last = length <= 8 ? first : Self.word(bytes, range.upperBound &- 8, range.upperBound)
        var slot = Self.position(first, last, length)
        while true {
            let name = slots[slot]
            if name == .other { return name }
            let index = Int(name.rawValue)
            if names[index].length == length, first | names[index].firstCases == names[index].first,
                last | names[index].lastCases == names[index].last,
                length <= 16 || Self.isWhole(bytes, range, name)
            {
                return name
            }
            slot = (slot &+ 1) & (Self.slotCount - 1)
        }
    }
}

/// A set of known field names, one bit for each.
@usableFromInline
package struct FieldNameSet: Hashable, Sendable, ExpressibleByArrayLiteral {
    @usableFromInline private(set) var bits: UInt64 = 0

    package init() {}

    @usableFromInline
    package init(arrayLiteral names: FieldName...) {
        for name in names { insert(name) }
    }

    @inline(__always)
    package mutating func insert(_ name: FieldName) { bits |= 1 << UInt64(name.rawValue) }

    @inline(__always)
    package mutating func remove(_ name: FieldName) { bits &= ~(1 << UInt64(name.rawValue)) }

    @inline(__always)
    package func contains(_ name: FieldName) -> Bool { bits >> UInt64(name.rawValue) & 1 == 1 }

    package func union(_ other: FieldNameSet) -> FieldNameSet {
        var result = self
        result.bits |= other.bits
        return result
    }

    @inlinable
    @inline(__always)
    func intersects(_ other: FieldNameSet) -> Bool { bits & other.bits != 0 }

    package var isEmpty: Bool { bits == 0 }
}
