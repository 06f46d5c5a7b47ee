// SPDX-License-Identifier: Apache-2.0
import CHiredis

/// Reads replies (RESP2) with hiredis. All that a reply takes of memory is bounded: `RedisReplyBuilder` has the bounds of values, and
/// the reader those of bytes that are no value yet. After an error it is of no more use.
///
/// It owns hiredis' reader, which refers to this object in its calls: they come within `next` alone.
final class RedisReader {
    static let bulkAtMost = 1 << 20
    /// The header of an array or bulk, or an integer: hiredis takes numbers of at most 20 characters.
    private static let headerAtMost = 32
    /// hiredis gets so much at once, and is then asked what it has: a header that is beyond the bounds costs no more than that.
    private static let pieceSize = 16 << 10
    /// A reader that has held more is given back when nothing is left in it, because its memory does not shrink.
    private static let keptAtMost = 64 << 10

    /// Nil while it would hold nothing.
    private var handle: UnsafeMutablePointer<redisReader>?
    private var fedBytes = 0
    private var builder: RedisReplyBuilder
    private var failure: RedisFailure?

    init(bulkAtMost: Int = RedisReader.bulkAtMost) { builder = RedisReplyBuilder(bulkAtMost: bulkAtMost) }

    deinit { redisReaderFree(handle) }

    /// Whether it holds nothing, not even a part of a reply.
    var isAtRest: Bool {
        builder.isEmpty && handle.map { pinproxy_redis_type($0) < 0 && Self.rest(of: $0).isEmpty } ?? true
    }

    /// The next complete reply, of what was there before and of the bytes from `position` on; nil when they are used up before.
    func next(_ bytes: borrowing Span<UInt8>, from position: inout Int) throws(RedisFailure) -> RedisReply? {
        if let failure { throw failure }
        while true {
            if let handle, let reply = try take(from: handle) { return reply }
            guard position < bytes.count else { return nil }
            let count = min(Self.pieceSize, bytes.count - position)
            try feed(bytes.extracting(position..<position + count))
            position += count
        }
    }

    private func feed(_ bytes: borrowing Span<UInt8>) throws(RedisFailure) {
        let handle = handle ?? make()
        fedBytes += bytes.count
        let result = bytes.withUnsafeBytes { raw in
            redisReaderFeed(handle, raw.baseAddress?.assumingMemoryBound(to: CChar.self), raw.count)
        }
        if result != REDIS_OK { throw fail() }
    }

    private func make() -> UnsafeMutablePointer<redisReader> {
        guard let made = redisReaderCreateWithFunctions(functions) else {
            fatalError("no memory for a reader of replies")
        }
        made.pointee.privdata = Unmanaged.passUnretained(self).toOpaque()
        handle = made
        return made
    }

    private func take(from handle: UnsafeMutablePointer<redisReader>) throws(RedisFailure) -> RedisReply? {
        // What it gives is only a sign that a value was taken: the builder has the values.
        var sign: UnsafeMutableRawPointer?
        guard redisReaderGetReply(handle, &sign) == REDIS_OK else { throw fail() }
        let rest = Self.rest(of: handle)
        if let reply = builder.take() {
            if rest.isEmpty { shrink() }
            return reply
        }
        guard sign == nil, mayGrow(rest, pinproxy_redis_type(handle)) else { throw fail() }
        return nil
    }

    private func shrink() {
        guard fedBytes > Self.keptAtMost else { return }
        redisReaderFree(handle)
        handle = nil
        fedBytes = 0
    }

    /// Whether more may come for a value of which the bytes are not complete.
    private func mayGrow(_ rest: UnsafeRawBufferPointer, _ type: Int32) -> Bool {
        switch type {
        case ..<0: return true
        case REDIS_REPLY_STATUS, REDIS_REPLY_ERROR:
            return rest.count <= RedisReplyBuilder.lineAtMost + 2 || builder.refuse("a line without an end")
        case REDIS_REPLY_STRING:
            guard let length = Self.length(rest) else {
                return rest.count < Self.headerAtMost || builder.refuse("a length without an end")
            }
            return builder.check(bulk: length)
        case REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY:
            return rest.count < Self.headerAtMost || builder.refuse("a number without an end")
        // The other types of RESP3, which hiredis 1 reads.
        default: return false
        }
    }

    /// The number in the header of a bulk, which hiredis has checked; nil when the header is not complete.
    private static func length(_ rest: UnsafeRawBufferPointer) -> Int? {
        var length = 0
        for index in 0..<max(0, min(rest.count - 1, headerAtMost)) {
            if rest[index] == UInt8(ascii: "\r"), rest[index + 1] == UInt8(ascii: "\n") { return length }
            // Far above all bounds it does not matter by how much.
            length = min(10 * length + Int(rest[index] & 15), 1 << 50)
        }
        return nil
    }

    private static func rest(of handle: UnsafeMutablePointer<redisReader>) -> UnsafeRawBufferPointer {
        var count = 0
        let start = pinproxy_redis_rest(handle, &count)
        return UnsafeRawBufferPointer(start: start, count: count)
    }

    private func fail() -> RedisFailure {
        // Nothing of hiredis' text, which repeats the server's bytes.
        let failure = RedisFailure.malformed(builder.fault ?? "bytes that are no reply of RESP2")
        self.failure = failure
        return failure
    }

    // MARK: Values from hiredis

    fileprivate func takeArray(_ type: Int32, _ count: Int) -> Bool {
        type == REDIS_REPLY_ARRAY && builder.beginArray(of: count)
    }

    fileprivate func takeString(_ type: Int32, _ bytes: UnsafeRawPointer, _ count: Int) -> Bool {
        let text = UnsafeRawBufferPointer(start: bytes, count: count)
        switch type {
        case REDIS_REPLY_STRING:
            // hiredis has the two bytes behind a bulk, and does not look at them.
            guard bytes.load(fromByteOffset: count, as: UInt8.self) == UInt8(ascii: "\r"),
                bytes.load(fromByteOffset: count + 1, as: UInt8.self) == UInt8(ascii: "\n")
            else { return builder.refuse("a value that is longer than its length") }
            return builder.admit(bulk: count) && builder.add(.bytes(Array(text)))
        case REDIS_REPLY_STATUS: return builder.admit(line: count) && builder.add(.status(Array(text)))
        case REDIS_REPLY_ERROR: return builder.admit(line: count) && builder.add(.error(Array(text)))
        default: return false
        }
    }

    fileprivate func takeInteger(_ value: Int) -> Bool { builder.add(.integer(value)) }

    fileprivate func takeNull(_ type: Int32) -> Bool {
        (type == REDIS_REPLY_STRING || type == REDIS_REPLY_ARRAY) && builder.add(.null)
    }
}

/// hiredis' calls for each value; null makes an error of it. Made once, never changed and never freed: all readers refer to it.
private nonisolated(unsafe) let functions: UnsafeMutablePointer<redisReplyObjectFunctions> = {
    let functions = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
    functions.initialize(to: redisReplyObjectFunctions())
    functions.pointee.createString = { task, bytes, count in sign(task) { $0.takeString($1, bytes!, count) } }
    // The number is an Int32 in hiredis 0.14, an Int in 1.
    functions.pointee.createArray = { task, count in sign(task) { $0.takeArray($1, Int(count)) } }
    functions.pointee.createInteger = { task, value in sign(task) { reader, _ in reader.takeInteger(Int(value)) } }
    functions.pointee.createNil = { task in sign(task) { $0.takeNull($1) } }
    pinproxy_redis_refuse_resp3(functions)
    return functions
}()

/// Hands a value to the reader of its task.
///
/// - Returns: a pointer that is not null when the reader has taken it. hiredis hands it back, and does not look behind it.
private func sign(
    _ task: UnsafePointer<redisReadTask>?,
    _ take: (RedisReader, Int32) -> Bool
) -> UnsafeMutableRawPointer? {
    guard let task, let place = task.pointee.privdata else { return nil }
    return take(Unmanaged<RedisReader>.fromOpaque(place).takeUnretainedValue(), task.pointee.type) ? place : nil
}
