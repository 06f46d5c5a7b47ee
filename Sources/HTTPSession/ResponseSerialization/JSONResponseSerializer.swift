public import HTTPCore

/// JSON of any form. An answer that has no body and needs none is `null`.
public struct JSONResponseSerializer: ResponseSerializer {
    /// What JSON is served as; `*/*+json` types are named one by one.
    public static let contentTypes = ["application/json", "text/json", "text/javascript"]

    /// What the answer has to be before it is read.
    public var validation: ResponseValidation
    /// How the body is read.
    public var readingOptions: JSONReadingOptions

    /// Statuses 200 to 299 with the types of `contentTypes`, unless told otherwise.
    public init(
        validation: ResponseValidation = ResponseValidation(acceptableContentTypes: contentTypes),
        readingOptions: JSONReadingOptions = JSONReadingOptions()
    ) {
        self.validation = validation
        self.readingOptions = readingOptions
    }

    /// `null` for an answer that has no body and needs none.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending JSONValue {
        // Some frameworks send one space where they mean no body.
        let isBlank = response.data.count <= 1 && response.data.allSatisfy { $0 == UInt8(ascii: " ") }
        if try validation.validateEmptiness(response, to: method, isEmpty: isBlank) { return .null }
        do {
            return try JSONValue(parsing: response.data, options: readingOptions)
        } catch {
            throw ResponseSerializationError(.invalidJSON(error), response: response)
        }
    }
}

/// A `Decodable` type. By default from JSON, strictly read; `HTTPSessionFoundation` adds Foundation's `JSONDecoder` and
/// `PropertyListDecoder` with their strategies.
public struct DecodableResponseSerializer<Output: Decodable & Sendable>: ResponseSerializer {
    /// What the answer has to be before it is decoded.
    public var validation: ResponseValidation
    /// From bytes to values.
    public var decoder: any DataDecoder

    /// Statuses 200 to 299 with the types of JSON, unless told otherwise.
    public init(
        _ type: Output.Type = Output.self,
        validation: ResponseValidation = ResponseValidation(
            acceptableContentTypes: JSONResponseSerializer.contentTypes
        ),
        decoder: any DataDecoder = JSONValueDecoder()
    ) {
        self.validation = validation
        self.decoder = decoder
    }

    /// An answer that has no body and needs none is nil for an optional type and `EmptyResponse()` for that one; for
    /// others the reason is `inputDataEmpty`.
    public func serialize(
        _ response: DataResponse,
        to method: HTTPMethod
    ) throws(ResponseSerializationError) -> sending Output {
        let isEmpty = try validation.validateEmptiness(response, to: method)
        do {
            if isEmpty {
                guard let empty = try? JSONValueDecoder().decode(Output.self, from: .null) else {
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

/// What an answer without a body decodes as.
public struct EmptyResponse: Codable, Sendable, Hashable {
    /// The only value there is.
    public init() {}

    /// Looks at nothing.
    public init(from decoder: any Decoder) throws {}

    /// An empty object.
    public func encode(to encoder: any Encoder) throws {
        _ = encoder.container(keyedBy: NoKey.self)
    }

    private enum NoKey: CodingKey {}
}
