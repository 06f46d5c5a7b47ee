// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// The part of a representation that a 206 has (RFC 9110 15.3.7).
struct PartialContent: Hashable, Sendable {
    /// The bytes of the complete representation that it has; never empty.
    let range: Range<Int>
    /// The length of the complete representation, in bytes.
    let total: Int

    /// - Parameters:
    ///   - response: the fields of a 206.
    ///   - length: the length of its body in bytes, if known.
    /// - Returns: nil in any doubt: several ranges, another unit, an unknown length of the complete representation, or a
    ///   body that is not as long as its range.
    init?(_ response: HeaderFields, length: Int?) {
        guard response.count(of: .contentRange) == 1, let index = response.first(.contentRange),
            let content = ContentRange(response.value(at: index)), let total = content.total
        else { return nil }
        let range = content.first..<content.last + 1
        guard length == nil || length == range.count, !Self.hasManyParts(response) else { return nil }
        self.range = range
        self.total = total
    }

    private static func hasManyParts(_ response: HeaderFields) -> Bool {
        guard let index = response.first(.contentType) else { return false }
        return response.value(at: index).hasPrefixIgnoringCase("multipart/byteranges")
    }
}

extension HeaderFields {
    /// Removes the digests of the content of one message, which are not those of another part or of the whole (RFC 9530 2,
    /// RFC 2616 14.15).
    mutating func removeDigestsOfContent() {
        removeAll { fields, index in
            let name = fields.name(at: index)
            return name.equalsIgnoringCase("content-digest") || name.equalsIgnoringCase("content-md5")
        }
    }
}

extension StoredResponse {
    /// The value of ETag, if it is a strong validator.
    var strongTag: EntityTag? { etag.flatMap { $0.isWeak ? nil : $0 } }

    /// Whether the fields are those of the same representation, byte for byte (RFC 9110 8.8.3.2).
    func isSame(as response: HeaderFields) -> Bool {
        guard let own = strongTag, response.count(of: .etag) == 1, let index = response.first(.etag),
            let tag = EntityTag(response.value(at: index))
        else { return false }
        return own.matchesStrongly(tag)
    }

    /// Whether a response shows that the origin has another representation by now, or none.
    ///
    /// - Parameters:
    ///   - total: the length of the stored representation, in bytes.
    ///   - length: the length of the body of the response in bytes, if known.
    func isContradicted(byStatus status: Int, _ response: HeaderFields, length: Int?, total: Int, isHead: Bool) -> Bool
    {
        switch status {
        case 200:
            if isHead {
                guard let index = response.first(.contentLength) else { return !isSame(as: response) }
                return !isSame(as: response) || DecimalNumber.parse(response.value(at: index)) != total
            }
            return !isSame(as: response) || (length != nil && length != total)
        case 206: return !isSame(as: response) || PartialContent(response, length: length)?.total != total
        case 404, 410, 416: return true
        default: return false
        }
    }
}
