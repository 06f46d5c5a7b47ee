// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func basicAuthentication(_ session: HTTPSessionManager) async throws {
    let options = RequestOptions(credential: Credential(user: "user", password: "password"))
    print(try await session.get("basic-auth/user/password", options: options))
}

func manualAuthentication(_ session: HTTPSessionManager) async throws {
    var serializer = HTTPRequestSerializer()
    try serializer.setAuthorizationHeaderField(username: "user", password: "password")
    print(try await session.get("basic-auth/user/password", options: RequestOptions(requestSerializer: serializer)))
}
