// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func redirects(_ session: HTTPSessionManager) async throws {
    session.session.taskWillPerformHTTPRedirection = { _, _, _ in .stop }
    print(try await session.data(for: "https://httpbin.org/redirect").response.status)
}

func whatIsCached(_ session: HTTPSessionManager) {
    session.session.dataTaskWillCacheResponse = { _, proposed in proposed }
}
