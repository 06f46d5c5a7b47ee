import HTTPCore

/// A content coding that data tasks ask for and undo (RFC 9110, section 8.4.1).
enum ContentCoding: Equatable {
    case gzip
    case deflate

    /// What is asked for.
    static let accepted = "gzip, deflate"

    /// Not where the caller asks for codings, or for a part, which would be one of the coded body.
    static func mayBeAskedFor(_ fields: HTTPFields) -> Bool {
        fields.value(for: "Accept-Encoding") == nil && fields.value(for: "Range") == nil
    }

    /// The coding of an answer's body, when it is the only one and is one of these.
    init?(_ head: borrowing ResponseHead) {
        if case .none = head.framing { return nil }
        guard let place = head.fields.first(.contentEncoding), head.fields.next(.contentEncoding, after: place) == nil
        else { return nil }
        let value = head.fields.value(at: place)
        if value.equalsIgnoringCase("gzip") || value.equalsIgnoringCase("x-gzip") {
            self = .gzip
        } else if value.equalsIgnoringCase("deflate") {
            self = .deflate
        } else {
            return nil
        }
    }
}
