// SPDX-License-Identifier: Apache-2.0
// Serializers by name where one is expected: `serializer: .json`.

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
