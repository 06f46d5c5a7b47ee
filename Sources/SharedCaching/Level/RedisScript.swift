// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A script that Redis executes as one step. Each touches keys of one slot, and runs on Redis 6, 7 and 8 and on Valkey.
struct RedisScript: Sendable {
    let text: StaticString

    func command(_ keys: [[UInt8]], _ arguments: [[UInt8]]) -> RedisCommand {
        let script = text.withUTF8Buffer { Array($0) }
        return RedisCommand([Array("EVAL".utf8), script, Self.number(keys.count)] + keys + arguments)
    }

    static func number(_ value: Int) -> [UInt8] { Array(String(value).utf8) }

    /// Writes a field of a URI's hash unless the URI was invalidated, or its generation was lost since. The hash lives as long as its longest-lived field.
    ///
    /// Keys: the hash. Arguments: the generation that the writer knows, the lifetime in milliseconds, the field, its value.
    /// Reply: 1, or 0 when the generation is another one.
    static let store = RedisScript(
        text: """
            local g = redis.call('HGET', KEYS[1], 'g') or ''
            if g == '' or g ~= ARGV[1] then return 0 end
            local ttl = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))
            if redis.call('HLEN', KEYS[1]) > 512 then
              redis.call('DEL', KEYS[1])
              redis.call('HSET', KEYS[1], 'g', g)
            end
            redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
            redis.call('PEXPIRE', KEYS[1], ttl)
            return 1
            """
    )

    /// Removes everything about a URI, and what was requested before is not stored any more.
    ///
    /// Keys: the hash. Arguments: the new generation, how long it is kept in milliseconds. Reply: 1.
    static let invalidate = RedisScript(
        text: """
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'g', ARGV[1])
            redis.call('PEXPIRE', KEYS[1], ARGV[2])
            return 1
            """
    )

    /// Takes a lease unless somebody has it, and makes a generation for the URI unless it has one: without one nobody could tell
    /// later whether it was never there or was lost with an invalidation.
    ///
    /// Keys: the lease, the hash. Arguments: the token, the milliseconds of the lease, a generation, how long it is kept at least in
    /// milliseconds. Reply: the token of the one who has the lease, the generation.
    static let lease = RedisScript(
        text: """
            local g = redis.call('HGET', KEYS[2], 'g')
            if not g then
              g = ARGV[3]
              redis.call('HSET', KEYS[2], 'g', g)
            end
            if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[2], ARGV[4]) end
            local owner = redis.call('GET', KEYS[1])
            if not owner then
              owner = ARGV[1]
              redis.call('SET', KEYS[1], owner, 'PX', ARGV[2])
            end
            return {owner, g}
            """
    )

    /// Gives a lease back, if it still is the caller's.
    ///
    /// Keys: the lease. Arguments: the token, the value that takes its place or nothing, how long that is kept in milliseconds.
    /// Reply: 1, or 0.
    static let release = RedisScript(
        text: """
            if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
            if ARGV[2] == '' then redis.call('DEL', KEYS[1])
            else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
            return 1
            """
    )

    /// Appends a purge if the count is in a range: that one number for a purge, everything below a number for a repair. A count that
    /// is no number, or is not exact as a double, counts as 0.
    ///
    /// The record of the latest purge does not expire: its time tells whether those that are missing before it have.
    ///
    /// Keys: the count, the purge, the purge before it. Arguments: the least count, the largest count, the purge's number, the purge,
    /// how long a purge is kept behind a later one in milliseconds. Reply: -1, or the count.
    static let append = RedisScript(
        text: """
            local text = redis.call('GET', KEYS[1]) or '0'
            local count = string.match(text, '^%d+$') and tonumber(text) or 0
            if count >= 4503599627370496 then count = 0 end
            if count < tonumber(ARGV[1]) or count > tonumber(ARGV[2]) then return count end
            redis.call('SET', KEYS[2], ARGV[4])
            redis.call('PEXPIRE', KEYS[3], ARGV[5])
            redis.call('SET', KEYS[1], ARGV[3])
            return -1
            """
    )
}

/// Readings of a reply: an error, and a value of another kind than expected, are failures.
extension RedisResult {
    /// A string, or nil for an absent one.
    var value: Result<[UInt8]?, RedisFailure> { flatMap { Self.value($0) } }

    /// An array of so many strings.
    func values(_ count: Int) -> Result<[[UInt8]?], RedisFailure> {
        flatMap { reply in
            guard case .array(let items) = reply, items.count == count else { return Self.unexpected(reply) }
            var values: [[UInt8]?] = []
            values.reserveCapacity(count)
            for item in items {
                switch Self.value(item) {
                case .success(let value): values.append(value)
                case .failure(let failure): return .failure(failure)
                }
            }
            return .success(values)
        }
    }

    var integer: Result<Int, RedisFailure> {
        flatMap { reply in
            guard case .integer(let number) = reply else { return Self.unexpected(reply) }
            return .success(number)
        }
    }

    private static func value(_ reply: RedisReply) -> Result<[UInt8]?, RedisFailure> {
        switch reply {
        case .bytes(let bytes): .success(bytes)
        case .null: .success(nil)
        default: unexpected(reply)
        }
    }

    private static func unexpected<Value>(_ reply: RedisReply) -> Result<Value, RedisFailure> {
        guard case .error(let text) = reply else { return .failure(.malformed("an unexpected reply")) }
        let word = text.prefix(32).prefix { $0 >= UInt8(ascii: "A") && $0 <= UInt8(ascii: "Z") }
        return .failure(.refused(String(decoding: word, as: UTF8.self)))
    }
}
