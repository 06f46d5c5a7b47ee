// SPDX-License-Identifier: Apache-2.0
/// The options in the Connection fields of a head (RFC 9110 7.6.1).
package struct ConnectionOptions: Hashable, Sendable {
    package internal(set) var close = false
    package internal(set) var keepAlive = false
    package internal(set) var upgrade = false
    /// Whether it has options other than `close`, `keep-alive`, `upgrade` and `te`, which are then looked up as field
    /// names.
    package internal(set) var namesFields = false
    /// Whether the fields together are longer than `longest`; the rest is not read then, and the message is refused.
    package internal(set) var isTooLong = false

    /// The longest that all Connection fields of a head may be, in bytes. Each field of the head is looked up in them, so
    /// that their length costs its product with the number of fields; what programs send has some dozens of bytes.
    package static let longest = 1024

    package init() {}

    package init(_ fields: borrowing HeaderFields) {
        var found = fields.first(.connection)
        var length = 0
        while let index = found {
            let value = fields.value(at: index)
            length += value.count
            guard length <= Self.longest else {
                isTooLong = true
                return
            }
            // Nearly every such field is this one.
            if value.count == 10, value.equalsIgnoringCase("keep-alive") {
                keepAlive = true
                found = fields.next(.connection, after: index)
                continue
            }
            var members = ListMembers()
            while let range = members.next(in: value) {
                let option = value.extracting(range)
                if option.equalsIgnoringCase("close") {
                    close = true
                } else if option.equalsIgnoringCase("keep-alive") {
                    keepAlive = true
                } else if option.equalsIgnoringCase("upgrade") {
                    upgrade = true
                } else if !option.isEmpty, !option.equalsIgnoringCase("te") {
                    namesFields = true
                }
            }
            found = fields.next(.connection, after: index)
        }
    }

    /// Whether the connection stays open after this message (RFC 9112 9.3).
    package func persists(minorVersion: UInt8) -> Bool {
        minorVersion >= 1 ? !close : keepAlive && !close
    }
}
