// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession

func httpMethods(_ session: HTTPSessionManager) async throws {
    _ = try await session.get("get")
    _ = try await session.post("post")
    _ = try await session.put("put")
    _ = try await session.delete("delete")
}

func ownMethod(_ session: HTTPSessionManager) async throws {
    let custom = HTTPMethod("CUSTOM")!
    _ = try await session.request(custom, "headers").response(serializer: .data)
}
