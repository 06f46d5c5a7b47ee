// SPDX-License-Identifier: Apache-2.0
/// Splits bytes into lines, which end with LF, CR LF or CR. A value.
struct LineSplitter {
    private var pending: [UInt8] = []
    /// The beginning of the next line.
    private var start = 0
    /// The bytes before this index contain no end of a line.
    private var searched = 0
    /// The last line ended with CR, and LF may follow.
    private var skipsLineFeed = false

    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")

    /// The bytes that wait for the end of their line.
    var pendingCount: Int { pending.count - start }

    mutating func append(_ piece: [UInt8]) {
        if start > 0 {
            pending.removeSubrange(..<start)
            searched -= start
            start = 0
        }
        pending += piece
    }

    /// The next complete line, without its end.
    mutating func next() -> [UInt8]? {
        if skipsLineFeed, start < pending.count {
            if pending[start] == Self.lineFeed { start += 1 }
            searched = max(searched, start)
            skipsLineFeed = false
        }
        while searched < pending.count {
            let byte = pending[searched]
            searched += 1
            guard byte == Self.lineFeed || byte == Self.carriageReturn else { continue }
            let line = Array(pending[start..<(searched - 1)])
            start = searched
            skipsLineFeed = byte == Self.carriageReturn
            return line
        }
        return nil
    }

    /// The last line, which has no end; nil when nothing is left.
    mutating func rest() -> [UInt8]? {
        guard start < pending.count else { return nil }
        defer { self = LineSplitter() }
        return Array(pending[start...])
    }
}
