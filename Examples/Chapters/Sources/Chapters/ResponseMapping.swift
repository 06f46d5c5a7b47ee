// SPDX-License-Identifier: Apache-2.0
import HTTPSession

struct User: Decodable, Sendable {
    let name: String
}

func mapped(_ session: HTTPSessionManager) async throws {
    let response = try await session.get("users/mattt", serializer: .json)
    let user = response.map { json in User(name: json["name"]?.string ?? "") }
    print("User: { name: \(user.value.name) }")
}

func completionHandler(
    _ session: HTTPSessionManager,
    _ handler: @escaping @Sendable (Result<User, RequestFailure>) -> Void
) throws {
    try session.request(.get, "users/mattt").response(serializer: .decodable(User.self)) { result in
        handler(result.map(\.value))
    }
}
