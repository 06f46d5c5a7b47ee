// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A data task's stream", .onOwnThreads)
struct DataStreamTests {
    private typealias Stage = ManagerStage

    @Test("a stream behind a redirect gets the final body alone")
    func behindRedirect() async throws {
        let stage = try Stage { request in
            request.target == "/" ? OriginResponse.redirect("/end", body: "moved") : OriginResponse.text("the end")
        }
        let streamed = Monitor<[UInt8]>([])
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.dataDelegate.dataStream = { bytes in streamed.with { $0 += bytes } }
        let response = try await task.value()
        #expect(response.response.status == 200 && response.data.isEmpty && response.metrics.redirectCount == 1)
        #expect(streamed.with { $0 } == Array("the end".utf8))
        await stage.end()
    }

    @Test("a stream behind a 401 gets only the response to the credential")
    func behindChallenge() async throws {
        let stage = try Stage { request in
            request["Authorization"] == nil
                ? OriginResponse.text(
                    "who are you?",
                    status: "401 Unauthorized",
                    fields: ["WWW-Authenticate: Basic realm=\"r\""]
                ) : OriginResponse.text("welcome")
        }
        let streamed = Monitor<[UInt8]>([])
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.delegate.credential = Credential(user: "user", password: "right", persistence: .none)
        task.dataDelegate.dataStream = { bytes in streamed.with { $0 += bytes } }
        #expect(try await task.value().response.status == 200)
        #expect(streamed.with { $0 } == Array("welcome".utf8))
        // Without one the 401 is the answer, and its body is streamed.
        streamed.with { $0 = [] }
        let refused = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/other/place")))
        refused.delegate.taskDidReceiveChallenge = { _, _ in .rejectProtectionSpace }
        refused.dataDelegate.dataStream = { bytes in streamed.with { $0 += bytes } }
        #expect(try await refused.value().response.status == 401)
        #expect(streamed.with { $0 } == Array("who are you?".utf8))
        await stage.end()
    }

    @Test("a stream that cancels its task gets no more")
    func cancelled() async throws {
        let stage = try Stage { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            let chunk = "1000\r\n" + String(repeating: "x", count: 4096) + "\r\n"
            // Until the client has gone.
            while true { try connection.write(chunk) }
        }
        let calls = Monitor(0)
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.dataDelegate.dataStream = { [weak task] _ in
            calls.with { $0 += 1 }
            task?.cancel()
        }
        await #expect { try await task.value() } throws: { $0.sessionCode == .cancelled }
        #expect(task.state == .completed)
        try await eventually("the end of the connection") { stage.origin.connections.allSatisfy(\.isClosed) }
        #expect(calls.with { $0 } == 1)
        await stage.end()
    }
}
