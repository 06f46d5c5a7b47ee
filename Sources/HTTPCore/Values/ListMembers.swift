// SPDX-License-Identifier: Apache-2.0
/// Iterates over the members of a comma-separated list (RFC 9110 5.6.1): ranges without surrounding white space,
/// including empty ones. A comma inside a quoted string does not separate members.
package struct ListMembers {
    private var position = 0
    private let hasEscapes: Bool

    /// - Parameter hasEscapes: whether a backslash in a quoted string escapes the next byte. In an entity tag it is an
    ///   ordinary character (RFC 9110 8.8.3).
    package init(hasEscapes: Bool = true) { self.hasEscapes = hasEscapes }

    /// The next member of `list`, or nil after the last.
    package mutating func next(in list: borrowing Span<UInt8>) -> Range<Int>? {
        guard position <= list.count else { return nil }
        let start = position
        var index = position
        var isQuoted = false
        while index < list.count {
            let byte = list[index]
            if isQuoted {
                if byte == ASCII.quote { isQuoted = false } else if byte == ASCII.backslash, hasEscapes { index &+= 1 }
            } else if byte == ASCII.quote {
                isQuoted = true
            } else if byte == ASCII.comma {
                break
            }
            index &+= 1
        }
        let end = min(index, list.count)
        position = end &+ 1
        return list.trimmingBlanks(start..<end)
    }
}
