// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The encoding of a stored response's head on disk and in a shared level. Decoding trusts nothing: the bytes have a
/// checksum, and every name and value is validated again.
package enum HeadCoding {
    /// Version 1 has no `expiredAge`. The checksum of version 3 covers the other columns of the row, too (`RowSeal`).
    private static let version: UInt8 = 3
    /// The upper limit of durations and times, in seconds.
    private static let farthest = 1 << 40

    /// The same without a row: what keeps the head has a seal of its own.
    package static func encode(_ response: StoredResponse, tags: [[UInt8]]) -> [UInt8] {
        encode(response, tags: tags, .none)
    }

    /// - Returns: nil when `encode(_:tags:)` cannot have made the bytes.
    package static func decode(_ bytes: [UInt8], _ options: CacheOptions) -> (StoredResponse, [[UInt8]])? {
        decode(bytes, .none, options)
    }

    static func encode(_ response: StoredResponse, tags: [[UInt8]], _ seal: RowSeal) -> [UInt8] {
        var writer = Writer()
        writer.bytes.append(version)
        writer.number(response.status)
        writer.number(response.requestTime)
        writer.number(response.responseTime)
        writer.number(response.initialAge)
        writer.number(response.ruleLifetime ?? -1)
        writer.number(response.expiredAge ?? -1)
        writer.number((response.isShared ? 1 : 0) | (response.isMarkedStale ? 2 : 0))
        writer.run(response.digest.bytes.span)
        writer.number(response.fields.count)
        for index in 0..<response.fields.count {
            writer.run(response.fields.name(at: index))
            writer.run(response.fields.value(at: index))
        }
        writer.number(response.selecting.fields.count)
        for field in response.selecting.fields {
            writer.run(field.name.span)
            writer.number(field.value == nil ? 0 : 1)
            let value = field.value ?? []
            writer.run(value.span)
        }
        writer.number(tags.count)
        for tag in tags { writer.run(tag.span) }
        let checksum = XXH64.hash(writer.bytes.span, seed: seal.value)
        for shift in 0..<8 { writer.bytes.append(UInt8(truncatingIfNeeded: checksum >> UInt64(shift * 8))) }
        return writer.bytes
    }

    /// - Returns: nil when `encode` cannot have made the bytes for this row.
    static func decode(_ bytes: [UInt8], _ seal: RowSeal, _ options: CacheOptions) -> (StoredResponse, [[UInt8]])? {
        guard bytes.count > 8, (1...version).contains(bytes[0]) else { return nil }
        let seed = bytes[0] < 3 ? 0 : seal.value
        var checksum: UInt64 = 0
        for shift in 0..<8 { checksum |= UInt64(bytes[bytes.count - 8 + shift]) << UInt64(shift * 8) }
        guard XXH64.hash(bytes.span.extracting(0..<(bytes.count - 8)), seed: seed) == checksum else { return nil }
        var reader = Reader(bytes: bytes, end: bytes.count - 8)
        guard let written = reader.byte(), let status = reader.number(),
            let requestTime = reader.number(),
            let responseTime = reader.number(), let initialAge = reader.number(), let lifetime = reader.number(),
            let expired = written == 1 ? -1 : reader.number(), let flags = reader.number(), let digest = reader.run(),
            let fields = reader.fields(),
            let selecting = reader.selecting(), let tags = reader.tags(), reader.isAtEnd,
            (200...999).contains(status), (0...farthest).contains(initialAge), (0...farthest).contains(responseTime),
            (0...farthest).contains(requestTime), lifetime <= farthest, expired <= farthest
        else { return nil }
        let response = StoredResponse(
            status: status,
            fields: fields,
            selecting: selecting,
            requestTime: requestTime,
            responseTime: responseTime,
            initialAge: initialAge,
            ruleLifetime: lifetime < 0 ? nil : lifetime,
            expiredAge: expired < 0 ? nil : expired,
            isShared: flags & 1 != 0,
            isStale: flags & 2 != 0,
            digest: PolicyDigest(digest),
            options
        )
        return (response, tags)
    }

    package struct Writer {
        package var bytes: [UInt8] = []

        package init() {}

        package mutating func number(_ value: Int) {
            let value = UInt64(bitPattern: Int64(value))
            for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(shift * 8))) }
        }

        /// Appends bytes behind their number.
        package mutating func run(_ span: borrowing Span<UInt8>) {
            number(span.count)
            bytes.append(span)
        }
    }

    package struct Reader {
        private let bytes: [UInt8]
        private let end: Int
        private var position = 0

        /// - Parameter end: of the bytes to read.
        package init(bytes: [UInt8], end: Int) {
            self.bytes = bytes
            self.end = end
        }

        package var isAtEnd: Bool { position == end }

        package mutating func byte() -> UInt8? {
            guard position < end else { return nil }
            defer { position += 1 }
            return bytes[position]
        }

        package mutating func number() -> Int? {
            guard end - position >= 8 else { return nil }
            var value: UInt64 = 0
            for shift in 0..<8 { value |= UInt64(bytes[position + shift]) << UInt64(shift * 8) }
            position += 8
            return Int(Int64(bitPattern: value))
        }

        package mutating func run(atMost limit: Int = .max) -> [UInt8]? {
            guard let count = number(), count >= 0, count <= limit, count <= end - position else { return nil }
            defer { position += count }
            return Array(bytes[position..<position + count])
        }

        fileprivate mutating func fields() -> HeaderFields? {
            guard let count = number(), count >= 0 else { return nil }
            var fields = HeaderFields()
            for _ in 0..<min(count, end) {
                guard let name = run(), let value = run(), HeaderFields.isValidName(name.span),
                    HeaderFields.isValidValue(value.span)
                else { return nil }
                fields.append(name: name.span, value: value.span)
            }
            return fields
        }

        fileprivate mutating func selecting() -> SelectingFields? {
            guard let count = number(), count >= 0 else { return nil }
            var fields: [SelectingFields.Field] = []
            for _ in 0..<min(count, end) {
                guard let name = run(), let flag = number(), let value = run() else { return nil }
                fields.append(SelectingFields.Field(name: name, value: flag == 0 ? nil : value))
            }
            return SelectingFields(fields: fields)
        }

        fileprivate mutating func tags() -> [[UInt8]]? {
            guard let count = number(), count >= 0 else { return nil }
            var tags: [[UInt8]] = []
            for _ in 0..<min(count, end) {
                guard let tag = run() else { return nil }
                tags.append(tag)
            }
            return tags
        }
    }
}

/// What a row of the index says besides its head: whose response it is, and which body. The head's checksum begins with
/// it, so that a bit that flips in one of these columns makes a miss, not the response of another client.
struct RowSeal {
    fileprivate let value: UInt64

    /// - Parameters:
    ///   - uri: of the key.
    ///   - part: of the key.
    ///   - file: nil for a small body.
    init(uri: [UInt8], part: [UInt8], file: UInt64?, length: Int, checksum: UInt64) {
        var writer = HeadCoding.Writer()
        writer.run(uri.span)
        writer.run(part.span)
        writer.number(file == nil ? 0 : 1)
        for value in [file ?? 0, UInt64(bitPattern: Int64(length)), checksum] {
            writer.number(Int(Int64(bitPattern: value)))
        }
        value = XXH64.hash(writer.bytes.span)
    }

    private init() { value = 0 }

    /// For heads that are compared with each other alone.
    static let none = RowSeal()
}
