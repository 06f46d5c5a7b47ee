// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("Settings of a manager that several threads change", .onOwnThreads)
struct ConcurrentChangeTests {
    private static let threads = 8
    private static let changes = 50

    private func onThreads(_ work: @escaping @Sendable (Int) throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<Self.threads {
                group.addTask { for change in 0..<Self.changes { try work(thread * Self.changes + change) } }
            }
            try await group.waitForAll()
        }
    }

    private func stage() throws -> HTTPStage { try HTTPStage(responding: { HTTPStage.echo($0) }) }

    @Test("eight threads that set fifty fields each lose none")
    func requestFields() async throws {
        let stage = try stage()
        let before = stage.manager.requestSerializer.settings.headers.count
        let manager = stage.manager
        try await onThreads { try manager.requestSerializer.setValue("v", forHTTPHeaderField: "X-\($0)") }
        #expect(manager.requestSerializer.settings.headers.count == before + Self.threads * Self.changes)
        await stage.end()
    }

    @Test("concurrent changes of all hooks lose none")
    func hooks() async throws {
        let stage = try stage()
        let session = stage.manager.session
        let calls = Monitor(0)
        try await onThreads { _ in
            func chain(_ hooks: inout SessionHooks) {
                let earlier = hooks.sessionDidBecomeInvalid
                hooks.sessionDidBecomeInvalid = {
                    earlier?()
                    calls.with { $0 += 1 }
                }
            }
            chain(&session.hooks)
        }
        await stage.end()
        #expect(calls.with { $0 } == Self.threads * Self.changes)
    }
}
