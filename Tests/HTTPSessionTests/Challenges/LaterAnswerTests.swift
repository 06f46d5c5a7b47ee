// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Challenges whose hook finishes later", .onOwnThreads)
struct LaterAnswerTests {
    private typealias Stage = ManagerStage
    private static let right = Credential(user: "user", password: "right", persistence: .none)
    private static let longBody = String(repeating: "no ", count: 1_000_000)

    /// Wants Basic credentials, but for `/open`; `/long` has a long 401.
    private func stage(_ change: (inout URLSessionManager.Configuration) -> Void = { _ in }) throws -> Stage {
        try Stage(change) { request in
            if request.target == "/open" || request["Authorization"] == "Basic dXNlcjpyaWdodA==" {
                return OriginResponse.text("yes")
            }
            return OriginResponse.text(
                request.target == "/long" ? Self.longBody : "no",
                status: "401 Unauthorized",
                fields: ["WWW-Authenticate: Basic realm=\"r\""]
            )
        }
    }

    /// Answers Basic challenges when the gate opens.
    private func answerChallenge(_ stage: Stage, behind gate: Gate, _ disposition: ChallengeDisposition) {
        stage.manager.taskDidReceiveChallenge = { [stage] _, challenge in
            guard challenge.protectionSpace.authenticationMethod == .httpBasic else { return .performDefaultHandling }
            return .answerLater {
                stage.note("asked")
                try? gate.pass()
                return disposition
            }
        }
    }

    @Test("the request is repeated when the hook has decided; others continue meanwhile", arguments: ["/", "/long"])
    func later(path: String) async throws {
        let stage = try stage()
        let gate = Gate()
        answerChallenge(stage, behind: gate, .useCredential(Self.right))
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url(path)))
        task.resume()
        _ = try await stage.wait(for: "asked")
        let other = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/open"))).value()
        #expect(other.response.status == 200)
        #expect(task.state == .running && task.response == nil)
        gate.open()
        let response = try await task.value()
        #expect(response.text == "yes")
        #expect(response.metrics.earlierTransactions.map(\.status) == [401])
        await stage.end()
    }

    @Test("the 401 is the whole response when the hook later declines", arguments: ["/", "/long"])
    func refused(path: String) async throws {
        for disposition in [ChallengeDisposition.rejectProtectionSpace, .performDefaultHandling] {
            let stage = try stage()
            let gate = Gate()
            answerChallenge(stage, behind: gate, disposition)
            let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url(path)))
            task.resume()
            _ = try await stage.wait(for: "asked")
            // A long one waits with its origin.
            try await eventually("the answer") { stage.origin.connections.reduce(0) { $0 + $1.bytesWritten } > 0 }
            gate.open()
            let response = try await task.value()
            #expect(response.response.status == 401)
            #expect(response.text == (path == "/" ? "no" : Self.longBody))
            #expect(response.metrics.earlierTransactions.isEmpty)
            await stage.end()
        }
    }

    @Test("a hook may decide each challenge later, and postpone once more")
    func ways() async throws {
        let stage = try Stage { request in
            request["Authorization"]?.hasPrefix("Basic") == true
                ? OriginResponse.text("yes")
                : OriginResponse.text(
                    "no",
                    status: "401 Unauthorized",
                    fields: [
                        "WWW-Authenticate: Basic realm=\"r\"", "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"",
                    ]
                )
        }
        stage.manager.taskDidReceiveChallenge = { [stage] _, challenge in
            let method = challenge.protectionSpace.authenticationMethod
            guard method != .serverTrust else { return .performDefaultHandling }
            stage.note("\(method)")
            return .answerLater {
                .answerLater { method == .httpBasic ? .useCredential(Self.right) : .rejectProtectionSpace }
            }
        }
        let response = try await stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/"))).value()
        #expect(response.text == "yes")
        #expect(stage.log.with { $0 } == ["httpDigest", "httpBasic"])
        await stage.end()
    }

    @Test("a late decision can end the task; cancelling the task ends the hook's work", arguments: [false, true])
    func cancelled(byTask: Bool) async throws {
        let stage = try stage()
        stage.manager.taskDidReceiveChallenge = { [stage] _, challenge in
            guard challenge.protectionSpace.authenticationMethod == .httpBasic else { return .performDefaultHandling }
            return .answerLater {
                stage.note("asked")
                guard byTask else { return .cancelAuthenticationChallenge }
                try? await Task.sleep(for: .seconds(600))
                stage.note("woken \(Task.isCancelled)")
                return .useCredential(Self.right)
            }
        }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.resume()
        _ = try await stage.wait(for: "asked")
        if byTask { task.cancel() }
        await #expect { _ = try await task.value() } throws: { $0.sessionCode == .cancelled }
        if byTask { _ = try await stage.wait(for: "woken true") }
        #expect(stage.origin.requests.count == 1)
        await stage.end()
    }

    @Test("the task's total time runs on while a hook decides")
    func time() async throws {
        let stage = try stage()
        let gate = Gate()
        answerChallenge(stage, behind: gate, .useCredential(Self.right))
        let request = HTTPSessionRequest(url: Stage.url("/"), timeouts: TaskTimeouts(total: .seconds(2)))
        let task = try stage.manager.dataTask(with: request)
        await #expect { _ = try await task.value() } throws: { $0.sessionCode == .responseTimeout }
        #expect(stage.log.with { $0 } == ["asked"])
        gate.open()
        await stage.end()
    }

    @Test("a download waits as well, and a suspended task continues where it was")
    func downloads() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path
        let stage = try stage { $0.temporaryFolder = path }
        let gate = Gate()
        answerChallenge(stage, behind: gate, .useCredential(Self.right))
        let task = try stage.manager.downloadTask(with: HTTPSessionRequest(url: Stage.url("/")))
        task.resume()
        _ = try await stage.wait(for: "asked")
        task.suspend()
        gate.open()
        let response = try await task.value()
        #expect(try String(contentsOfFile: response.path, encoding: .utf8) == "yes")
        await stage.end()
    }

    @Test("a task that is suspended while its hook declines gets the whole 401 later")
    func suspended() async throws {
        let stage = try stage()
        let gate = Gate()
        answerChallenge(stage, behind: gate, .rejectProtectionSpace)
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/long")))
        task.resume()
        _ = try await stage.wait(for: "asked")
        // More than is kept, so that reading pauses.
        try await eventually("the body") { stage.origin.connections.reduce(0) { $0 + $1.bytesWritten } > 1 << 20 }
        task.suspend()
        gate.open()
        try await eventually("the decision") { task.response != nil }
        // It resumes the task.
        #expect(try await task.value().text == Self.longBody)
        await stage.end()
    }

    @Test("a server's trust cannot be evaluated later: the task fails, and nothing is sent")
    func serverTrust() async throws {
        let stage = try stage()
        stage.manager.sessionDidReceiveAuthenticationChallenge = { _ in .answerLater { .performDefaultHandling } }
        let task = try stage.manager.dataTask(with: HTTPSessionRequest(url: Stage.url("/")))
        await #expect { _ = try await task.value() } throws: { $0.sessionCode == .requestInvalid }
        #expect(stage.origin.applicationBytes == 0)
        await stage.end()
    }
}
