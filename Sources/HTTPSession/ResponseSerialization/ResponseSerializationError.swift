/// Why an answer is not what a serializer was made for. It bears the answer: head, data and metrics.
public struct ResponseSerializationError: Error, Sendable, CustomStringConvertible {
    /// What is wrong with the answer.
    public enum Reason: Sendable, CustomStringConvertible {
        /// The status is none of `acceptableStatusCodes`.
        case unacceptableStatusCode(Int)
        /// - received: the media type of the answer; nil when it names none.
        case unacceptableContentType(received: String?, acceptable: [String])
        /// No body where one is needed.
        case inputDataEmpty
        /// The body is not of the charset, or the charset is not known.
        case stringDecodingFailed(charset: String)
        /// Where, and what.
        case invalidJSON(JSONFault)
        /// The body is well formed, and not of the type that was asked for.
        case decodingFailed(any Error)
        /// In Foundation's words.
        case invalidPropertyList(String)
        /// What is wrong, and in which line.
        case invalidXML(String)
        /// In the words of libpng or libjpeg.
        case invalidImage(String)
        /// Each serializer's own reason, in order.
        case allSerializersFailed([ResponseSerializationError])
        /// What a serializer of the program's own threw.
        case custom(any Error)

        public var description: String {
            switch self {
            case .unacceptableStatusCode(let status): "The status \(status) is not acceptable."
            case .unacceptableContentType(let received, let acceptable):
                "The content type \(received ?? "(none)") is none of \(acceptable.joined(separator: ", "))."
            case .inputDataEmpty: "The answer has no body."
            case .stringDecodingFailed(let charset): "The body is no text in \(charset)."
            case .invalidJSON(let fault): "The body is no JSON: \(fault)."
            case .decodingFailed(let error): "The body does not have the form that was asked for: \(error)"
            case .invalidPropertyList(let details): "The body is no property list: \(details)"
            case .invalidXML(let details): "The body is no XML: \(details)"
            case .invalidImage(let details): "The body is no image: \(details)"
            case .allSerializersFailed(let errors):
                "No serializer takes the answer. " + errors.map(\.description).joined(separator: " ")
            case .custom(let error): "\(error)"
            }
        }
    }

    /// What is wrong.
    public let reason: Reason
    /// The answer.
    public let response: DataResponse

    /// For serializers of one's own.
    public init(_ reason: Reason, response: DataResponse) {
        self.reason = reason
        self.response = response
    }

    public var description: String { reason.description }
}
