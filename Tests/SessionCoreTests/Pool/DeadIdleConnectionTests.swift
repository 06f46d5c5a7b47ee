// SPDX-License-Identifier: Apache-2.0
import IOCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Idle connections that have ended before the loop looks at them", .onOwnThreads)
struct DeadIdleConnectionTests {
    enum End: CaseIterable {
        case closed, reset, excess
    }

    @Test(
        "of three idle connections the live one is used",
        arguments: End.allCases,
        [true, false]
    )
    func third(end: End, isSecure: Bool) throws {
        let responses = (0..<3).map { _ in Gate() }
        let ends = Gate()
        let ended = Monitor(0)
        let origin = try ScriptedOrigin(isSecure ? try TestPKI.shared.server(TestSession.host) : nil) { connection in
            guard let first = try connection.readRequest() else { return }
            try responses[connection.number].pass()
            try connection.respond(first.target)
            if connection.number > 0 {
                try ends.pass()
                switch end {
                case .closed: connection.close(.clean)
                case .reset: connection.close(.reset)
                case .excess: try connection.write(OriginResponse.text("poison"))
                }
                ended.with { $0 += 1 }
                if end == .excess { connection.readToEnd() }
                return
            }
            while let request = try connection.readRequest() { try connection.respond(request.target) }
        }
        let session = try TestSession()
        let endpoint = try TestSession.endpoint(port: origin.port, scheme: isSecure ? .https : .http)
        let delegates = (0..<3).map { _ in RecordingDelegate() }
        for delegate in delegates { _ = try session.start(delegate, endpoint, target: "/first") }
        try session.run(until: "three requests") {
            origin.connections.count == 3 && origin.connections.allSatisfy { $0.requests.count == 1 }
        }
        // They become idle one after another: the last one is chosen first.
        for gate in responses {
            let count = delegates.count { $0.isComplete }
            gate.open()
            try session.run(until: "a response") { delegates.count { $0.isComplete } > count }
        }
        ends.open()
        // The loop does not turn meanwhile.
        _ = try ended.wait(for: "the ends") { $0 == 2 ? true : nil }
        let next = try session.get(endpoint, target: "/next")
        #expect(next.error == nil && next.text == "/next")
        #expect(next.transaction.isReusedConnection && origin.connections.count == 3)
        // No place in the pool was lost with the two.
        #expect(try session.get(endpoint, target: "/again").transaction.isReusedConnection)
    }
}
