// SPDX-License-Identifier: Apache-2.0
/// The reason why a chunked body is refused: 400 for a client (431 for the size of its trailers), 502 for an origin.
package enum ChunkFault: UInt8, Error, CaseIterable, Sendable {
    case sizeInvalid, sizeOverflow, extensionInvalid, extensionTooLong, lineEndInvalid, dataEndInvalid, trailerInvalid
    case trailersTooLarge

    /// The status for a request.
    package var status: Int { self == .trailersTooLarge ? 431 : 400 }

    /// A stable identifier for logs and metrics.
    package var rule: StaticString {
        switch self {
        case .sizeInvalid: "chunk-size-invalid"
        case .sizeOverflow: "chunk-size-overflow"
        case .extensionInvalid: "chunk-extension-invalid"
        case .extensionTooLong: "chunk-extension-too-long"
        case .lineEndInvalid: "chunk-line-end"
        case .dataEndInvalid: "chunk-data-end"
        case .trailerInvalid: "trailer-invalid"
        case .trailersTooLarge: "trailers-too-large"
        }
    }

    package var message: StaticString {
        switch self {
        case .sizeInvalid: "A chunk size is not made of hexadecimal digits alone."
        case .sizeOverflow: "A chunk size is larger than any chunk can be."
        case .extensionInvalid: "A chunk extension is malformed."
        case .extensionTooLong: "A chunk size line is too long."
        case .lineEndInvalid: "A line of the chunked body does not end with CRLF."
        case .dataEndInvalid: "The data of a chunk is not followed by CRLF."
        case .trailerInvalid: "A trailer field is malformed."
        case .trailersTooLarge: "The trailer section is too large."
        }
    }
}
