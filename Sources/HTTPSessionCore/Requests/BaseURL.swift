// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// The base of a manager's relative URLs.
///
/// AFNetworking's rule: a base with a path gets a slash at its end, so that its last segment is a folder.
/// `https://example.com/v1` and `items` make `https://example.com/v1/items`.
struct BaseURL: Sendable {
    private let base: AbsoluteURL

    /// - Throws: `requestInvalid` unless it is an absolute http or https URL.
    init(_ text: String) throws(SessionError) {
        guard let url = AbsoluteURL(URLEscaping.escape(text)) else {
            throw SessionError(
                .requestInvalid,
                "The base URL is no http or https URL with a valid host and without user information, control characters and backslashes."
            )
        }
        let path = url.rest.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        guard !path.isEmpty, path.last != UInt8(ascii: "/") else {
            base = url
            return
        }
        base = AbsoluteURL(origin: url.origin, rest: path + [UInt8(ascii: "/")] + url.rest[path.endIndex...])
    }

    var text: String { base.text }
    var origin: Origin { base.origin }

    /// Resolves a reference (RFC 3986, section 5.2). An absolute one stays as it is.
    ///
    /// - Throws: `requestInvalid` for an invalid reference: control characters, backslashes, user information, other schemes.
    func resolve(_ reference: String) throws(SessionError) -> String {
        let reference = URLEscaping.escape(reference)
        if AbsoluteURL(reference) != nil { return reference }
        guard let url = base.resolving(Array(reference.utf8).span) else {
            throw SessionError(
                .requestInvalid,
                "The URL is no reference to http or https that can be read."
            )
        }
        return url.text
    }
}
