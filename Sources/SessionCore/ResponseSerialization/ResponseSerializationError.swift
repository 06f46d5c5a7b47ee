/// Why an answer is not what a serializer was made for. It bears the answer: head, data and metrics.
public struct ResponseSerializationError: Error, Sendable, CustomStringConvertible {
    public enum Reason: Sendable {
        case unacceptableStatusCode(Int)
        /// - received: the media type of the answer; nil when it names none.
        case unacceptableContentType(received: String?, acceptable: [String])
        /// No body where one is needed.
        case inputDataEmpty
        /// The body is not of the charset, or the charset is not known.
        case stringDecodingFailed(charset: String)
        case invalidJSON(JSONFault)
        /// The body is well formed, and not of the type that was asked for.
        case decodingFailed(any Error)
        case invalidPropertyList(String)
        case invalidXML(String)
        case invalidImage(String)
        /// Each serializer's own reason, in order.
        case allSerializersFailed([ResponseSerializationError])
        /// What a serializer of the program's own threw.
        case custom(any Error)
    }

    public let reason: Reason
    public let response: DataResponse

    public init(_ reason: Reason, response: DataResponse) {
        self.reason = reason
        self.response = response
    }

    public var description: String {
        switch reason {
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
