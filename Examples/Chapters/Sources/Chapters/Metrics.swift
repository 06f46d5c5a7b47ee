// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func metrics(_ session: HTTPSessionManager) async throws {
    print(try await session.get("get", serializer: .decodable(Seen.self)).response.metrics)
}
