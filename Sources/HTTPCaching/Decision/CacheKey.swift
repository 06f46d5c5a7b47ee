// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// The key of a stored response (RFC 9111 2): method and target URI, the partition that separates groups of clients, and
/// the request fields that the owner added (`CacheKeyRules`).
///
/// The URI is in its normal form: scheme, host (`Host`), always a port, path and query unchanged, or as a rule of the
/// owner leaves them. HEAD has the key of GET, because a stored response to GET can serve it (RFC 9110 9.3.2).
public struct CacheKey: Hashable, Sendable {
    /// `GET https://host:443/path?query`.
    package let uri: [UInt8]
    /// Empty when all clients share the responses.
    package let partition: [UInt8]
    /// The request fields that belong to the key (`CacheKeyTerms.variant`); mostly empty.
    let variant: [UInt8]
    /// The hash of `uri` only, so that an invalidation finds every partition and variant.
    package let hash: UInt64

    /// - Parameters:
    ///   - method: HEAD counts as GET.
    ///   - target: path and query in origin form; a fragment is no part of it.
    ///   - partition: any bytes.
    package init(
        method: HTTPMethod,
        origin: Origin,
        target: borrowing Span<UInt8>,
        partition: [UInt8] = []
    ) {
        self.init(method: method, origin: origin, target: target, partition: partition, variant: [])
    }

    init(
        method: HTTPMethod,
        origin: Origin,
        target: borrowing Span<UInt8>,
        partition: [UInt8],
        variant: [UInt8]
    ) {
        let uri = Self.uri(method, origin, target)
        self.uri = uri
        self.partition = partition
        self.variant = variant
        hash = XXH64.hash(uri.span, seed: Self.seed)
    }

    /// The `uri` of a key.
    package static func uri(_ method: HTTPMethod, _ origin: Origin, _ target: borrowing Span<UInt8>) -> [UInt8] {
        let host = origin.host.bytes
        let isIPv6 = origin.host.kind == .ipv6
        var bytes: [UInt8] = []
        bytes.reserveCapacity(host.count + target.count + 24)
        if case .other(let name) = method {
            bytes.append(contentsOf: name)
        } else {
            bytes.append(method == .head ? HTTPMethod.get.knownText.bytes : method.knownText.bytes)
        }
        bytes.append(UInt8(ascii: " "))
        bytes.append(origin.scheme == .https ? "https://" as StaticString : "http://")
        if isIPv6 { bytes.append(UInt8(ascii: "[")) }
        bytes.append(host.span)
        if isIPv6 { bytes.append(UInt8(ascii: "]")) }
        bytes.append(UInt8(ascii: ":"))
        bytes.appendDecimal(Int(origin.port))
        bytes.append(target.extracting(0..<(target.firstIndex(of: UInt8(ascii: "#")) ?? target.count)))
        return bytes
    }

    /// The key of a GET for `url`.
    ///
    /// - Returns: nil when it is not an unambiguous http or https URL.
    public init?(url: String, partition: [UInt8] = []) {
        guard let url = AbsoluteURL(url) else { return nil }
        self.init(method: .get, origin: url.origin, target: url.target.span, partition: partition)
    }

    /// A key from a store.
    package init(uri: [UInt8], part: [UInt8]) {
        self.uri = uri
        hash = XXH64.hash(uri.span, seed: Self.seed)
        guard part.first == 0, part.count >= 5 else {
            (partition, variant) = (part, [])
            return
        }
        let length = part[1..<5].reversed().reduce(0) { $0 << 8 | Int($1) }
        let end = Swift.min(5 + length, part.count)
        (partition, variant) = (Array(part[5..<end]), Array(part[end...]))
    }

    /// Partition and variant as one value for a store. Without a variant it is the partition, unless that begins with
    /// the zero that announces its length.
    package var part: [UInt8] {
        guard !variant.isEmpty || partition.first == 0 else { return partition }
        var bytes: [UInt8] = [0]
        bytes.append(length: partition.count)
        return bytes + partition + variant
    }

    public static func == (left: CacheKey, right: CacheKey) -> Bool {
        left.hash == right.hash && left.uri == right.uri && left.partition == right.partition
            && left.variant == right.variant
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(hash) }

    /// Random for each process, so that an attacker cannot prepare colliding URLs.
    private static let seed = UInt64.random(in: 0 ... .max)

    /// The host in its normal form; IPv6 in brackets.
    package var host: ArraySlice<UInt8> {
        guard let slash = uri.firstIndex(of: UInt8(ascii: "/")) else { return [] }
        let rest = uri.dropFirst(slash + 2)
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        let authority = rest[..<end]
        return authority[..<(authority.lastIndex(of: UInt8(ascii: ":")) ?? authority.endIndex)]
    }

    /// The URI without the method.
    package var url: ArraySlice<UInt8> {
        guard let space = uri.firstIndex(of: UInt8(ascii: " ")) else { return [] }
        return uri[(space + 1)...]
    }
}

extension [UInt8] {
    /// Appends a non-negative number in decimal digits.
    mutating func appendDecimal(_ value: Int) {
        var digits = 1
        var bound = 10
        while value >= bound, digits < 19 {
            digits += 1
            if digits < 19 { bound *= 10 }
        }
        let start = count
        append(contentsOf: repeatElement(0, count: digits))
        var rest = value
        var position = start + digits - 1
        while position >= start {
            self[position] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
            position -= 1
        }
    }

    /// Appends a literal.
    mutating func append(_ text: StaticString) { append(text.bytes) }
}
