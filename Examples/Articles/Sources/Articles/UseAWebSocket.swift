// SPDX-License-Identifier: Apache-2.0
import HTTPSession
import HTTPSessionStubs
import SessionCore

func followPrices(with session: URLSessionManager) async throws {
    let socket = try session.webSocketTask(with: "wss://api.example.com/v1/feed", protocols: ["v2.feed"])
    try await socket.open()
    try await socket.send(.string("subscribe tea"))
    for try await message in socket.messages {
        switch message {
        case .string(let text): print(text)
        case .data(let bytes): print("\(bytes.count) bytes")
        }
    }
    print("closed:", socket.closeCode, socket.closeReason ?? "")
}

func ask(with session: URLSessionManager) async throws -> WebSocketTask.Message {
    var options = WebSocketOptions()
    options.compression = WebSocketCompression()
    options.maximumMessageSize = 4 << 20
    let socket = try session.webSocketTask(with: "wss://api.example.com/v1/feed", options: options)
    try await socket.open()
    try await socket.sendPing()
    try await socket.send(.data([1, 2, 3]))
    let reply = try await socket.receive()
    socket.cancel(with: .normalClosure, reason: "done")
    return reply
}

func addFeed(to origin: StubOrigin) throws {
    try origin.webSocket("/v1/feed", protocols: ["v2.feed"]) { socket in
        guard let message = try await socket.receive() else { return }
        try await socket.send(message)
        socket.close(.goingAway, reason: "restart")
    }
}
