// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// Judges what was read from Redis: a doubt means that it is of no use.
struct SharedJudge: Sendable {
    enum Judgement {
        /// A response without its body: whether the purges allow it is for the log to say.
        case response(SharedRecord.Response)
        case variants([[UInt8]])
        case useless
        /// The bytes are not of this owner, or not of this place.
        case tampered
    }

    /// The clocks of the machines differ, but no more than by this, in seconds.
    static let skew = 60
    /// More bytes than that are no record: of a connection's largest value, half.
    static let recordAtMost = 512 << 10
    private static let sealAtMost = 1024

    let secret: SharedSecret
    let options: CacheOptions

    /// - Parameters:
    ///   - generation: of the URI, from the same reply.
    ///   - now: in seconds since 1970.
    func judge(
        _ sealed: [UInt8],
        _ key: [UInt8],
        _ field: [UInt8],
        _ generation: [UInt8],
        for question: SharedQuestion,
        now: Int
    ) -> Judgement {
        guard sealed.count <= Self.recordAtMost, let bytes = secret.open(sealed, .record, at: [key, field]) else {
            return .tampered
        }
        // A newer version of this program may have written it.
        guard let record = SharedRecord(bytes, options) else { return .useless }
        switch record {
        case .variants(let names): return .variants(names)
        case .response(let record):
            // The field's name says the same, but with a short digest.
            guard record.uri == question.key.uri, record.part == question.key.part else { return .tampered }
            guard record.generation == generation, record.response.responseTime <= now + Self.skew,
                record.response.matches(question.request, under: question.digest, options)
            else { return .useless }
            return .response(record)
        }
    }

    /// A response with its body.
    func entry(_ record: SharedRecord.Response, _ body: [UInt8], _ key: CacheKey) -> CachedEntry {
        CachedEntry(key: key, response: record.response, body: .memory(StoredBytes(body)), tags: record.tags)
    }

    /// Opens a chunk of a body.
    ///
    /// - Returns: nil when it is another one's, or has not the length that its place wants.
    func chunk(_ sealed: [UInt8], _ index: Int, of body: SharedRecord.Body, _ key: [UInt8], _ field: [UInt8])
        -> [UInt8]?
    {
        guard case .chunks(let identifier, let count, let length) = body,
            sealed.count <= SharedRecord.chunkSize + Self.sealAtMost,
            let bytes = secret.open(sealed, .chunk, at: Self.place(key, field, identifier, index, count)),
            bytes.count == Self.range(index, length: length).count
        else { return nil }
        return bytes
    }

    func sealed(_ chunk: [UInt8], _ index: Int, of identifier: [UInt8], _ count: Int, _ key: [UInt8], _ field: [UInt8])
        -> [UInt8]
    {
        secret.seal(chunk, .chunk, at: Self.place(key, field, identifier, index, count))
    }

    /// The bytes of a body that are in a chunk.
    static func range(_ index: Int, length: Int) -> Range<Int> {
        let start = min(index * SharedRecord.chunkSize, length)
        return start..<min(start + SharedRecord.chunkSize, length)
    }

    private static func place(_ key: [UInt8], _ field: [UInt8], _ identifier: [UInt8], _ index: Int, _ count: Int)
        -> [[UInt8]]
    {
        [key, field, identifier, RedisScript.number(index), RedisScript.number(count)]
    }

    /// How long a response could be of use, in seconds: as long as it is fresh, may be used stale, or has a validator; at most a day.
    ///
    /// - Parameter now: in seconds since 1970.
    static func lifetime(of response: StoredResponse, _ grace: CacheGrace, _ options: CacheOptions, now: Int) -> Int {
        let freshness = response.freshness(now: now)
        let control = CacheControl(response.fields)
        let stale = max(
            control.staleWhileRevalidate ?? grace.whileRevalidating,
            control.staleIfError ?? grace.onErrors,
            options.staleWhenDisconnected
        )
        let day = 86_400
        let lifetime =
            min(max(freshness.lifetime, 0), 1 << 40) - min(max(freshness.age, 0), 1 << 40) + min(max(stale, 0), day)
        return min(max(lifetime, response.hasValidator ? 60 : 0), day)
    }
}
