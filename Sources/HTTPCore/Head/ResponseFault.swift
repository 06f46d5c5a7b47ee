// SPDX-License-Identifier: Apache-2.0
/// The reason why the head of an origin's response is refused; the client gets a 502 (rule 54).
package enum ResponseFault: UInt8, Error, CaseIterable, Sendable {
    case bareLineFeed, bareCarriageReturn, statusLineInvalid, versionUnsupported, statusInvalid, foldedField
    case spaceBeforeColon, fieldNameInvalid, fieldWithoutColon, fieldValueInvalid, headTooLarge, tooManyFields
    case underscoredFraming, lengthAndTransferEncoding, contentLengthRepeated, contentLengthInvalid
    case transferEncodingRepeated, transferEncodingNotChunked, transferCodingUnknown, transferEncodingInvalid
    case transferEncodingInVersion, connectionTooLong
    case connectionField, upperCaseName, pseudoFieldInvalid

    /// A stable identifier for logs and metrics.
    package var rule: StaticString {
        switch self {
        case .bareLineFeed: "response-bare-line-feed"
        case .bareCarriageReturn: "response-bare-carriage-return"
        case .statusLineInvalid: "response-status-line"
        case .versionUnsupported: "response-version"
        case .statusInvalid: "response-status"
        case .foldedField: "response-folded-field"
        case .spaceBeforeColon: "response-space-before-colon"
        case .fieldNameInvalid: "response-field-name"
        case .fieldWithoutColon: "response-field-without-colon"
        case .fieldValueInvalid: "response-field-value"
        case .headTooLarge: "response-head-too-large"
        case .tooManyFields: "response-too-many-fields"
        case .underscoredFraming: "response-underscored-framing-field"
        case .lengthAndTransferEncoding: "response-length-and-transfer-encoding"
        case .contentLengthRepeated: "response-content-length-repeated"
        case .contentLengthInvalid: "response-content-length"
        case .transferEncodingRepeated: "response-transfer-encoding-repeated"
        case .transferEncodingNotChunked: "response-transfer-encoding-not-chunked"
        case .transferCodingUnknown: "response-transfer-coding-unknown"
        case .transferEncodingInvalid: "response-transfer-encoding"
        case .transferEncodingInVersion: "response-transfer-encoding-version"
        case .connectionTooLong: "response-connection-too-long"
        case .connectionField: "response-connection-field"
        case .upperCaseName: "response-upper-case-name"
        case .pseudoFieldInvalid: "response-pseudo-field"
        }
    }

    /// A sentence for the origin's operator.
    package var message: StaticString {
        switch self {
        case .bareLineFeed: "The origin ended some lines of its head with CRLF and others with LF alone."
        case .bareCarriageReturn: "The origin sent a CR that does not end a line."
        case .statusLineInvalid: "The origin's status line is malformed."
        case .versionUnsupported: "The origin answered in a version of HTTP that is not spoken here."
        case .statusInvalid: "The origin's status is not a number from 100 to 999."
        case .foldedField:
            "The origin sent a line that begins with white space where no field can go on: before the first field, empty, or in a field about framing or connection."
        case .spaceBeforeColon:
            "The origin sent white space between the name of a field about framing or connection and its colon."
        case .fieldNameInvalid: "The origin sent a field name that is empty or no token."
        case .fieldWithoutColon: "The origin sent a field line without a colon."
        case .fieldValueInvalid: "The origin sent a field value with NUL or another control character."
        case .headTooLarge: "The head of the origin's response is longer than limits.responseHeadBytes."
        case .tooManyFields: "The head of the origin's response has more fields than limits.responseHeadFields."
        case .underscoredFraming: "The origin sent Transfer_Encoding or Content_Length."
        case .lengthAndTransferEncoding: "The origin sent both Content-Length and Transfer-Encoding."
        case .contentLengthRepeated: "The origin sent more than one Content-Length, and they differ."
        case .contentLengthInvalid: "The origin's Content-Length is no plain decimal number."
        case .transferEncodingRepeated: "The origin sent Transfer-Encoding more than once."
        case .transferEncodingNotChunked: "The origin's final transfer coding is not chunked."
        case .transferCodingUnknown: "The origin used a transfer coding that is not known here; chunked alone is."
        case .transferEncodingInvalid: "The origin's Transfer-Encoding is malformed."
        case .transferEncodingInVersion: "The origin sent Transfer-Encoding in a version of HTTP that has none."
        case .connectionTooLong: "The origin's Connection fields are together longer than 1,024 bytes."
        case .connectionField: "The origin sent a field about the connection, which HTTP/2 does not have."
        case .upperCaseName: "The origin sent a field name with upper-case letters, which HTTP/2 does not have."
        case .pseudoFieldInvalid: "The origin sent a pseudo-header field that is unknown, malformed, repeated or late."
        }
    }
}

extension ResponseFault {
    /// Whether it is a fault of one field line.
    package var isAboutField: Bool {
        switch self {
        case .bareLineFeed, .bareCarriageReturn, .spaceBeforeColon, .fieldNameInvalid, .fieldValueInvalid,
            .connectionField,
            .upperCaseName, .pseudoFieldInvalid:
            true
        default: false
        }
    }

    /// Message and rule, and where it is given, the field.
    package var words: String { "\(message) (rule \(rule))" }

    /// - Parameter name: of the field, as it came. Its value may be a secret, and is not shown.
    package func words(onField name: borrowing Span<UInt8>) -> String {
        let range = name.trimmingBlanks(0..<name.count)
        guard !range.isEmpty else { return words }
        var text: [UInt8] = []
        for index in range.prefix(60) {
            text.append(name[index] > 0x20 && name[index] < ASCII.delete ? name[index] : UInt8(ascii: "?"))
        }
        return "\(message) (rule \(rule), field \"\(String(decoding: text, as: UTF8.self))\")"
    }

    init(_ fault: FieldLine.Fault) {
        switch fault {
        case .leadingBlank: self = .foldedField
        case .noColon: self = .fieldWithoutColon
        case .blankBeforeColon: self = .spaceBeforeColon
        case .name: self = .fieldNameInvalid
        case .value: self = .fieldValueInvalid
        case .carriageReturn: self = .bareCarriageReturn
        case .underscoredFraming: self = .underscoredFraming
        }
    }
}
