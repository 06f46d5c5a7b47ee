// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func makingRequests(_ session: HTTPSessionManager) async throws {
    print(try await session.data(for: "https://httpbin.org/get"))
}
