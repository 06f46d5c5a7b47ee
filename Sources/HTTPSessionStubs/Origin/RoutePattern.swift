// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore
import SessionCore

/// The URLs of a route: `/v1/items`, `/v1/items/*`, `https://api.example.com/v1/*?page=2`, `*`.
///
/// A value. A pattern that begins with `/` holds for every host; one with a query for this query alone. `*` stands for any part of
/// a path up to the next slash, and at the end of a path for all that follows.
struct RoutePattern: Sendable {
    let text: String
    /// nil for every host.
    private let origin: Origin?
    /// nil for every path.
    private let path: [Substring]?
    private let query: String?

    /// - Throws: `requestInvalid` for a text that is not a pattern.
    init(_ text: String) throws(SessionError) {
        self.text = text
        // As the request's own URL.
        let text = HTTPSessionRequest(url: text).url
        if text == "*" {
            (origin, path, query) = (nil, nil, nil)
            return
        }
        let rest: String
        if text.hasPrefix("/") {
            origin = nil
            rest = text
        } else {
            guard let url = AbsoluteURL(text) else {
                throw SessionError(
                    .requestInvalid,
                    "\(text) is no pattern of a route: write a path (/v1/items), a URL (https://host/v1/items), or *."
                )
            }
            origin = url.origin
            let target = String(decoding: url.rest, as: UTF8.self)
            rest = target.hasPrefix("/") ? target : "/" + target
        }
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = parts[0].split(separator: "/", omittingEmptySubsequences: false)
        query = parts.count > 1 ? String(parts[1]) : nil
    }

    /// A route for one URL alone.
    init(exactly url: AbsoluteURL) {
        let target = String(decoding: url.rest, as: UTF8.self)
        text = url.origin.description + target
        origin = url.origin
        isExact = true
        path = [target[...]]
        query = nil
    }

    private var isExact = false

    func matches(_ url: AbsoluteURL) -> Bool {
        if let origin, origin != url.origin { return false }
        guard let path else { return true }
        let target = String(decoding: url.rest, as: UTF8.self)
        if isExact { return path[0] == target }
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        if let query, parts.count < 2 || parts[1] != query { return false }
        return Self.matches(path, parts[0].split(separator: "/", omittingEmptySubsequences: false))
    }

    private static func matches(_ pattern: [Substring], _ path: [Substring]) -> Bool {
        for (index, part) in pattern.enumerated() {
            if part == "*", index == pattern.count - 1 { return path.count > index }
            guard index < path.count, part == "*" || part == path[index] else { return false }
        }
        return pattern.count == path.count
    }
}
