// SPDX-License-Identifier: Apache-2.0
import HTTPSession

struct AccessTokenAdapter: RequestInterceptor {
    let accessToken: String

    func adapt(_ request: HTTPSessionRequest, for subject: Request) async throws -> HTTPSessionRequest {
        var request = request
        if request.url.hasPrefix("https://httpbin.org/") {
            request.headers["Authorization"] = "Bearer " + accessToken
        }
        return request
    }
}

func adaptedSession(_ configuration: HTTPSessionManager.Configuration) async throws -> HTTPSessionManager {
    let session = try HTTPSessionManager(
        baseURL: "https://httpbin.org",
        configuration: configuration,
        interceptor: AccessTokenAdapter(accessToken: "1234")
    )
    _ = try await session.get("get")
    return session
}
