// SPDX-License-Identifier: Apache-2.0
import SessionCore
import Testing
import WebSocketCore

@testable import HTTPSessionCore

@Suite("A WebSocket between its loop and the program")
struct WebSocketChannelTests {
    private func open(_ channel: WebSocketChannel) async throws(SessionError) -> String? {
        try await channel.call { channel, id, completion in channel.whenOpen(id, completion) }
    }

    @Test("a WebSocket that the peer closes at once was open", arguments: [nil, SessionError(.stalled, "late")])
    func closedAtOnce(error: SessionError?) async throws {
        let channel = WebSocketChannel(maximumMessageSize: 1)
        channel.didOpen("v2")
        channel.finish(WebSocketClose(code: 1011), error)
        #expect(try await open(channel) == "v2")
        #expect(channel.isAtEnd == (error == nil))
    }

    @Test("a WebSocket that did not open tells why")
    func notOpened() async {
        let channel = WebSocketChannel(maximumMessageSize: 1)
        channel.finish(WebSocketClose(code: 1006), SessionError(.connectFailed, "no"))
        await #expect { try await open(channel) } throws: { ($0 as? SessionError)?.code == .connectFailed }
    }
}
