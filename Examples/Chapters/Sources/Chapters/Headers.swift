// SPDX-License-Identifier: Apache-2.0
import HTTPSession

struct Seen: Decodable, Sendable {
    let url: String
}

func headers(_ session: HTTPSessionManager) async throws {
    let headers: HTTPHeaders = [
        "Authorization": "Basic VXNlcm5hbWU6UGFzc3dvcmQ=",
        "Accept": "application/json",
    ]
    print(try await session.get("headers", headers: headers, serializer: .decodable(Seen.self)))
}
