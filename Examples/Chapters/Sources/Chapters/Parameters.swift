// SPDX-License-Identifier: Apache-2.0
import HTTPSession

struct Login: Encodable {
    let email: String
    let password: String
}

func encodableParameters(_ session: HTTPSessionManager) async throws {
    let login = Login(email: "test@test.test", password: "testPassword")
    let options = RequestOptions(requestSerializer: JSONRequestSerializer())
    print(try await session.post("post", parameters: login, options: options))
}

func parametersInTheURL(_ session: HTTPSessionManager) async throws {
    _ = try await session.get("get", parameters: ["foo": "bar"])
}

func parametersInTheBody(_ session: HTTPSessionManager) async throws {
    let parameters = [
        "foo": ["bar"],
        "baz": ["a", "b"],
        "qux": ["x", "y", "z"],
    ]
    try await session.post("post", parameters: parameters)
}

func choicesOfEncoding(_ session: HTTPSessionManager) async throws {
    var serializer = HTTPRequestSerializer()
    serializer.settings.queryString.sortsNames = true
    serializer.settings.queryString.arrayEncoding = .noBrackets
    serializer.settings.queryString.boolEncoding = .literal
    serializer.settings.queryString.spaceEncoding = .plusReplaced
    serializer.settings.queryString.nullEncoding = .dropKey
    serializer.settings.parameterEncoder.dateEncodingStrategy = .iso8601
    serializer.settings.parameterEncoder.dataEncodingStrategy = .base64
    serializer.settings.parameterEncoder.keyEncodingStrategy = .convertToSnakeCase
    let options = RequestOptions(requestSerializer: serializer)
    _ = try await session.get("get", parameters: ["tags": ["a b", "c"]], options: options)
}
