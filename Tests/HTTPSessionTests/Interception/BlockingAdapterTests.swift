// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSessionCodable
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Adapters that block", .onOwnThreads)
struct BlockingAdapterTests {
    @Test("a blocking adapter holds up no request of another manager")
    func otherManager() async throws {
        let gate = Gate()
        let blocked = Monitor(0)
        let slow = try HTTPStage(
            interceptor: Adapter { request, _ in
                blocked.with { $0 += 1 }
                try gate.pass()
                return request
            },
            responding: { HTTPStage.echo($0) }
        )
        let requests = try (0..<8).map { _ in try slow.manager.request(.get, "slow") }
        for request in requests { request.response(serializer: HTTPResponseSerializer()) { _ in } }
        try await eventually("four that block") { blocked.with { $0 } >= 4 }
        let quick = try HTTPStage(interceptor: Adapter { request, _ in request }, responding: { HTTPStage.echo($0) })
        let response = Monitor<Int?>(nil)
        let waiting = beside {
            let status = try await quick.manager.get("quick").response.response.status
            response.with { $0 = status }
        }
        // It comes while the others still wait.
        do { try await eventually("the quick one") { response.with { $0 } == 200 } } catch { Issue.record(error) }
        gate.open()
        _ = try await waiting.value
        await slow.manager.cancelAllRequests()
        await slow.end()
        await quick.end()
    }

    @Test("an error says what was wrong to Foundation, too")
    func localized() throws {
        let error = SessionError(.dnsFailed, "No address of a.example.")
        let response = dataResponse("x", status: 404)
        let refused = ResponseSerializationError(.unacceptableStatusCode(404), response: response)
        let all: [(any Error, String)] = [
            (error, "No address of a.example."), (RequestFailure.session(error), "No address of a.example."),
            (refused, "404"), (RequestFailure.serialization(refused), "404"),
            (RequestFailure.adaptation(error), "No address of a.example."),
            (RequestFailure.retry(error, original: .serialization(refused)), "404"),
            (JSONFault(message: "no value", offset: 7), "no value"),
            (AuthenticationError.missingCredential, "credential"), (AuthenticationError.excessiveRefresh, "refresh"),
        ]
        for (error, text) in all {
            #expect(error.localizedDescription.contains(text), "\(error.localizedDescription)")
        }
    }
}
