// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// Reads JSON of any form. A response that may have no body, and has none, is `null`.
public struct JSONResponseSerializer: ValidatingResponseSerializer {
    /// The registered content types of JSON.
    public static let contentTypes = ["application/json", "text/json", "text/javascript"]

    /// The required status and content type.
    public var validation: ResponseValidation
    /// Options for reading the body.
    public var readingOptions: JSONReadingOptions

    /// A serializer that by default accepts what `ResponseValidation.json` does.
    public init(
        validation: ResponseValidation = .json,
        readingOptions: JSONReadingOptions = JSONReadingOptions()
    ) {
        self.validation = validation
        self.readingOptions = readingOptions
    }

    /// The JSON value; `null` for a response that may have no body, and has none.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending JSONValue {
        // Some frameworks send one space instead of no body.
        let isBlank = response.data.count <= 1 && response.data.allSatisfy { $0 == UInt8(ascii: " ") }
        if try validation.validateEmptiness(response, to: method, isEmpty: isBlank) { return .null }
        do {
            return try JSONValue(parsing: response.data, options: readingOptions)
        } catch {
            throw ResponseSerializationError(.invalidJSON(error), response: response)
        }
    }
}

extension ResponseValidation {
    /// JSON, as servers send it: a status from 200 to 299, with a type of `JSONResponseSerializer.contentTypes`, an `application/*+json`
    /// (RFC 6839), or none.
    public static var json: ResponseValidation {
        var validation = strictJSON
        validation.acceptableContentTypes?.append("application/*+json")
        validation.acceptsMissingContentType = true
        return validation
    }

    /// A status from 200 to 299, with a type of `JSONResponseSerializer.contentTypes`.
    public static var strictJSON: ResponseValidation {
        ResponseValidation(acceptableContentTypes: JSONResponseSerializer.contentTypes)
    }
}

/// The decoded value of a response without a body.
public struct EmptyResponse: Codable, Sendable, Hashable {
    /// The only value.
    public init() {}

    /// Decodes from any value.
    public init(from decoder: any Decoder) throws {}

    /// Encodes an empty object.
    public func encode(to encoder: any Encoder) throws {
        _ = encoder.container(keyedBy: NoKey.self)
    }

    private enum NoKey: CodingKey {}
}
