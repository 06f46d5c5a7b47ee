// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A request for the bytes that are missing of a stored part.
final class PartCompletion: Sendable {
    let entry: CachedEntry
    /// From the first byte that is missing to the last one.
    let gap: Range<Int>
    /// The length of the complete representation, in bytes.
    let total: Int

    /// - Returns: nil when there is nothing to complete, or when the first byte and the last one are missing.
    init?(_ entry: CachedEntry) {
        guard case .parts(let parts) = entry.body, parts.isCompletable, let gap = parts.gap, gap.count < parts.total
        else { return nil }
        self.entry = entry
        self.gap = gap
        total = parts.total
    }

    /// The fields of the request (RFC 9110 13.1.5): an origin with another representation sends that, and whole.
    ///
    /// - Parameter fields: of the client's request, which is neither for a part nor conditional.
    func fields(_ fields: HeaderFields) -> HeaderFields {
        guard let tag = entry.response.strongTag else { return fields }
        var asked = fields
        var range = Array("bytes=".utf8)
        range.appendDecimal(gap.lowerBound)
        range.append("-")
        range.appendDecimal(gap.upperBound - 1)
        asked.append(.range, range.span)
        asked.append(.ifRange, tag.bytes.span)
        return asked
    }

    /// Whether a 206 has exactly the missing bytes of the same representation.
    ///
    /// - Parameter length: of its body in bytes. Unless it is known, a body that is too long would be noticed too late.
    func isMet(by response: HeaderFields, length: Int?) -> Bool {
        guard length == gap.count, let content = PartialContent(response, length: length), content.range == gap,
            content.total == total
        else { return false }
        return entry.response.isSame(as: response)
    }
}
