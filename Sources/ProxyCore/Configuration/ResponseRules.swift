package import HTTPCore

/// Which answers are handed on: `responses` of the defaults or of a host. The first rule that matches decides; where
/// none does, what is acceptable.
package struct ResponseRules: Sendable {
    package var rules: [ResponseRule] = []
    /// nil: any.
    package var acceptableStatusCodes: StatusCodes?
    /// nil: any, and none.
    package var acceptableContentTypes: [MediaTypePattern]?
    /// The longest body that is handed on.
    package var maxBytes: Int?

    package init() {}

    var isTrivial: Bool {
        rules.isEmpty && acceptableStatusCodes == nil && acceptableContentTypes == nil && maxBytes == nil
    }
}

/// One of `responses.rules`. What it does not say matches everything.
package struct ResponseRule: Sendable {
    package enum Action: Sendable {
        case allow
        /// The client gets an error instead.
        case cancel
        /// The body goes to a file in that folder, and the client is told where; the files of the folder have so many bytes
        /// at most.
        case becomeDownload(directory: String, quota: Int)
    }

    package var statuses: StatusCodes?
    package var contentTypes: [MediaTypePattern]?
    /// Of a body whose length is known.
    package var minBytes: Int?
    package var maxBytes: Int?
    package var action: Action

    /// A folder that nobody empties fills no disk of an ordinary size.
    package static let defaultQuota = 10 << 30

    package init(_ action: Action) { self.action = action }
}
