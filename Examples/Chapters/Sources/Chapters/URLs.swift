// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSession

func urls(_ session: HTTPSessionManager) async throws {
    _ = try await session.get("https://httpbin.org/get")
}

func requestsOfTheirOwn(_ session: HTTPSessionManager) async throws {
    var request = HTTPSessionRequest(url: "https://httpbin.org/post", method: .post)
    request.body = .bytes(Array(try JSONEncoder().encode(["foo": "bar"])))
    request.headers["Content-Type"] = "application/json"
    print(try await session.request(request).response(serializer: .json).value)
}
