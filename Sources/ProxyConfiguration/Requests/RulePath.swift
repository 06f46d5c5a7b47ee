// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// A pattern of a rule for the path of a request. It is written like those of the hooks (`PathPattern`), and is stricter about an
/// encoded slash (`%2F`), which is a slash to some servers and none to others: a star takes in none.
package struct RulePath: Hashable, Sendable {
    /// Compared with the normal form of a path.
    private let pattern: WildcardPattern
    /// Compared with the folded form of a path.
    private let folded: WildcardPattern
    /// The number of `%2F`.
    package let encodedSlashes: Int

    /// The pattern as written.
    package var text: String { pattern.text }
    package var starCount: Int { pattern.starCount }

    /// More stars would make the worst path cost too much.
    package static let starLimit = 8

    /// - Returns: nil for a text that is no `PathPattern`.
    package init?(_ text: String) {
        guard PathPattern(text) != nil else { return nil }
        let written = Array(text.utf8)
        let bytes = PathPattern.normal(written.span)
        pattern = WildcardPattern(text, bytes)
        folded = WildcardPattern(text, Self.folded(bytes))
        encodedSlashes = Self.encodedSlashes(in: bytes)
    }

    /// Why no path that is read in one way has this form; nil when some have.
    package var ambiguity: RequestAmbiguity? {
        let path = text.utf8.map { $0 == UInt8(ascii: "*") ? UInt8(ascii: "x") : $0 }
        return RequestReading(path: path.span).path
    }

    /// Whether a path matches that is read in one way apart from its encoded slashes. When both have as many of these, no star
    /// has taken one in.
    package func matches(_ forms: inout PathForms, encodedSlashes count: Int) -> Bool {
        count == encodedSlashes && forms.match(pattern)
    }

    /// Whether its only star is at the end.
    var isOpen: Bool { starCount == 1 && text.hasSuffix("*") }

    /// Whether every path of another pattern is one of this, as far as that is plain to see: this one has its only star at the end,
    /// and the other begins likewise and spells no encoded slash behind.
    func isPrefix(of other: RulePath) -> Bool {
        isOpen && other.text.hasPrefix(text.dropLast()) && other.encodedSlashes == encodedSlashes
    }

    /// Whether a path matches.
    package func covers(_ path: String) -> Bool {
        let bytes = Array(path.utf8)
        let reading = RequestReading(path: bytes.span)
        var forms = PathForms(bytes.span)
        return reading.path == nil && matches(&forms, encodedSlashes: reading.encodedSlashes)
    }

    /// Whether a path has this form to a rule that denies: in any case, with encoded slashes as slashes. A path with more of these
    /// than the pattern spells can be read in two ways.
    package func meets(_ forms: inout PathForms, encodedSlashes count: Int) -> Bool {
        count <= encodedSlashes && forms.matchFolded(folded)
    }

    static func folded(_ path: [UInt8]) -> [UInt8] {
        var folded: [UInt8] = []
        folded.reserveCapacity(path.count)
        var position = 0
        while position < path.count {
            if isEncodedSlash(path, at: position) {
                folded.append(UInt8(ascii: "/"))
                position += 3
            } else {
                folded.append(ASCII.lowercased(path[position]))
                position += 1
            }
        }
        return folded
    }

    private static func encodedSlashes(in path: [UInt8]) -> Int {
        path.indices.reduce(0) { isEncodedSlash(path, at: $1) ? $0 + 1 : $0 }
    }

    private static func isEncodedSlash(_ path: [UInt8], at position: Int) -> Bool {
        path[position] == UInt8(ascii: "%") && position + 2 < path.count && path[position + 1] == UInt8(ascii: "2")
            && path[position + 2] | 0x20 == UInt8(ascii: "f")
    }
}

/// The path of one request in the forms that patterns are compared with, each made when the first pattern needs it. One value
/// serves one request after another, with its memory.
package struct PathForms: ~Copyable {
    /// The normal form (`PathPattern.normal`).
    private var path = ByteBuffer()
    private var folded: [UInt8]?
    /// How many bytes may still be searched through. A client chooses the path, and there may be thousands of patterns.
    private var budget = searchLimit

    private static let searchLimit = 1 << 19
    /// What a look at a pattern costs, in bytes that are searched through.
    private static let look = 32
    private static let keptBytes = 1 << 10

    /// A path that is not seen.
    package init() {}

    /// - Parameter target: path and query in origin form.
    package init(_ target: borrowing Span<UInt8>) {
        reset(target.extracting(0..<RequestReading.endOfPath(target)))
    }

    /// Whether more would have had to be searched through: no pattern is known to match or not to.
    package var isExhausted: Bool { budget < 0 }

    /// Takes the path of another request.
    package mutating func reset(_ path: borrowing Span<UInt8>) {
        if folded != nil { folded = nil }
        budget = Self.searchLimit
        if self.path.count > Self.keptBytes { self.path.release() } else { self.path.removeAll() }
        if path.firstIndex(of: UInt8(ascii: "%")) == nil {
            self.path.append(path)
        } else {
            self.path.append(PathPattern.normal(path))
        }
    }

    mutating func match(_ pattern: WildcardPattern) -> Bool {
        var budget = budget - Self.look
        defer { self.budget = budget }
        guard budget >= 0 else { return false }
        return pattern.matches(path.bytes, within: &budget)
    }

    mutating func matchFolded(_ pattern: WildcardPattern) -> Bool {
        budget -= Self.look
        guard budget >= 0 else { return false }
        let folded = folded ?? RulePath.folded(Array(copying: path.bytes))
        self.folded = folded
        return pattern.matches(folded.span, within: &budget)
    }
}
