import HTTPSession
import SessionCore

func timeout(_ session: HTTPSessionManager) async throws {
    _ = try await session.get("get", options: RequestOptions(timeouts: TaskTimeouts(total: .seconds(5))))
}
