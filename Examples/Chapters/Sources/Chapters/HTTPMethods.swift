// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession

func httpMethods(_ session: HTTPSessionManager) async throws {
    _ = try await session.get("get")
    try await session.post("post")
    try await session.put("put")
    try await session.delete("delete")
}

func ownMethod(_ session: HTTPSessionManager) async throws {
    let custom = HTTPMethod("CUSTOM")!
    _ = try await session.request(custom, "headers").response(serializer: .data)
}
