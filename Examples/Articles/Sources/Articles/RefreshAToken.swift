// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import SessionCore

struct Token: AuthenticationCredential, Decodable {
    let access: String
    let refresh: String

    /// The server says when it has expired; a program that knows the time of expiry says so here.
    var requiresRefresh: Bool { false }
}

struct TokenAuthenticator: Authenticator {
    func apply(_ token: Token, to request: inout HTTPSessionRequest) throws {
        // Not to other hosts.
        guard request.url.hasPrefix("https://api.example.com/") else { return }
        request.headers["Authorization"] = "Bearer \(token.access)"
    }

    func refresh(_ token: Token, for manager: HTTPSessionManager) async throws -> Token {
        // `data(for:)` uses no interceptor: the refresh would wait for itself.
        let response = try await manager.data(
            for: "https://api.example.com/v1/token",
            method: .post,
            headers: ["Content-Type": "text/plain"],
            body: Array(token.refresh.utf8)
        )
        return try DecodableResponseSerializer(Token.self).serialize(response)
    }

    func didRequest(
        _ request: HTTPSessionRequest,
        with response: ResponseHead,
        failDueTo failure: RequestFailure
    ) -> Bool {
        response.status == 401
    }

    func isRequest(_ request: HTTPSessionRequest, authenticatedWith token: Token) -> Bool {
        request.headers["Authorization"] == "Bearer \(token.access)"
    }
}

func makeManager(
    _ token: Token,
    _ configuration: HTTPSessionManager.Configuration
) throws -> HTTPSessionManager {
    let authentication = AuthenticationInterceptor(authenticator: TokenAuthenticator(), credential: token)
    return try HTTPSessionManager(
        baseURL: "https://api.example.com/v1",
        configuration: configuration,
        interceptor: authentication
    )
}
