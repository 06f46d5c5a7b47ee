// SPDX-License-Identifier: Apache-2.0
import CHiredis

/// A command: its name and its arguments.
struct RedisCommand: Hashable, Sendable {
    let words: [[UInt8]]

    init(_ words: [[UInt8]]) {
        // The server does not reply to a command without words, and each later reply would be taken for the one before it.
        precondition(!words.isEmpty, "a command has a name")
        self.words = words
    }

    init(_ name: StaticString, _ arguments: [UInt8]...) { words = [name.withUTF8Buffer { Array($0) }] + arguments }

    /// At least as many bytes as `encoded` has.
    var byteCount: Int { words.reduce(32) { $0 + $1.count + 32 } }

    /// Its bytes on the wire, made by hiredis.
    func encoded() -> [UInt8] {
        // The words in one place, so that the pointers to them are valid together. A zero behind them: the place is never empty.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCount)
        for word in words { bytes += word }
        bytes.append(0)
        return bytes.withUnsafeBytes { place in
            var next = place.baseAddress!.assumingMemoryBound(to: CChar.self)
            var starts: [UnsafePointer<CChar>?] = []
            for word in words {
                starts.append(next)
                next += word.count
            }
            return FormattedCommand(&starts, words.map(\.count)).bytes
        }
    }
}

/// The owner of the memory in which hiredis has written a command.
private struct FormattedCommand: ~Copyable {
    private let start: UnsafeMutablePointer<CChar>
    private let count: Int

    init(_ words: inout [UnsafePointer<CChar>?], _ lengths: [Int]) {
        // hiredis 0.14 counts in 32 bits. A connection takes no command of more than 16 MB.
        precondition(lengths.reduce(32 * words.count) { $0 + $1 } < Int(Int32.max), "the command is too large")
        var start: UnsafeMutablePointer<CChar>?
        count = Int(redisFormatCommandArgv(&start, Int32(words.count), &words, lengths))
        guard count > 0, let start else { fatalError("no memory for a command") }
        self.start = start
    }

    deinit { redisFreeCommand(start) }

    var bytes: [UInt8] { Array(UnsafeRawBufferPointer(start: start, count: count)) }
}
