// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// The rules for delivering responses: `responses` of the defaults or of a host. The first matching rule decides;
/// without one, the acceptable values decide.
package struct ResponseRules: Sendable {
    package var rules: [ResponseRule] = []
    /// nil: every status.
    package var acceptableStatusCodes: StatusCodes?
    /// nil: every content type, and none.
    package var acceptableContentTypes: [MediaTypePattern]?
    /// The longest body that is delivered.
    package var maxBytes: Int?

    package init() {}

    package var isTrivial: Bool {
        rules.isEmpty && acceptableStatusCodes == nil && acceptableContentTypes == nil && maxBytes == nil
    }
}

/// One of `responses.rules`. A missing condition matches everything.
package struct ResponseRule: Sendable {
    package enum Action: Sendable {
        case allow
        /// The client gets an error.
        case cancel
        /// The body is saved to a file in that folder, and the client gets its location; the quota limits the bytes of
        /// the folder's files.
        case becomeDownload(directory: String, quota: Int)
    }

    package var statuses: StatusCodes?
    package var contentTypes: [MediaTypePattern]?
    /// Compared with the length of a body, if it is known.
    package var minBytes: Int?
    package var maxBytes: Int?
    package var action: Action

    /// A folder that is never emptied does not fill a disk of ordinary size.
    static let defaultQuota = 10 << 30

    package init(_ action: Action) { self.action = action }
}
