// SPDX-License-Identifier: Apache-2.0
/// The reason why a serializer rejected a response, with the response: head, data and metrics.
public struct ResponseSerializationError: Error, Sendable, CustomStringConvertible {
    /// The reasons for a rejection.
    public enum Reason: Sendable, CustomStringConvertible {
        /// The status is none of `acceptableStatusCodes`.
        case unacceptableStatusCode(Int)
        /// - received: the media type of the response; nil when it names none.
        case unacceptableContentType(received: String?, acceptable: [String])
        /// The response has no body, and needs one.
        case inputDataEmpty
        /// The body is invalid in the charset, or the charset is unknown.
        case stringDecodingFailed(charset: String)
        /// The body is invalid JSON.
        case invalidJSON(JSONFault)
        /// The body is well-formed, and does not match the type.
        case decodingFailed(any Error)
        /// The body is no property list; the text is Foundation's.
        case invalidPropertyList(String)
        /// The body is not well-formed XML; the text names the line.
        case invalidXML(String)
        /// The body is no valid image; the text is that of libpng or libjpeg.
        case invalidImage(String)
        /// The errors of all serializers, in order.
        case allSerializersFailed([ResponseSerializationError])
        /// An error of a serializer of the program.
        case custom(any Error)

        public var description: String {
            switch self {
            case .unacceptableStatusCode(let status): "The status \(status) is not acceptable."
            case .unacceptableContentType(let received, let acceptable):
                "The content type \(received ?? "(none)") is none of \(acceptable.joined(separator: ", "))."
            case .inputDataEmpty: "The response has no body."
            case .stringDecodingFailed(let charset): "The body is no text in \(charset)."
            case .invalidJSON(let fault): "The body is no JSON: \(fault)."
            case .decodingFailed(let error): "The body does not have the form that was asked for: \(error)"
            case .invalidPropertyList(let details): "The body is no property list: \(details)"
            case .invalidXML(let details): "The body is no XML: \(details)"
            case .invalidImage(let details): "The body is no image: \(details)"
            case .allSerializersFailed(let errors):
                "No serializer accepts the response. " + errors.map(\.description).joined(separator: " ")
            case .custom(let error): "\(error)"
            }
        }
    }

    /// The reason.
    public let reason: Reason
    /// The response.
    public let response: DataResponse
    /// The request: method and URL without secrets, as in `SessionError.request`. Nil for a serializer that is called without a request.
    public internal(set) var request: String?

    /// An error for serializers of the program.
    public init(_ reason: Reason, response: DataResponse) {
        self.reason = reason
        self.response = response
    }

    /// The reason, and in parentheses `request`.
    public var description: String { reason.description + (request.map { " (\($0))" } ?? "") }

    func named(_ request: String) -> ResponseSerializationError {
        var error = self
        error.request = request
        return error
    }
}
