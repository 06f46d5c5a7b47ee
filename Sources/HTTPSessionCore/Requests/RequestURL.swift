// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// A URL in the parts of a request: the origin, and the target in origin form.
struct RequestURL: Sendable {
    let origin: Origin
    let target: [UInt8]

    /// - Parameter text: an `http` or `https` URL as `HTTPSessionManager.data` documents it.
    init(_ text: String) throws(SessionError) { try self.init(escaped: URLEscaping.escape(text)) }

    /// - Parameter text: the same in the form of `HTTPSessionRequest.url`.
    init(escaped text: String) throws(SessionError) {
        guard let url = AbsoluteURL(text) else {
            throw SessionError(
                .requestInvalid,
                "This is no http or https URL with a valid host and without user information, control characters and backslashes."
            )
        }
        origin = url.origin
        var target = url.rest
        if let fragment = target.firstIndex(of: UInt8(ascii: "#")) { target.removeSubrange(fragment...) }
        if target.first != UInt8(ascii: "/") { target.insert(UInt8(ascii: "/"), at: 0) }
        self.target = target
    }
}
