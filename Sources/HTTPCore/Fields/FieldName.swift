import IOCore

/// The field names that this program knows, recognised once while a head is parsed.
///
/// A raw value is a bit number in `FieldNameSet`, so that at most 64 are possible.
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
    case authorization, proxyAuthorization, wwwAuthenticate, proxyAuthenticate, authenticationInfo
    case proxyAuthenticationInfo, cookie, setCookie, strictTransportSecurity

    // Control data and caching (RFC 9110 10, RFC 9111).
    case date, server, location, refresh, retryAfter, allow, cacheControl, pragma, age, expires, etag, lastModified
    case vary, warning

    // Conditions and ranges (RFC 9110 13 and 14).
    case ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince, ifRange, range, acceptRanges

    // The client's preferences and identity.
    case accept, acceptEncoding, acceptLanguage, acceptCharset, userAgent, referer, origin, from

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
        case .authenticationInfo: "Authentication-Info"
        case .proxyAuthenticationInfo: "Proxy-Authentication-Info"
        case .cookie: "Cookie"
        case .setCookie: "Set-Cookie"
        case .strictTransportSecurity: "Strict-Transport-Security"
        case .date: "Date"
        case .server: "Server"
        case .location: "Location"
        case .refresh: "Refresh"
        case .retryAfter: "Retry-After"
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
        case .acceptCharset: "Accept-Charset"
        case .userAgent: "User-Agent"
        case .referer: "Referer"
        case .origin: "Origin"
        case .from: "From"
        case .proxyStatus: "Proxy-Status"
        case .cacheStatus: "Cache-Status"
        case .forwarded: "Forwarded"
        case .altSvc: "Alt-Svc"
        }
    }

    /// Recognises a name in any case; `other` for unknown names.
    package init(_ name: borrowing Span<UInt8>) {
        var hash = FieldNameTable.seed
        var index = 0
        while index < name.count {
            hash = FieldNameTable.mix(hash, name[index])
            index &+= 1
        }
        self = FieldNameTable.find(name, 0..<name.count, hash)
    }
}

/// A hash table of field names. The parser computes the hash while it reads a name.
///
/// Open addressing over arrays inside the value (without reference counting), with an exact comparison at the end, so
/// that a collision never confuses two names.
enum FieldNameTable {
    private static let slotCount = 256

    private static let slots: InlineArray<256, UInt8> = {
        var slots = InlineArray<256, UInt8>(repeating: 0)
        for name in FieldName.allCases where name != .other {
            let bytes = name.text.bytes
            var hash = seed
            for index in bytes.indices { hash = mix(hash, bytes[index]) }
            var slot = position(hash)
            while slots[slot] != 0 { slot = (slot + 1) % slotCount }
            slots[slot] = name.rawValue
        }
        return slots
    }()

    static let seed: UInt32 = 0

    /// One step; upper and lower case of a letter give the same.
    @inline(__always)
    static func mix(_ hash: UInt32, _ byte: UInt8) -> UInt32 {
        (hash &+ UInt32(byte | 0x20)) &* 0x9E37_79B1
    }

    @inline(__always)
    private static func position(_ hash: UInt32) -> Int { Int(hash >> 24) }

    @inline(__always)
    static func find(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>, _ hash: UInt32) -> FieldName {
        var slot = position(hash)
        while true {
            let raw = slots[slot]
            guard raw != 0, let name = FieldName(rawValue: raw) else { return .other }
            let text = name.text.bytes
            if text.count == range.count, bytes.extracting(range).equalsIgnoringCase(text) { return name }
            slot = (slot &+ 1) & (slotCount - 1)
        }
    }
}

/// A set of known field names, one bit for each.
package struct FieldNameSet: Hashable, Sendable, ExpressibleByArrayLiteral {
    private var bits: UInt64 = 0

    package init() {}

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

    package func intersects(_ other: FieldNameSet) -> Bool { bits & other.bits != 0 }

    package var isEmpty: Bool { bits == 0 }
}
