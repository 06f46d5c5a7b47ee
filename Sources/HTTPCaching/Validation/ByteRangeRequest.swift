// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The part of a complete stored response that a Range requests (RFC 9110 14.2).
public enum ByteRangeRequest: Hashable, Sendable {
    /// No Range, an invalid one, one in another unit, or one with several ranges. All of these permit a complete
    /// response, which is faster here than many parts.
    case whole
    /// 206 with these bytes; never empty.
    case part(Range<Int>)
    /// 416.
    case unsatisfiable

    /// - Parameters:
    ///   - request: the fields of a GET.
    ///   - stored: the head of the stored response.
    ///   - length: of the body, in bytes.
    public init(_ request: HeaderFields, of stored: borrowing StoredResponse, length: Int) {
        self = .whole
        guard stored.status == 200, request.count(of: .range) == 1, let index = request.first(.range) else { return }
        guard Self.isWanted(request, stored) else { return }
        self = Self.range(request.value(at: index), length)
    }

    private static func range(_ value: borrowing Span<UInt8>, _ length: Int) -> ByteRangeRequest {
        guard value.hasPrefixIgnoringCase("bytes=") else { return .whole }
        let specification = value.extracting(value.trimmingBlanks(6..<value.count))
        guard specification.firstIndex(of: UInt8(ascii: ",")) == nil,
            let dash = specification.firstIndex(of: UInt8(ascii: "-"))
        else { return .whole }
        let lastText = specification.extracting(dash + 1..<specification.count)
        if dash == 0 {
            guard let suffix = number(lastText) else { return .whole }
            guard suffix > 0, length > 0 else { return .unsatisfiable }
            return .part(max(0, length - suffix)..<length)
        }
        guard let first = number(specification.extracting(0..<dash)) else { return .whole }
        var end = length
        if lastText.count > 0 {
            guard let last = number(lastText), last >= first else { return .whole }
            end = last < length ? last + 1 : length
        }
        return first < length ? .part(first..<end) : .unsatisfiable
    }

    /// A number that does not fit an Int is beyond the end of any body.
    private static func number(_ text: borrowing Span<UInt8>) -> Int? {
        guard text.count > 0 else { return nil }
        for index in 0..<text.count where !ASCII.isDigit(text[index]) { return nil }
        return DecimalNumber.parse(text) ?? Int.max
    }

    /// Evaluates If-Range (RFC 9110 13.1.5): a strong entity tag equal to the stored one, or a date that is a strong
    /// validator.
    private static func isWanted(_ request: HeaderFields, _ stored: borrowing StoredResponse) -> Bool {
        guard let index = request.first(.ifRange) else { return true }
        guard request.count(of: .ifRange) == 1 else { return false }
        let value = request.value(at: index)
        if let tag = EntityTag(value) { return stored.etag.map(tag.matchesStrongly) ?? false }
        guard let date = CacheDate.parse(value, now: stored.responseTime), let modified = stored.lastModified else {
            return false
        }
        // Two changes may happen within a second: only a time well before the response is reliable (RFC 9110 8.8.2.2).
        return date == modified && modified < stored.date && stored.fields.contains(.date)
    }
}
