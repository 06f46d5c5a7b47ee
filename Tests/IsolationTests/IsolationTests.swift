// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import TestSupport
import Testing

/// An actor of the program.
private actor Owner {
    private var names = ["a", "b"]

    func send(_ manager: HTTPSessionManager) async throws -> Int {
        _ = try await manager.post("form", serializer: .string) { form in
            for name in names { try form.append(name, name: "name") }
            names.append("form")
        }
        let request = try manager.multipartRequest(.put, "form") { try $0.append("\(names.count)", name: "count") }
        _ = try await request.response(serializer: .decodable(Item.self))
        return names.count
    }
}

/// A class of the main actor, in so many words.
@MainActor
private final class View {
    private var names = ["a", "b"]

    func send(_ manager: HTTPSessionManager) async throws -> Int {
        _ = try await manager.post("form", serializer: .string) { form in
            for name in names { try form.append(name, name: "name") }
            names.append("form")
        }
        let request = try manager.multipartRequest(.put, "form") { try $0.append("\(names.count)", name: "count") }
        _ = try await request.response(serializer: .decodable(Item.self))
        return names.count
    }
}

@Suite("Calls from actors", .onOwnThreads)
struct IsolationTests {
    @Test("the public calls suit a program on the main actor")
    func byDefault() async throws {
        let folder = try TemporaryFolder()
        #expect(
            try await Surface().run(folder.path) == [
                "GET", "POST", "PUT", "PATCH", "DELETE", "form", "POST", "handlers 28", "POST", "joined", "cancelled",
                "line 12", "line 12", "a", "b", "bytes 52", "e", "GET", "downloaded true", "200", "1",
            ]
        )
    }

    @Test("a form may hold values of an actor, or of the main actor")
    func forms() async throws {
        let origin = StubOrigin()
        try origin.route(nil, "*", response: .text("{\"name\":\"x\"}", contentType: "application/json"))
        var configuration = HTTPSessionManager.Configuration()
        configuration.answerRequests(with: origin)
        let manager = try HTTPSessionManager(baseURL: "https://api.example.com", configuration: configuration)
        #expect(try await Owner().send(manager) == 3)
        #expect(try await View().send(manager) == 3)
        #expect(origin.requests.map { $0.text.contains("\r\n\r\nb\r\n") } == [true, false, true, false])
        await manager.invalidateSession(cancelingTasks: false)
    }
}
