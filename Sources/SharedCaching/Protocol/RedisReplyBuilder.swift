// SPDX-License-Identifier: Apache-2.0
/// Puts the values of one reply together in the order in which they come, and keeps the bounds of a reply: each is checked before
/// memory is taken.
///
/// A value: the server's numbers go in, what it has sent comes out.
struct RedisReplyBuilder {
    static let elementsAtMost = 1_024
    static let valuesAtMost = 2_048
    /// An array is within so many others at most: those of CLUSTER SLOTS are four, each within the one before it.
    static let nestingAtMost = 3
    /// Of a whole reply.
    static let bytesAtMost = 4 << 20
    /// Of a status or an error.
    static let lineAtMost = 4 << 10

    private let bulkAtMost: Int
    private var arrays: [OpenArray] = []
    /// The values that have come, and those that the arrays announce.
    private var announced = 1
    private var byteCount = 0
    private var reply: RedisReply?
    /// The bound that the server has broken, for people; nothing comes behind it.
    private(set) var fault: String?

    private struct OpenArray {
        var values: [RedisReply] = []
        var missing: Int
    }

    init(bulkAtMost: Int) { self.bulkAtMost = bulkAtMost }

    /// Whether nothing of a reply has come.
    var isEmpty: Bool { arrays.isEmpty && reply == nil }

    /// Takes the reply, if it is complete.
    mutating func take() -> RedisReply? {
        guard let reply else { return nil }
        self = RedisReplyBuilder(bulkAtMost: bulkAtMost)
        return reply
    }

    /// - Returns: false when the reply breaks a bound, as all functions here.
    mutating func beginArray(of count: Int) -> Bool {
        guard count <= Self.elementsAtMost else {
            return refuse("an array of more than \(Self.elementsAtMost) elements")
        }
        guard arrays.count <= Self.nestingAtMost else {
            return refuse("an array within more than \(Self.nestingAtMost) others")
        }
        announced += count
        guard announced <= Self.valuesAtMost else { return refuse("a reply of more than \(Self.valuesAtMost) values") }
        if count == 0 { return add(.array([])) }
        arrays.append(OpenArray(missing: count))
        return true
    }

    /// Adds a value that needs no more memory, or whose bytes were admitted.
    mutating func add(_ value: RedisReply) -> Bool {
        var value = value
        while let last = arrays.indices.last {
            arrays[last].values.append(value)
            arrays[last].missing -= 1
            guard arrays[last].missing == 0 else { return true }
            value = .array(arrays.removeLast().values)
        }
        reply = value
        return true
    }

    /// Counts a value whose bytes are about to be copied.
    mutating func admit(bulk count: Int) -> Bool { check(bulk: count) && admit(count) }

    mutating func admit(line count: Int) -> Bool {
        guard count <= Self.lineAtMost else { return refuse("a line of more than \(Self.lineAtMost) bytes") }
        return admit(count)
    }

    /// Checks a value of which the header has come.
    mutating func check(bulk count: Int) -> Bool {
        guard count <= bulkAtMost else { return refuse("a value of more than \(bulkAtMost) bytes") }
        return hasRoom(count)
    }

    private mutating func admit(_ count: Int) -> Bool {
        guard hasRoom(count) else { return false }
        byteCount += count
        return true
    }

    private mutating func hasRoom(_ count: Int) -> Bool {
        guard count <= Self.bytesAtMost - byteCount else {
            return refuse("a reply of more than \(Self.bytesAtMost) bytes")
        }
        return true
    }

    mutating func refuse(_ fault: String) -> Bool {
        self.fault = fault
        return false
    }
}
