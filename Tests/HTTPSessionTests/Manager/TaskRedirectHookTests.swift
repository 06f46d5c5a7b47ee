// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A task's own redirect hook", .onOwnThreads)
struct TaskRedirectHookTests {
    private typealias Stage = ManagerStage

    private func stage() throws -> Stage {
        try Stage { request in
            request.target == "/"
                ? OriginResponse.redirect("/next", body: "moved") : OriginResponse.text(request.target)
        }
    }

    @Test("the hook stops at the redirect, which is then the response")
    func stops() async throws {
        let stage = try stage()
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.delegate.taskWillPerformHTTPRedirection = { _, _, _ in .stop }
        let response = try await task.value()
        #expect(response.response.status == 302 && response.data == Array("moved".utf8))
        #expect(response.metrics.redirectCount == 0)
        #expect(stage.origin.requests.map(\.target) == ["/"])
        await stage.end()
    }

    @Test("the hook leads elsewhere, with another method and its own fields")
    func leadsElsewhere() async throws {
        let stage = try stage()
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.delegate.taskWillPerformHTTPRedirection = { _, response, redirect in
            var request = redirect.request
            request.url = Stage.url("/else")
            request.method = .put
            request.headers["X-Hop"] = "\(response.status)"
            return .follow(request)
        }
        let response = try await task.value()
        #expect(response.data == Array("/else".utf8))
        #expect(task.currentRequest.url == Stage.url("/else"))
        #expect(
            stage.origin.requests.map { "\($0.method) \($0.target) \($0["X-Hop"] ?? "-")" } == [
                "GET / -", "PUT /else 302",
            ]
        )
        await stage.end()
    }

    @Test("a task's own hook replaces the session's for that task alone")
    func goesFirst() async throws {
        let stage = try stage()
        stage.manager.taskWillPerformHTTPRedirection = { [stage] task, _, _ in
            stage.note("session \(task.originalRequest.url)")
            return .stop
        }
        let own = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        own.delegate.taskWillPerformHTTPRedirection = { [stage] _, _, redirect in
            stage.note("task")
            return .follow(redirect.request)
        }
        #expect(try await own.value().data == Array("/next".utf8))
        let other = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        #expect(try await other.value().response.status == 302)
        #expect(stage.log.with { $0 } == ["task", "session \(Stage.url("/"))"])
        await stage.end()
    }
}
