// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The protocols that a client offers to switch to, except those for this hop alone: `h2c` would be used with this
/// proxy, and TLS is already in use.
struct UpgradeOffer {
    /// The members of the origin's Upgrade field, for example `websocket`.
    let protocols: [[UInt8]]

    /// Nil when no protocol is offered that can be forwarded (rule 52: without the Connection token Upgrade has no
    /// meaning).
    init?(_ head: borrowing RequestHead) {
        guard head.wantsUpgrade, !head.framing.hasBody, head.method != .connect else { return nil }
        var protocols: [[UInt8]] = []
        var found = head.fields.first(.upgrade)
        while let index = found {
            let value = head.fields.value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                let member = value.extracting(range)
                guard Self.isProtocol(member), !Self.isOfThisHop(member) else { continue }
                protocols.append(Array(copying: member))
            }
            found = head.fields.next(.upgrade, after: index)
        }
        guard !protocols.isEmpty, protocols.count <= 16 else { return nil }
        self.protocols = protocols
    }

    /// Whether a member is a name, with an optional version after a slash.
    private static func isProtocol(_ member: borrowing Span<UInt8>) -> Bool {
        for index in 0..<member.count where !ASCII.isToken(member[index]) && member[index] != UInt8(ascii: "/") {
            return false
        }
        return !member.isEmpty
    }

    private static func isOfThisHop(_ member: borrowing Span<UInt8>) -> Bool {
        member.equalsIgnoringCase("h2c") || member.equalsIgnoringCase("h2") || member.hasPrefixIgnoringCase("tls")
            || member.hasPrefixIgnoringCase("http/")
    }

    /// Whether a 101 names an offered protocol in the way that RFC 9110, section 15.2.2, requires.
    func isAccepted(by response: borrowing ResponseHead) -> Bool {
        guard response.connection.upgrade else { return false }
        var hasAny = false
        var found = response.fields.first(.upgrade)
        while let index = found {
            let value = response.fields.value(at: index)
            var members = ListMembers()
            while let range = members.next(in: value) {
                let member = value.extracting(range)
                guard isOffered(member) else { return false }
                hasAny = true
            }
            found = response.fields.next(.upgrade, after: index)
        }
        return hasAny
    }

    private func isOffered(_ member: borrowing Span<UInt8>) -> Bool {
        for name in protocols where name.span.equalsIgnoringCase(member) { return true }
        return false
    }

    /// Makes the request's head for an origin connection of its own, without the empty line at its end.
    ///
    /// - Parameter fields: end-to-end fields and Via, as `OriginFields` makes them.
    func request(_ head: borrowing RequestHead, authority: String, fields: borrowing HeaderFields) -> ByteBuffer {
        var request = ByteBuffer()
        request.appendRequestLine(head.method, target: head.target)
        request.append("Host: ")
        request.append(text: authority)
        request.append("\r\nConnection: Upgrade\r\nUpgrade: ")
        for (index, name) in protocols.enumerated() {
            if index > 0 { request.append(", ") }
            request.append(name)
        }
        request.append("\r\n")
        for index in 0..<fields.count { fields.serializeField(at: index, into: &request) }
        return request
    }
}
