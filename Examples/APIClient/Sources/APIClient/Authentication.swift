// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import SessionCore

struct Token: AuthenticationCredential, Decodable {
    let accessToken: String
    let refreshToken: String

    /// The server says when it has expired.
    var requiresRefresh: Bool { false }
}

/// Puts the token into each request, and gets a new one when the server has refused it.
struct TokenAuthenticator: Authenticator {
    /// A manager without interceptor: neither login nor refresh needs a token.
    let accounts: HTTPSessionManager

    func apply(_ token: Token, to request: inout HTTPSessionRequest) throws {
        request.headers["Authorization"] = "Bearer \(token.accessToken)"
    }

    func refresh(_ token: Token, for manager: HTTPSessionManager) async throws -> Token {
        let parameters: Parameters = ["refresh_token": token.refreshToken]
        return try await accounts.post("token", parameters: parameters, serializer: .decodable(Token.self)).value
    }

    func didRequest(
        _ request: HTTPSessionRequest,
        with response: ResponseHead,
        failDueTo failure: RequestFailure
    ) -> Bool {
        response.status == 401
    }

    func isRequest(_ request: HTTPSessionRequest, authenticatedWith token: Token) -> Bool {
        request.headers["Authorization"] == "Bearer \(token.accessToken)"
    }
}
