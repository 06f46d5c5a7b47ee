// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The commands of a connection: those that wait to be written, and those that have been, whose replies come in their order.
///
/// A value: commands, replies and times go in; what is to be told, and whether the server is lost, comes out. Times are nanoseconds
/// of the loop's clock.
struct RedisPipeline {
    typealias Completion = (RedisResult) -> Void

    static let commandsAtMost = 1_024
    /// Of commands that wait, here and in the stream.
    static let bytesAtMost = 16 << 20
    static let overdueAtMost = 64
    /// A server that sends nothing for so long while replies are overdue is lost.
    static let longestSilence: UInt64 = 2_000_000_000

    private struct Waiting {
        let command: RedisCommand
        let deadline: UInt64
        let completion: Completion
    }

    private struct Written {
        let deadline: UInt64
        /// Nil when the command has failed, because its time was over: the reply is skipped.
        var completion: Completion?
    }

    private var waiting: [Waiting] = []
    private var waitingBytes = 0
    private var written: [Written] = []
    /// The place of the command whose reply comes next. Those before it are done.
    private var first = 0
    private var overdue = 0
    /// When something has come last, or the first of the commands was written that have no reply.
    private var quietSince: UInt64 = 0

    /// Whether there is no command, neither waiting nor without its reply.
    var isEmpty: Bool { waiting.isEmpty && !expectsReply }

    var hasWaiting: Bool { !waiting.isEmpty }

    /// Whether a command was written whose reply has not come.
    var expectsReply: Bool { first < written.count }

    /// Adds a command, unless too much is under way.
    ///
    /// - Parameter unsentBytes: those of written commands that the system has not taken.
    /// - Returns: whether there was room for it.
    mutating func add(
        _ command: RedisCommand,
        by deadline: UInt64,
        unsentBytes: Int,
        _ completion: @escaping Completion
    ) -> Bool {
        let byteCount = command.byteCount
        guard waiting.count + written.count - first < Self.commandsAtMost,
            byteCount + waitingBytes + unsentBytes <= Self.bytesAtMost
        else { return false }
        waiting.append(Waiting(command: command, deadline: deadline, completion: completion))
        waitingBytes += byteCount
        return true
    }

    /// Writes the commands that wait.
    mutating func write(to buffer: inout ByteBuffer, at now: UInt64) {
        guard hasWaiting else { return }
        if !expectsReply { quietSince = now }
        for next in waiting {
            buffer.append(next.command.encoded())
            written.append(Written(deadline: next.deadline, completion: next.completion))
        }
        (waiting, waitingBytes) = ([], 0)
    }

    /// Notes that the server has sent something.
    mutating func noteReceipt(at now: UInt64) { quietSince = now }

    /// Takes the command that a reply belongs to. Only when `expectsReply`.
    ///
    /// - Returns: nil when its time was over before.
    mutating func takeReplied() -> Completion? {
        let completion = written[first].completion.take()
        if completion == nil { overdue -= 1 }
        first += 1
        if first == written.count {
            written.removeAll(keepingCapacity: true)
            first = 0
        } else if first >= 64, 2 * first >= written.count {
            written.removeSubrange(..<first)
            first = 0
        }
        return completion
    }

    /// Takes the commands whose time is over. One that waits is forgotten; one that was written keeps its place.
    mutating func takeLate(at now: UInt64) -> [Completion] {
        var late: [Completion] = []
        for index in first..<written.count where written[index].deadline <= now {
            guard let completion = written[index].completion.take() else { continue }
            late.append(completion)
            overdue += 1
        }
        waiting.removeAll { next in
            guard next.deadline <= now else { return false }
            late.append(next.completion)
            waitingBytes -= next.command.byteCount
            return true
        }
        return late
    }

    /// Whether so many replies are overdue, or for so long, that none is to be expected.
    func isLost(at now: UInt64) -> Bool {
        overdue > Self.overdueAtMost || overdue > 0 && now >= quietSince &+ Self.longestSilence
    }

    /// When `takeLate` or `isLost` has something to say at the earliest; nil for never.
    var nextDeadline: UInt64? {
        var next = overdue > 0 ? quietSince &+ Self.longestSilence : UInt64.max
        for index in first..<written.count where written[index].completion != nil {
            next = min(next, written[index].deadline)
        }
        for command in waiting { next = min(next, command.deadline) }
        return next == .max ? nil : next
    }

    /// Takes all that have not been told anything, in their order.
    mutating func takeAll() -> [Completion] {
        let all = written[first...].compactMap(\.completion) + waiting.map(\.completion)
        self = RedisPipeline()
        return all
    }
}
