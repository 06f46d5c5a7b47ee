// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The required status and content type of a response.
public struct ResponseValidation: Sendable {
    /// The accepted statuses; nil for all.
    public var acceptableStatusCodes: Set<Int>?
    /// The accepted media types; `*` stands for any type or subtype, as in `image/*`, and `*+json` for every subtype with this suffix
    /// (RFC 6839). nil: any type, or none.
    public var acceptableContentTypes: [String]?
    /// Whether a response without a `Content-Type` has one of `acceptableContentTypes`.
    public var acceptsMissingContentType = false
    /// Statuses of responses that may have no body. Streams and downloads, which are validated before their bodies, do not
    /// check the content type of these.
    public var emptyResponseCodes: Set<Int> = [204, 205]
    /// Methods whose responses may have no body.
    public var emptyRequestMethods: Set<HTTPMethod> = [.head]

    /// A check of the program, behind those of status and content type: what it throws is the reason `custom` of the rejection.
    /// Nil for none. Streams and downloads do not call it: their bodies are not there when they are validated.
    public var check: (@Sendable (_ response: DataResponse) throws -> Void)?

    /// - Parameters:
    ///   - acceptableStatusCodes: by default 200 to 299; nil for any.
    ///   - acceptableContentTypes: media types, `*` standing for any type or subtype; nil for any, and none.
    ///   - check: a check of the program; nil for none.
    public init(
        acceptableStatusCodes: Set<Int>? = Set(200..<300),
        acceptableContentTypes: [String]? = nil,
        check: (@Sendable (_ response: DataResponse) throws -> Void)? = nil
    ) {
        self.acceptableStatusCodes = acceptableStatusCodes
        self.acceptableContentTypes = acceptableContentTypes
        self.check = check
    }

    /// Checks status and content type, and calls `check`. The type of an empty body is not checked.
    public func validate(_ response: DataResponse) throws(ResponseSerializationError) {
        if let reason = fault(of: response.response, hasBody: !response.data.isEmpty) {
            throw ResponseSerializationError(reason, response: response)
        }
        do {
            try check?(response)
        } catch {
            throw ResponseSerializationError(.custom(error), response: response)
        }
    }

    /// The fault in a response's head; nil for none.
    ///
    /// - Parameter hasBody: nil before the body is there: then the status says whether there may be none.
    func fault(of head: ResponseHead, hasBody: Bool? = nil) -> ResponseSerializationError.Reason? {
        if let acceptableStatusCodes, !acceptableStatusCodes.contains(head.status) {
            return .unacceptableStatusCode(head.status)
        }
        guard let acceptable = acceptableContentTypes, hasBody ?? !emptyResponseCodes.contains(head.status) else {
            return nil
        }
        let received = head.fields.value(for: "Content-Type")
        let patterns = acceptable.compactMap { MediaType($0) }
        let isAcceptable =
            if let type = received.flatMap({ MediaType($0) }) {
                patterns.contains { type.matches($0) }
            } else {
                received == nil && acceptsMissingContentType || patterns.contains { $0.essence == "*/*" }
            }
        return isAcceptable ? nil : .unacceptableContentType(received: received, acceptable: acceptable)
    }

    /// Validates, and returns whether the response has no body and may have none.
    ///
    /// - Throws: also `inputDataEmpty` when it has no body and needs one.
    public func validateEmptiness(
        _ response: DataResponse,
        to method: HTTPMethod,
        isEmpty: Bool? = nil
    ) throws(ResponseSerializationError) -> Bool {
        try validate(response)
        guard isEmpty ?? response.data.isEmpty else { return false }
        guard emptyResponseCodes.contains(response.response.status) || emptyRequestMethods.contains(method) else {
            throw ResponseSerializationError(.inputDataEmpty, response: response)
        }
        return true
    }
}
