// SPDX-License-Identifier: Apache-2.0
// Serializers by name where one is expected: `serializer: .decodable(Item.self)`.

extension ResponseSerializer where Self == HTTPResponseSerializer {
    /// The bytes of the body, of a response with status 200 to 299.
    public static var data: HTTPResponseSerializer { HTTPResponseSerializer() }
}

extension ResponseSerializer where Self == StringResponseSerializer {
    /// Text in the charset that the response names, otherwise UTF-8, of a response with status 200 to 299.
    public static var string: StringResponseSerializer { StringResponseSerializer() }

    /// The same with other charsets for a response that names none: `.string(fallbacks: [.utf8, .windows1252])`.
    public static func string(fallbacks: [TextEncoding]) -> StringResponseSerializer {
        StringResponseSerializer(fallbacks: fallbacks)
    }
}

extension ResponseSerializer where Self == JSONResponseSerializer {
    /// JSON of any form, of a response with status 200 to 299 and a content type of JSON.
    public static var json: JSONResponseSerializer { JSONResponseSerializer() }
}

#if !NO_FOUNDATION
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
#endif
