// SPDX-License-Identifier: Apache-2.0
/// The reason why a request head is refused, with the status of the response, a stable name, and a remedy.
package enum RequestFault: UInt8, Error, CaseIterable, Sendable {
    // Request line.
    case bareLineFeed, bareCarriageReturn, leadingEmptyLines, leadingWhiteSpace, requestLineSpacing, missingTarget
    case version09, versionUnsupported, versionMalformed, methodInvalid, methodTooLong, targetTooLong
    case targetInvalidByte, targetFragment, targetForm, asteriskWithoutOptions, connectWithoutAuthority
    case userinfo, schemeUnsupported, authorityInvalid, hostInvalid, hostAmbiguousNumber, portInvalid
    // Host.
    case hostMissing, hostRepeated, hostFieldInvalid, hostDiffers
    // Fields.
    case spaceBeforeColon, foldedField, fieldNameInvalid, fieldWithoutColon, fieldValueInvalid, headTooLarge
    case tooManyFields, underscoredFraming, connectionTooLong
    // Length.
    case lengthAndTransferEncoding, contentLengthRepeated, contentLengthInvalid, contentLengthOverflow
    case contentLengthLeadingZero, transferEncodingRepeated, transferEncodingNotChunked, transferCodingUnknown
    case transferEncodingInvalid, transferEncodingInVersion10
    // Unsupported features.
    case methodTrace, expectationUnknown

    /// The status of the response.
    package var status: Int {
        switch self {
        case .methodTrace: 405
        case .targetTooLong: 414
        case .expectationUnknown: 417
        case .headTooLarge, .tooManyFields: 431
        case .methodTooLong, .transferCodingUnknown: 501
        case .versionUnsupported: 505
        default: 400
        }
    }

    /// A stable identifier for logs, metrics and problem documents.
    package var rule: StaticString {
        switch self {
        case .bareLineFeed: "bare-line-feed"
        case .bareCarriageReturn: "bare-carriage-return"
        case .leadingEmptyLines: "leading-empty-lines"
        case .leadingWhiteSpace: "leading-white-space"
        case .requestLineSpacing: "request-line-spacing"
        case .missingTarget: "missing-target"
        case .version09: "version-0.9"
        case .versionUnsupported: "version-unsupported"
        case .versionMalformed: "version-malformed"
        case .methodInvalid: "method-invalid"
        case .methodTooLong: "method-too-long"
        case .targetTooLong: "target-too-long"
        case .targetInvalidByte: "target-invalid-byte"
        case .targetFragment: "target-fragment"
        case .targetForm: "target-form"
        case .asteriskWithoutOptions: "asterisk-without-options"
        case .connectWithoutAuthority: "connect-without-authority"
        case .userinfo: "userinfo"
        case .schemeUnsupported: "scheme-unsupported"
        case .authorityInvalid: "authority-invalid"
        case .hostInvalid: "host-invalid"
        case .hostAmbiguousNumber: "host-ambiguous-number"
        case .portInvalid: "port-invalid"
        case .hostMissing: "host-missing"
        case .hostRepeated: "host-repeated"
        case .hostFieldInvalid: "host-field-invalid"
        case .hostDiffers: "host-differs"
        case .spaceBeforeColon: "space-before-colon"
        case .foldedField: "folded-field"
        case .fieldNameInvalid: "field-name-invalid"
        case .fieldWithoutColon: "field-without-colon"
        case .fieldValueInvalid: "field-value-invalid"
        case .headTooLarge: "head-too-large"
        case .tooManyFields: "too-many-fields"
        case .underscoredFraming: "underscored-framing-field"
        case .connectionTooLong: "connection-too-long"
        case .lengthAndTransferEncoding: "length-and-transfer-encoding"
        case .contentLengthRepeated: "content-length-repeated"
        case .contentLengthInvalid: "content-length-invalid"
        case .contentLengthOverflow: "content-length-overflow"
        case .contentLengthLeadingZero: "content-length-leading-zero"
        case .transferEncodingRepeated: "transfer-encoding-repeated"
        case .transferEncodingNotChunked: "transfer-encoding-not-chunked"
        case .transferCodingUnknown: "transfer-coding-unknown"
        case .transferEncodingInvalid: "transfer-encoding-invalid"
        case .transferEncodingInVersion10: "transfer-encoding-in-1.0"
        case .methodTrace: "method-trace"
        case .expectationUnknown: "expectation-unknown"
        }
    }

    /// A sentence for the client's developer.
    package var message: StaticString {
        switch self {
        case .bareLineFeed: "A line ends with LF alone; end every line of the head with CRLF."
        case .bareCarriageReturn: "A CR stands without LF; end every line with CRLF and put no CR elsewhere."
        case .leadingEmptyLines: "More than one empty line precedes the request line; send none."
        case .leadingWhiteSpace: "White space precedes the request line or the first field; remove it."
        case .requestLineSpacing: "Separate method, target and version by exactly one space each."
        case .missingTarget: "The request line has no target; write METHOD TARGET HTTP/1.1."
        case .version09: "The request line has no version, as in HTTP/0.9; write METHOD TARGET HTTP/1.1."
        case .versionUnsupported: "This listener speaks HTTP/1.1 and HTTP/1.0 only."
        case .versionMalformed: "The version is malformed; write HTTP/1.1."
        case .methodInvalid: "The method is no token; it may hold letters, digits and !#$%&'*+-.^_`|~ only."
        case .methodTooLong: "The method is longer than any that is known here."
        case .targetTooLong:
            "The request target is longer than limits.targetBytes; shorten it or put the data into a body."
        case .targetInvalidByte:
            "The target holds a control character or bytes that are no UTF-8; percent-encode them."
        case .targetFragment: "The target holds '#', which only a URL or a path can; a '#' in data is written %23."
        case .targetForm: "The target is neither a path that begins with '/' nor an http or https URL."
        case .asteriskWithoutOptions: "The target '*' goes with OPTIONS only."
        case .connectWithoutAuthority: "CONNECT needs host:port as its target, and only CONNECT has such a one."
        case .userinfo:
            "The authority holds user information that could be read in two ways; send credentials in a field instead."
        case .schemeUnsupported: "Only http and https URLs are served, ws and wss with an Upgrade."
        case .authorityInvalid: "The authority of the target is malformed; write host or host:port."
        case .hostInvalid: "The host of the target is no valid name or address."
        case .hostAmbiguousNumber:
            "The host is a number in a legacy form; write an IPv4 address as four decimal numbers."
        case .portInvalid: "The port is not a number from 1 to 65535."
        case .hostMissing: "HTTP/1.1 needs a Host field; add one."
        case .hostRepeated: "There is more than one Host field; send one."
        case .hostFieldInvalid: "The Host field is not a host with an optional port."
        case .hostDiffers: "The Host field differs from the authority of the target; make them equal."
        case .spaceBeforeColon: "White space stands between a field name and its colon; remove it."
        case .foldedField: "A field goes on over a second line; write it on one."
        case .fieldNameInvalid: "A field name is empty or holds a character that is none of a token."
        case .fieldWithoutColon: "A field line has no colon."
        case .fieldValueInvalid: "A field value holds NUL or another control character."
        case .headTooLarge: "The head is too large; send fewer or shorter fields."
        case .tooManyFields: "The head has too many fields; send fewer."
        case .underscoredFraming: "Transfer_Encoding and Content_Length are refused; write them with a hyphen."
        case .connectionTooLong: "The Connection fields are together longer than 1,024 bytes; name fewer options."
        case .lengthAndTransferEncoding: "Content-Length and Transfer-Encoding are both there; send one."
        case .contentLengthRepeated: "Content-Length is there more than once or is a list; send one number."
        case .contentLengthInvalid: "Content-Length is not a decimal number."
        case .contentLengthOverflow: "Content-Length is larger than any body can be."
        case .contentLengthLeadingZero: "Content-Length has leading zeros; remove them."
        case .transferEncodingRepeated: "Transfer-Encoding is there more than once; send one."
        case .transferEncodingNotChunked: "The final transfer coding is not chunked, so the body has no end."
        case .transferCodingUnknown: "A transfer coding is not known here; chunked alone is."
        case .transferEncodingInvalid: "Transfer-Encoding is malformed; write chunked, once and without parameters."
        case .transferEncodingInVersion10: "HTTP/1.0 has no Transfer-Encoding; send HTTP/1.1 or Content-Length."
        case .methodTrace: "TRACE is not served."
        case .expectationUnknown: "The only expectation known here is 100-continue."
        }
    }
}
