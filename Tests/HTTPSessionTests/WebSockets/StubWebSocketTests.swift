// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionStubs
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

@Suite("A stub's WebSocket", .onOwnThreads)
struct StubWebSocketTests {
    @Test("a stub returns messages, and has the handshake's request") func echo() async throws {
        let stage = try StubStage()
        try stage.origin.webSocket("/feed", protocols: ["v2"]) { socket in
            try await socket.send(.string(socket.request.value(for: "X-Own") ?? "-"))
            while let message = try await socket.receive() { try await socket.send(message) }
        }
        var options = WebSocketOptions()
        options.compression = WebSocketCompression()
        let socket = try stage.manager.webSocketTask(
            "/feed",
            headers: ["X-Own": "1"],
            protocols: ["v2"],
            options: options
        )
        #expect(try await socket.open() == "v2")
        #expect(try await socket.receive() == .string("1"))
        let text = String(repeating: "again ", count: 100_000)
        try await socket.send(.string(text))
        #expect(try await socket.receive() == .string(text))
        try await socket.sendPing()
        socket.cancel(with: .normalClosure, reason: "done")
        await withCheckedContinuation { done in socket.delegate.whenComplete { done.resume() } }
        #expect(socket.error == nil && socket.closeCode == .normalClosure)
        #expect(stage.origin.requests.map(\.path) == ["/feed"])
        await stage.end()
    }

    @Test("a stub's handler that is late gets all that came before the Close frame") func late() async throws {
        let stage = try StubStage()
        let gate = Gate()
        let seen = Monitor<[WebSocketTask.Message?]>([])
        try stage.origin.webSocket("/late") { socket in
            try? gate.pass()
            while true {
                let message = try? await socket.receive()
                seen.with { $0.append(message) }
                if message == nil { return }
            }
        }
        let socket = try stage.manager.webSocketTask("/late")
        try await socket.open()
        for text in ["a", "b", "c"] { try await socket.send(.string(text)) }
        socket.cancel(with: .normalClosure, reason: "done")
        await withCheckedContinuation { done in socket.delegate.whenComplete { done.resume() } }
        #expect(socket.error == nil && socket.closeCode == .normalClosure)
        gate.open()
        try await eventually("the handler's end") { seen.with { $0.last == .some(nil) } }
        #expect(seen.with { $0 } == [.string("a"), .string("b"), .string("c"), nil])
        await stage.end()
    }

    @Test("a stub closes when its handler returns, and reports a thrown error") func ends() async throws {
        let stage = try StubStage()
        try stage.origin.webSocket("/one") { socket in
            try await socket.send(.string("only"))
            socket.close(.goingAway, reason: "restart")
        }
        try stage.origin.webSocket("/two") { _ in throw SessionError(.internal, "no") }
        try stage.origin.route(.get, "/three", response: .text("none"))
        let one = try stage.manager.webSocketTask("/one")
        try await one.open()
        var seen: [WebSocketTask.Message] = []
        for try await message in one.messages { seen.append(message) }
        #expect(seen == [.string("only")] && one.closeCode == .goingAway && one.closeReason == "restart")
        let two = try stage.manager.webSocketTask("/two")
        try await two.open()
        for try await _ in two.messages {}
        #expect(two.closeCode == .internalServerError)
        let three = try stage.manager.webSocketTask("/three")
        await #expect { try await three.open() } throws: { $0.sessionCode == .responseInvalid }
        #expect(try await stage.manager.data(for: "https://api.example.com/one").response.status == 426)
        await stage.end()
    }
}
