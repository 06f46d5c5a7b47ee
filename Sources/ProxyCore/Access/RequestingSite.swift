// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import IOCore

/// The site whose page made a browser send a request, as the browser says it: in Sec-Fetch-Site (Fetch Metadata), and in
/// Origin where something could be changed or read. Other programs send neither.
package struct RequestingSite: Equatable {
    /// The site of the page in relation to the listener.
    package enum Relation: Equatable {
        /// The request has no such field.
        case unsaid
        /// No page: a person typed the address, or opened a bookmark.
        case person
        /// The listener's own page.
        case own
        /// Another site's page; also what cannot be understood, such as two fields.
        case other
    }

    /// What Sec-Fetch-Site says.
    package let fetchSite: Relation
    /// What Origin says.
    package let origin: Relation

    /// - Parameter head: a request whose Host is one of the listener's own names (`OwnNames`), or absent.
    package init(_ head: borrowing RequestHead) {
        guard head.fields.mayContain(anyOf: [.origin, .other]) else {
            (fetchSite, origin) = (.unsaid, .unsaid)
            return
        }
        fetchSite = Self.fetchSite(of: head)
        origin = Self.origin(of: head)
    }

    /// Whether a page of another site made the browser send it.
    var isOther: Bool { fetchSite == .other || origin == .other }

    /// Whether the request is a browser's.
    package var isSaid: Bool { fetchSite != .unsaid || origin != .unsaid }

    private static func fetchSite(of head: borrowing RequestHead) -> Relation {
        var found = Relation.unsaid
        for index in 0..<head.fields.count where head.fields.id(at: index) == .other {
            guard head.fields.name(at: index).equalsIgnoringCase("sec-fetch-site") else { continue }
            guard found == .unsaid else { return .other }
            let value = head.fields.value(at: index)
            found = value.equals("same-origin") ? .own : value.equals("none") ? .person : .other
        }
        return found
    }

    private static func origin(of head: borrowing RequestHead) -> Relation {
        guard let index = head.fields.first(.origin) else { return .unsaid }
        guard head.fields.next(.origin, after: index) == nil, let host = head.fields.first(.host) else { return .other }
        return isOrigin(head.fields.value(at: index), head.fields.value(at: host)) ? .own : .other
    }

    /// Whether the value of Origin is that of a page at this host and port. The scheme does not count: whoever ends TLS in
    /// front of a listener makes http of https.
    private static func isOrigin(_ value: borrowing Span<UInt8>, _ authority: borrowing Span<UInt8>) -> Bool {
        let start = value.count - authority.count
        guard start == 7 || start == 8 else { return false }
        let scheme = value.extracting(0..<start)
        return (scheme.equals("http://") || scheme.equals("https://"))
            && value.extracting(start..<value.count).equalsIgnoringCase(authority)
    }
}
