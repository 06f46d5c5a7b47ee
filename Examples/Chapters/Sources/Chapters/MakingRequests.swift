import HTTPSession

func makingRequests(_ session: HTTPSessionManager) async throws {
    print(try await session.data(for: "https://httpbin.org/get"))
}
