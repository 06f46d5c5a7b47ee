// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

#if !NO_FOUNDATION
import FoundationEssentials
#endif

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

#if !NO_FOUNDATION

/// Decodes a `Decodable` type, by default from JSON, with Foundation's `JSONDecoder` and its strategies. With
/// `HTTPSessionFoundation` a `PropertyListDecoder` is a `DataDecoder`, too.
public struct DecodableResponseSerializer<Output: Decodable & Sendable>: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation
    /// The decoder of the body; nil for the manager's.
    public var decoder: (any DataDecoder)?

    /// A serializer that by default accepts what `ResponseValidation.json` does.
    public init(
        _ type: Output.Type = Output.self,
        validation: ResponseValidation = .json,
        decoder: (any DataDecoder)? = nil
    ) {
        self.validation = validation
        self.decoder = decoder
    }

    /// The decoded value. A response that may have no body, and has none, is nil for an optional type and
    /// `EmptyResponse()` for that type; for others the reason is `inputDataEmpty`.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Output {
        let isEmpty = try validation.validateEmptiness(response, to: method)
        do {
            if isEmpty {
                guard let empty = try? JSONDecoder().decode(Output.self, from: Array("null".utf8)) else {
                    throw ResponseSerializationError(.inputDataEmpty, response: response)
                }
                return empty
            }
            return try (decoder ?? response.decoder ?? JSONDecoder()).decode(Output.self, from: response.data)
        } catch let error as ResponseSerializationError {
            throw error
        } catch let fault as JSONFault {
            throw ResponseSerializationError(.invalidJSON(fault), response: response)
        } catch {
            throw ResponseSerializationError(.decodingFailed(error), response: response)
        }
    }
}

#endif

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
