// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func jsonBody(_ session: HTTPSessionManager) async throws {
    let parameters = [
        "foo": ["bar"],
        "baz": ["a", "b"],
        "qux": ["x", "y", "z"],
    ]
    let options = RequestOptions(requestSerializer: JSONRequestSerializer(writingOptions: .sortedKeys))
    try await session.post("post", parameters: parameters, options: options)
}

func ownEncoder() -> JSONRequestSerializer {
    var serializer = JSONRequestSerializer()
    serializer.settings.parameterEncoder.dateEncodingStrategy = .iso8601
    serializer.settings.parameterEncoder.keyEncodingStrategy = .convertToSnakeCase
    return serializer
}
