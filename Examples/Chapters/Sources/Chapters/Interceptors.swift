// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession

func several(_ adapter: any RequestAdapter, _ retrier: any RequestRetrier, _ interceptor: any RequestInterceptor)
    -> Interceptor
{
    let adapterAndRetrier = Interceptor(adapters: [adapter], retriers: [retrier])
    return Interceptor(interceptors: [adapterAndRetrier, interceptor])
}

struct Token: AuthenticationCredential {
    let access: String
    let refresh: String
    let userID: String
    let expiration: ContinuousClock.Instant

    var requiresRefresh: Bool { .now + .seconds(300) > expiration }
}

struct TokenAuthenticator: Authenticator {
    func apply(_ credential: Token, to request: inout HTTPSessionRequest) {
        request.headers["Authorization"] = "Bearer " + credential.access
    }

    func refresh(_ credential: Token, for manager: HTTPSessionManager) async throws -> Token {
        Token(access: "a1", refresh: "r1", userID: credential.userID, expiration: .now + .seconds(3600))
    }

    func didRequest(_ request: HTTPSessionRequest, with response: ResponseHead, failDueTo failure: RequestFailure)
        -> Bool
    {
        response.status == 401
    }

    func isRequest(_ request: HTTPSessionRequest, authenticatedWith credential: Token) -> Bool {
        request.headers["Authorization"] == "Bearer " + credential.access
    }
}

func withTokens(_ session: HTTPSessionManager) async throws {
    let token = Token(access: "a0", refresh: "r0", userID: "u0", expiration: .now + .seconds(3600))
    let interceptor = AuthenticationInterceptor(authenticator: TokenAuthenticator(), credential: token)
    _ = try await session.get("get", options: RequestOptions(interceptor: interceptor))
}

func compressed(_ session: HTTPSessionManager, _ user: [String: String]) async throws {
    try await session.post("post", parameters: user, options: RequestOptions(interceptor: .deflateCompressor))
    let replacing = RequestCompressor(duplicateHeaderBehavior: .replace)
    try await session.post("post", parameters: user, options: RequestOptions(interceptor: replacing))
}

func compressingSession(_ configuration: HTTPSessionManager.Configuration) throws -> HTTPSessionManager {
    let compressor = RequestCompressor { body in body.count > 100 * 1024 }
    return try HTTPSessionManager(configuration: configuration, interceptor: compressor)
}
