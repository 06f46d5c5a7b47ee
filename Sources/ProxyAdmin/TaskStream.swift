// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyCore

/// The events of one reader of `/tasks/stream`, as a value (server-sent events, in the HTML standard, section 9.2).
///
/// It keeps no lines, only the number of the next one. A reader that is too slow therefore costs no memory: lines that
/// were forgotten meanwhile are counted, and the reader is told.
struct TaskStream {
    /// The number of the next line.
    private(set) var next: Int

    /// How often lines are looked for.
    static let interval = TimeSpan.milliseconds(200)
    /// The bytes of lines that are written at once. With `interval`, this bounds what a reader can get: about a
    /// thousand tasks a second.
    static let portion = 256 << 10
    /// The time after which a silent stream shows that it still lives.
    static let heartbeat = TimeSpan.seconds(15)

    /// The time after which a browser that has lost the connection tries again.
    static let beginning: StaticString = "retry: 2000\n\n"

    /// - Parameters:
    ///   - first: the number of the first line; nil, and a number from another process's time, mean the next one.
    ///   - count: the number of lines so far.
    init(from first: Int?, of count: Int) {
        next = first.map { $0 <= count ? $0 : count } ?? count
    }

    /// Appends the events of the lines that have come.
    ///
    /// - Returns: whether there was any.
    mutating func write(_ recent: RecentTasks, to output: inout ByteBuffer) -> Bool {
        let excerpt = recent.lines(from: next, upTo: Self.portion)
        guard excerpt.next > next else { return false }
        if excerpt.first > next {
            output.append("event: lost\ndata: {\"count\":")
            output.append(decimal: excerpt.first - next)
            output.append("}\n\n")
        }
        for (index, line) in excerpt.lines.enumerated() {
            output.append("event: task\nid: ")
            output.append(decimal: excerpt.first + index)
            output.append("\ndata: ")
            // A line has no line breaks: JSON escapes them.
            output.append(line)
            output.append("\n\n")
        }
        next = excerpt.next
        return true
    }
}
