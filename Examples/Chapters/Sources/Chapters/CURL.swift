// SPDX-License-Identifier: Apache-2.0
import HTTPSession

func curl(_ session: HTTPSessionManager) async throws {
    let request = try session.request(.get, "get")
    print(request.cURLDescription())
    print(try await request.response(serializer: .decodable(Seen.self)).response.metrics)
}
