// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
public import HTTPCore
public import HTTPSessionCore

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

extension ResponseSerializer {
    /// A `Decodable` type, of a response with status 200 to 299 and a content type of JSON.
    ///
    /// - Parameters:
    ///   - type: of the value.
    ///   - validation: `.strictJSON` for the registered types of JSON alone.
    ///   - decoder: nil for the manager's, by default Foundation's `JSONDecoder` without strategies.
    public static func decodable<Value: Decodable & Sendable>(
        _ type: Value.Type = Value.self,
        validation: ResponseValidation = .json,
        decoder: (any DataDecoder)? = nil
    ) -> Self where Self == DecodableResponseSerializer<Value> {
        DecodableResponseSerializer(type, validation: validation, decoder: decoder)
    }
}
