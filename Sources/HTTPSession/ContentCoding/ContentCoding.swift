import HTTPCore

/// A content coding that data tasks ask for and decode (RFC 9110, section 8.4.1).
enum ContentCoding: Equatable {
    case gzip
    case deflate

    /// The value of `Accept-Encoding`.
    static let accepted: StaticString = "gzip, deflate"

    /// Whether the session may ask for codings: not when the caller does, or asks for a range, which would be one of
    /// the coded body.
    static func mayBeAskedFor(_ fields: HeaderFields) -> Bool {
        !fields.contains(.acceptEncoding) && !fields.contains(.range)
    }

    /// The coding of a response's body; nil unless it is the only one and is supported.
    init?(_ head: borrowing ResponseHead) {
        if case .none = head.framing { return nil }
        self.init(head.fields)
    }

    /// The coding that fields name.
    init?(_ fields: borrowing HeaderFields) {
        guard let place = fields.first(.contentEncoding), fields.next(.contentEncoding, after: place) == nil
        else { return nil }
        let value = fields.value(at: place)
        if value.equalsIgnoringCase("gzip") || value.equalsIgnoringCase("x-gzip") {
            self = .gzip
        } else if value.equalsIgnoringCase("deflate") {
            self = .deflate
        } else {
            return nil
        }
    }
}
