// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// The names of one key's responses.
struct SharedNames: Sendable {
    /// The hash of the URI.
    let key: [UInt8]
    /// The field of the response without Vary, or of the names of its Vary fields.
    let field: [UInt8]
    let lease: [UInt8]
    /// The HMAC over URI, part and policy that `field` is the beginning of.
    private let identity: [UInt8]

    static let generation: [UInt8] = [UInt8(ascii: "g")]
    /// The length of a field's name. That of a chunk is longer, and that of the generation shorter.
    static let fieldLength = 16

    fileprivate init(_ cacheKey: CacheKey, _ policy: PolicyDigest, _ secret: SharedSecret) {
        let uri = secret.digest([UInt8](copying: ("uri" as StaticString).bytes) + cacheKey.uri)
        var key = secret.prefix
        key.append(UInt8(ascii: "{"))
        key.append(base64URL: uri.span.extracting(0..<21))
        // 27 characters of the 28, as in the table of names.
        key[key.count - 1] = UInt8(ascii: "}")
        self.key = key

        // With the URI, so that the name does not tell which responses are of the same client.
        var message = HeadCoding.Writer()
        message.bytes.append(("field" as StaticString).bytes)
        let part = cacheKey.part
        message.run(uri.span)
        message.run(part.span)
        message.run(policy.bytes.span)
        identity = secret.digest(message.bytes)
        let field = Array(identity[..<Self.fieldLength])
        self.field = field

        var lease = key
        lease.append((":l:" as StaticString).bytes)
        lease.append(base64URL: field.span)
        self.lease = lease
    }

    /// The field of the response for a request's values of the Vary fields.
    ///
    /// - Parameter names: in any order and case.
    func field(for request: HeaderFields, names: [[UInt8]], _ secret: SharedSecret) -> [UInt8] {
        let sorted = Set(names.map { $0.map(ASCII.lowercased) }).sorted { $0.lexicographicallyPrecedes($1) }
        var message = HeadCoding.Writer()
        message.bytes.append(("vary" as StaticString).bytes)
        message.run(identity.span)
        for field in SelectingFields(names: sorted, request: request).fields {
            message.run(field.name.span)
            message.number(field.value == nil ? 0 : 1)
            let value = field.value ?? []
            message.run(value.span)
        }
        return Array(secret.digest(message.bytes)[..<Self.fieldLength])
    }

    /// The field of a chunk of the body whose record is in `field`.
    static func chunk(_ field: [UInt8], _ index: Int) -> [UInt8] {
        field + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: index >> $0) }
    }
}

extension SharedSecret {
    /// The key of the number of the latest purge.
    var countName: [UInt8] { prefix + Array("{purges}:n".utf8) }

    func purgeName(_ number: Int) -> [UInt8] { prefix + Array("{purges}:\(number)".utf8) }

    func names(of key: CacheKey, under digest: PolicyDigest) -> SharedNames { SharedNames(key, digest, self) }
}

extension [UInt8] {
    /// Appends base64url (RFC 4648, section 5) without padding.
    fileprivate mutating func append(base64URL bytes: borrowing Span<UInt8>) {
        let start = count
        Base64.encode(bytes, to: &self)
        while last == UInt8(ascii: "=") { removeLast() }
        for index in start..<count {
            switch self[index] {
            case UInt8(ascii: "+"): self[index] = UInt8(ascii: "-")
            case UInt8(ascii: "/"): self[index] = UInt8(ascii: "_")
            default: break
            }
        }
    }
}
