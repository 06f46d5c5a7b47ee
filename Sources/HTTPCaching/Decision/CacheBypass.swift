// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// What keeps a request from the cache, by the owner's word: a field, or a cookie.
package struct CacheBypass: Hashable, Sendable {
    /// Names of fields, in lower case.
    package let fieldNames: [[UInt8]]
    package let cookies: [WildcardPattern]

    /// - Parameter fields: names in any case.
    package init(fields: [String] = [], cookies: [WildcardPattern] = []) {
        fieldNames = fields.map { $0.utf8.map(ASCII.lowercased) }
        self.cookies = cookies
    }

    /// Whether a request has one of them. An empty one counts, too.
    package func applies(to fields: HeaderFields) -> Bool {
        for name in fieldNames where fields.first(named: name.span) != nil { return true }
        guard !cookies.isEmpty else { return false }
        for index in 0..<fields.count where fields.id(at: index) == .cookie {
            if hasCookie(fields.value(at: index)) { return true }
        }
        return false
    }

    /// Whether a Cookie field has one of the cookies. It is split at commas and inside of quotes, too, as some origins do: a
    /// request too many goes to the origin rather than one too few.
    private func hasCookie(_ value: borrowing Span<UInt8>) -> Bool {
        var start = 0
        while start < value.count {
            var end = start
            while end < value.count, value[end] != UInt8(ascii: ";"), value[end] != UInt8(ascii: ",") { end += 1 }
            var nameEnd = start
            while nameEnd < end, value[nameEnd] != UInt8(ascii: "=") { nameEnd += 1 }
            let name = value.extracting(value.trimmingBlanks(start..<nameEnd))
            for pattern in cookies where pattern.matches(name) { return true }
            start = end + 1
        }
        return false
    }
}
