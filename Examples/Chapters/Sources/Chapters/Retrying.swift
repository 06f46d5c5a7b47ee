// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSession
import SessionCore

struct OAuthCredential: AuthenticationCredential, Decodable {
    let accessToken: String
    let refreshToken: String
    var requiresRefresh: Bool { false }
}

struct OAuthHandler: Authenticator {
    let clientID: String
    let baseURL: String

    func apply(_ credential: OAuthCredential, to request: inout HTTPSessionRequest) {
        guard request.url.hasPrefix(baseURL) else { return }
        request.headers["Authorization"] = "Bearer " + credential.accessToken
    }

    func refresh(_ credential: OAuthCredential, for manager: HTTPSessionManager) async throws -> OAuthCredential {
        let parameters: Parameters = [
            "access_token": credential.accessToken,
            "refresh_token": credential.refreshToken,
            "client_id": clientID,
            "grant_type": "refresh_token",
        ]
        let request = try JSONRequestSerializer().request(
            .post,
            baseURL + "/oauth2/token",
            parameters: ParameterValueEncoder().encode(parameters)
        )
        let response = try await manager.data(for: request)
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(OAuthCredential.self, from: response.data)
    }

    func didRequest(
        _ request: HTTPSessionRequest,
        with response: ResponseHead,
        failDueTo failure: RequestFailure
    ) -> Bool {
        response.status == 401
    }

    func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: OAuthCredential) -> Bool {
        request.headers["Authorization"] == "Bearer " + credential.accessToken
    }
}

func authenticatedSession(_ configuration: HTTPSessionManager.Configuration) async throws -> HTTPSessionManager {
    let baseURL = "https://some.domain-behind-oauth2.com"
    let session = try HTTPSessionManager(
        baseURL: baseURL,
        configuration: configuration,
        interceptor: AuthenticationInterceptor(
            authenticator: OAuthHandler(clientID: "12345678", baseURL: baseURL),
            credential: OAuthCredential(accessToken: "abcd1234", refreshToken: "ef56789a")
        )
    )
    print(try await session.get("some/endpoint"))
    return session
}
