// SPDX-License-Identifier: Apache-2.0
/// The strict interpretation of Transfer-Encoding and Content-Length, the same for requests and responses (rules
/// 27–34).
enum FramingFields {
    enum Length {
        case value(Int)
        case invalid, list, leadingZero, overflow
    }

    static func contentLength(_ text: borrowing Span<UInt8>) -> Length {
        if text.firstIndex(of: ASCII.comma) != nil { return .list }
        guard text.count > 0 else { return .invalid }
        var index = 0
        while index < text.count {
            guard ASCII.isDigit(text[index]) else { return .invalid }
            index &+= 1
        }
        if text.count > 1, text[0] == UInt8(ascii: "0") { return .leadingZero }
        guard let value = DecimalNumber.parse(text) else { return .overflow }
        return .value(value)
    }

    enum Coding {
        /// Exactly one `chunked`.
        case chunked
        /// The last coding is not chunked: the end of a request body is unknown then.
        case finalNotChunked
        /// An unsupported coding, with chunked at the end or absent.
        case unknown
        case invalid
    }

    static func transferEncoding(_ text: borrowing Span<UInt8>) -> Coding {
        if text.equalsIgnoringCase("chunked") { return .chunked }
        var members = ListMembers()
        var chunkedAt: Int?
        var count = 0
        var knowsAll = true
        while let range = members.next(in: text) {
            let coding = text.extracting(range)
            guard HeaderFields.isValidName(coding) else { return .invalid }
            if coding.equalsIgnoringCase("chunked") {
                if chunkedAt != nil { return .invalid }
                chunkedAt = count
            } else if !isRegistered(coding) {
                knowsAll = false
            }
            count += 1
        }
        guard let chunkedAt else { return knowsAll ? .finalNotChunked : .unknown }
        return chunkedAt == count - 1 ? .unknown : .finalNotChunked
    }

    /// The registered codings (RFC 9112 7) that do not delimit a body.
    private static func isRegistered(_ coding: borrowing Span<UInt8>) -> Bool {
        coding.equalsIgnoringCase("gzip") || coding.equalsIgnoringCase("x-gzip") || coding.equalsIgnoringCase("deflate")
            || coding.equalsIgnoringCase("compress") || coding.equalsIgnoringCase("x-compress")
            || coding.equalsIgnoringCase("identity")
    }
}
