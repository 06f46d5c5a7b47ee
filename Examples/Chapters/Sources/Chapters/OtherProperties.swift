// SPDX-License-Identifier: Apache-2.0
import HTTPSession
import SessionCore

func timeout(_ session: HTTPSessionManager) async throws {
    _ = try await session.get("get", options: RequestOptions(timeouts: TaskTimeouts(total: .seconds(5))))
}
