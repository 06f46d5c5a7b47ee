// SPDX-License-Identifier: Apache-2.0
import HTTPSession
import HTTPSessionStubs
import SessionCore

/// The code to test: it asks again when there was no connection.
func loadItems(with manager: HTTPSessionManager) async throws -> [String] {
    try await manager.get("items", serializer: .decodable([String].self)).value
}

func testItems() async throws {
    let origin = StubOrigin()
    try origin.route(.get, "/v1/items", times: 1, failure: StubFailure(.connectFailed))
    try origin.route(.get, "/v1/items") { _ in try .json(["one", "two"]) }

    var configuration = HTTPSessionManager.Configuration()
    configuration.answerRequests(with: origin)
    let manager = try HTTPSessionManager(
        baseURL: "https://api.example.com/v1",
        configuration: configuration,
        interceptor: RetryPolicy(exponentialBackoffScale: .milliseconds(1))
    )
    let items = try await loadItems(with: manager)
    precondition(items == ["one", "two"])
    precondition(origin.requests.map(\.path) == ["/v1/items"])
    await manager.invalidateSession(cancelingTasks: false)
}

func testRefusedServer() async throws {
    let origin = StubOrigin()
    try origin.route(.get, "*", failure: StubFailure(.pinMismatch))
    var configuration = HTTPSessionManager.Configuration()
    configuration.answerRequests(with: origin)
    let manager = try HTTPSessionManager(baseURL: "https://api.example.com/v1", configuration: configuration)
    do {
        _ = try await loadItems(with: manager)
        preconditionFailure("a server with another key was accepted")
    } catch let failure as RequestFailure {
        precondition(failure.sessionError?.code == .pinMismatch)
    }
    await manager.invalidateSession(cancelingTasks: false)
}
