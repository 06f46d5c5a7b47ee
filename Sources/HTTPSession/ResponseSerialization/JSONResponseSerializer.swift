public import HTTPCore

#if !NO_FOUNDATION
public import FoundationEssentials
#endif

/// Reads JSON of any form. A response that may have no body, and has none, is `null`.
public struct JSONResponseSerializer: ValidatingResponseSerializer {
    /// The content types of JSON; `*/*+json` types are listed one by one.
    public static let contentTypes = ["application/json", "text/json", "text/javascript"]

    /// The required status and content type.
    public var validation: ResponseValidation
    /// Options for reading the body.
    public var readingOptions: JSONReadingOptions

    /// A serializer that by default accepts statuses 200 to 299 with the types of `contentTypes`.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: contentTypes),
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

#if !NO_FOUNDATION

/// Decodes a `Decodable` type, by default from JSON, with Foundation's `JSONDecoder` and its strategies. With
/// `HTTPSessionFoundation` a `PropertyListDecoder` is a `DataDecoder`, too.
public struct DecodableResponseSerializer<Output: Decodable & Sendable>: ValidatingResponseSerializer {
    /// The required status and content type.
    public var validation: ResponseValidation
    /// The decoder of the body.
    public var decoder: any DataDecoder

    /// A serializer that by default accepts statuses 200 to 299 with the types of JSON.
    public init(
        _ type: Output.Type = Output.self,
        validation: ResponseValidation = ResponseValidation(
            acceptableContentTypes: JSONResponseSerializer.contentTypes
        ),
        decoder: any DataDecoder = JSONDecoder()
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
            return try decoder.decode(Output.self, from: response.data)
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
