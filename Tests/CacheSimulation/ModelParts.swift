// SPDX-License-Identifier: Apache-2.0
/// The model of a response of which only parts are stored: each position by itself.
struct ModelParts: Equatable {
    var total: Int
    /// The bytes that are stored, by position.
    var known: [Int: UInt8] = [:]
    /// Whether they must not be written to the disk.
    var isInMemoryOnly = false

    /// The positions of the first byte that is missing, and of the last one.
    var gap: ClosedRange<Int>? {
        let missing = (0..<total).filter { known[$0] == nil }
        guard let first = missing.first, let last = missing.last else { return nil }
        return first...last
    }

    /// The number of runs of bytes that follow each other.
    var runCount: Int { known.keys.count { known[$0 - 1] == nil } }

    /// The body with a mark in the place of what is missing.
    var body: String { String(decoding: (0..<total).map { known[$0] ?? 0x3F }, as: UTF8.self) }

    func has(_ range: Range<Int>) -> Bool { range.allSatisfy { known[$0] != nil } }

    /// - Returns: nil when they are not parts of one body, or are too many.
    func with(_ later: ModelParts, atMost limit: Int) -> ModelParts? {
        guard total == later.total, later.known.allSatisfy({ known[$0.key] == nil || known[$0.key] == $0.value }) else {
            return nil
        }
        var both = later
        both.known.merge(known) { own, _ in own }
        both.isInMemoryOnly = isInMemoryOnly || later.isInMemoryOnly
        return both.known.count <= limit && both.runCount <= 16 ? both : nil
    }
}

/// The model's reading of a 206 (RFC 9110 15.3.7).
struct ModelRange: Equatable {
    var range: Range<Int>
    var total: Int

    /// - Returns: nil unless it is one range, whose length is that of the body.
    init?(_ fields: ModelFields, length: Int?) {
        let texts = fields.all("content-range")
        guard texts.count == 1, let text = texts.first, text.hasPrefix("bytes ") else { return nil }
        let numbers = text.dropFirst(6).split(whereSeparator: { $0 == "-" || $0 == "/" }).map { Int($0) }
        guard numbers.count == 3, let first = numbers[0], let last = numbers[1], let total = numbers[2] else {
            return nil
        }
        guard first <= last, last < total, length == nil || length == last - first + 1 else { return nil }
        range = first..<last + 1
        self.total = total
    }
}

extension ModelEntry {
    static func tags(_ fields: ModelFields) -> Set<String> {
        Set(fields.all("surrogate-key").flatMap { $0.split(separator: " ").map(String.init) })
    }

    var strongTag: String? { etag.flatMap { CacheModel.isStrong($0) ? $0 : nil } }

    /// Whether the fields have its strong entity tag, and no other.
    func isSame(as fields: ModelFields) -> Bool { strongTag != nil && fields.all("etag") == [strongTag ?? ""] }

    /// Whether a response shows that the origin has no longer what is stored.
    func isContradicted(by status: Int, _ fields: ModelFields, length: Int?, isHead: Bool) -> Bool {
        let total = parts?.total
        switch status {
        case 200:
            let told = isHead ? fields.first("content-length").flatMap { Int($0) } : length
            return !isSame(as: fields) || (told != nil && told != total)
        case 206: return !isSame(as: fields) || ModelRange(fields, length: length)?.total != total
        default: return [404, 410, 416].contains(status)
        }
    }
}
