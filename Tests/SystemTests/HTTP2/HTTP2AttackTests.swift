// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Attacks with HTTP/2", .onOwnThreads)
struct HTTP2AttackTests {
    private func stage() throws -> Stage {
        try Stage(HTTP2ClientTests.takeHTTP2) { connection in
            while let request = try connection.readRequest() {
                try connection.write(OriginResponse.text(request.target))
            }
        }
    }

    /// Sends the frames again and again until the proxy takes no more.
    ///
    /// - Returns: the code of its GOAWAY, and whether the connection has ended.
    private func flood(
        _ proxy: ProxyUnderTest,
        opening: [UInt8] = [],
        times: Int,
        _ frames: (Int) -> [UInt8]
    ) throws -> UInt32? {
        let client = try proxy.connect()
        var response: [UInt8] = []
        try client.send(RawFrames.opening + opening)
        do {
            for number in 0..<times { try client.send(frames(number)) }
        } catch is TestSocket.Failure {
            // The proxy has closed while there was more to send.
        }
        do {
            while true {
                let bytes = try client.receive()
                if bytes.isEmpty { break }
                response += bytes
            }
        } catch is TestSocket.Failure {
            // A reset: what came before it counts.
        }
        return RawFrames.goAway(in: response)
    }

    private func expectAlive(_ stage: Stage) throws {
        let peer = try HTTP2Peer(stage.proxy.connect())
        #expect(try peer.finish(peer.request(authority: Stage.host)).status == 200)
    }

    private static let enhanceYourCalm: UInt32 = 11

    @Test("a client that requests and cancels endlessly gets ENHANCE_YOUR_CALM")
    func rapidReset() throws {
        let stage = try stage()
        let code = try flood(stage.proxy, times: 20_000) { number in
            RawFrames.frame(type: 1, flags: 5, stream: 2 * number + 1, RawFrames.head(Stage.host))
                + RawFrames.frame(type: 3, stream: 2 * number + 1, [0, 0, 0, 8])
        }
        #expect(code == Self.enhanceYourCalm)
        try expectAlive(stage)
        let lines = try stage.proxy.waitForTaskLines(1)
        #expect(lines.count < 1500)
    }

    @Test("a client that provokes endless resets gets ENHANCE_YOUR_CALM")
    func madeYouReset() throws {
        let stage = try stage()
        // A window that overflows is an error of the stream alone (RFC 9113, section 6.9.1).
        let code = try flood(stage.proxy, times: 20_000) { number in
            RawFrames.frame(type: 1, flags: 5, stream: 2 * number + 1, RawFrames.head(Stage.host))
                + RawFrames.frame(type: 8, stream: 2 * number + 1, [0x7F, 0xFF, 0xFF, 0xFF])
        }
        #expect(code == Self.enhanceYourCalm)
        try expectAlive(stage)
    }

    @Test(
        "floods of useless frames end the connection",
        arguments: [
            RawFrames.frame(type: 6, [UInt8](repeating: 1, count: 8)), RawFrames.frame(type: 4, [0, 3, 0, 0, 0, 100]),
            RawFrames.frame(type: 2, stream: 1, [0, 0, 0, 0, 16]), RawFrames.frame(type: 0, stream: 1),
            RawFrames.frame(type: 8, [0, 0, 0, 1]),
        ]
    )
    func floods(_ frame: [UInt8]) throws {
        let stage = try stage()
        let pieces = Array(repeating: frame, count: 100).flatMap { $0 }
        // A request whose body does not end, for the frames that need one.
        let opening = RawFrames.frame(type: 1, flags: 4, stream: 1, RawFrames.head(Stage.host))
        let code = try flood(stage.proxy, opening: opening, times: 400) { _ in pieces }
        #expect(code == Self.enhanceYourCalm)
        try expectAlive(stage)
    }

    @Test("a head of endless CONTINUATION frames ends the connection")
    func continuations() throws {
        let stage = try stage()
        let opening = RawFrames.frame(type: 1, flags: 1, stream: 1, RawFrames.head(Stage.host))
        _ = try flood(stage.proxy, opening: opening, times: 1000) { _ in
            RawFrames.frame(type: 9, stream: 1, [0x00, 1, UInt8(ascii: "x"), 1, UInt8(ascii: "y")])
        }
        try expectAlive(stage)
        #expect(stage.origin.requests.count == 1)
    }

    @Test("a refused client that goes on byte by byte gets no more time")
    func trickle() throws {
        let stage = try stage()
        let client = try stage.proxy.connect()
        // DATA belongs to a stream.
        try client.send(RawFrames.opening + RawFrames.frame(type: 0, [1]))
        #expect(RawFrames.goAway(in: try client.readToEnd()) == 1)
        try Patience.poll(for: "the end of the connection") { (try? client.send([0])) == nil ? true : nil }
    }

    @Test("an incomplete head ends the connection after timeouts.head")
    func slowHead() throws {
        let stage = try Stage(
            { settings in
                HTTP2ClientTests.takeHTTP2(&settings)
                settings.setTimeouts(["head": "300ms"])
            },
            responding: { OriginResponse.text($0.target) }
        )
        let client = try stage.proxy.connect()
        try client.send(RawFrames.opening + RawFrames.frame(type: 1, flags: 1, stream: 1, RawFrames.head(Stage.host)))
        let response = try client.readToEnd()
        #expect(RawFrames.goAway(in: response) == Self.enhanceYourCalm)
        #expect(stage.origin.connections.isEmpty)
    }
}
