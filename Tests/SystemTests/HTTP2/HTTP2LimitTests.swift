// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// The limits of what a client may do in HTTP/2, and the errors beyond them.
@Suite("Limits of HTTP/2 from clients", .onOwnThreads)
struct HTTP2LimitTests {
    private typealias Raw = RawFrames

    private func stage() throws -> Stage {
        try Stage(HTTP2ClientTests.takeHTTP2) { OriginResponse.text($0.target) }
    }

    /// A head in frames of 16 KB.
    private static func frames(_ stream: Int, _ block: [UInt8]) -> [UInt8] {
        var frames: [UInt8] = []
        var rest = block[...]
        repeat {
            let piece = Array(rest.prefix(1 << 14))
            rest = rest.dropFirst(1 << 14)
            frames +=
                frames.isEmpty
                ? Raw.headers(stream, piece, flags: Raw.endStream | (rest.isEmpty ? Raw.endHeaders : 0))
                : Raw.continuation(stream, piece, ends: rest.isEmpty)
        } while !rest.isEmpty
        return frames
    }

    /// Whether a head says that status in a form of the encoder's: literal, in plain or in Huffman's code.
    private static func says431(_ frame: ConformanceClient.Frame) -> Bool {
        frame.payload.starts(with: [0x48, 0x82, 0x68, 0x21])
            || frame.payload.starts(with: [0x48, 0x03, 0x34, 0x33, 0x31])
    }

    @Test(
        "a head above limits.headBytes is 431, and the connection stays",
        arguments: [
            Flood("a value of 70 KB") { _ in Raw.field("x-large", String(repeating: "v", count: 70 << 10)) },
            Flood("a name of 70 KB") { _ in Raw.field(String(repeating: "n", count: 70 << 10), "v") },
            Flood("50 values of 4 KB") { _ in
                (0..<50).flatMap { Raw.field("x-\($0)", String(repeating: "v", count: 4 << 10)) }
            },
            Flood("two fields") { _ in
                Raw.field("x-large", String(repeating: "v", count: 65_000))
                    + Raw.field("x-more", String(repeating: "v", count: 500))
            },
        ]
    )
    func largeHeads(_ head: Flood) throws {
        let stage = try stage()
        let client = ConformanceClient(try stage.proxy.connect())
        try client.shakeHands()
        #expect(client.run([.send(Self.frames(1, Raw.get + head.frames(0)))]) == nil)
        var statuses: [Bool] = []
        while let frame = try client.next() {
            if frame.type == 1, frame.stream == 1 { statuses.append(Self.says431(frame)) }
            if frame.stream == 1, frame.flags & 1 != 0 { break }
        }
        #expect(statuses == [true])
        #expect(client.run([.send(Raw.headers(3, Raw.get)), .expect(.end(stream: 3))]) == nil)
        #expect(stage.origin.requests.count == 1)
    }

    @Test(
        "endless frames that advance no request end the connection",
        arguments: [
            // 15,000 references to one field of 4 KB, a hundred times.
            Flood("references", times: 100) { number in
                let stream = 2 * number + 1
                let kept =
                    [0x40] + Raw.length(3) + Array("x-k".utf8) + Raw.length(4000) + [UInt8](repeating: 118, count: 4000)
                let block = (number == 0 ? Raw.get + kept : Raw.get) + [UInt8](repeating: 0xBE, count: 12_000)
                return Raw.headers(stream, block)
            },
            Flood("large heads", times: 60) { number in
                HTTP2LimitTests.frames(2 * number + 1, Raw.get + Raw.field("x", String(repeating: "v", count: 130_000)))
            },
            Flood("an endless head", times: 120) { number in
                number == 0
                    ? Raw.headers(1, Raw.get, flags: Raw.endStream)
                    : Raw.continuation(1, Raw.field("x", String(repeating: "v", count: 16_000)), ends: false)
            },
            Flood("unknown frames", times: 2000) { _ in Raw.frame(type: 0xBB, [1]) },
            Flood("padding", times: 2000) { number in
                (number == 0 ? Raw.open(1) : [])
                    + Raw.frame(type: 0, flags: Raw.padded, stream: 1, [7] + Raw.number(0) + [0, 0, 0])
            },
            Flood("bytes", times: 20_000) { number in
                (number == 0 ? Raw.open(1) : []) + Raw.data(1, [7], ends: false)
            },
            Flood("refused streams", times: 3000) { number in Raw.open(2 * number + 1) },
        ]
    )
    func floods(_ flood: Flood) throws {
        let stage = try stage()
        let client = ConformanceClient(try stage.proxy.connect())
        try client.shakeHands()
        let frames = (0..<flood.times).map(flood.frames)
        var steps: [ConformanceCase.Step] = []
        for start in stride(from: 0, to: frames.count, by: 50) {
            steps.append(.send(frames[start...].prefix(50).reduce(into: []) { $0 += $1 }))
        }
        #expect(client.run(steps + [.expect(.connectionError([.enhanceYourCalm]))]) == nil)
        let peer = try HTTP2Peer(stage.proxy.connect())
        #expect(try peer.finish(peer.request(authority: Stage.host)).status == 200)
    }

    struct Flood: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let times: Int
        let frames: @Sendable (Int) -> [UInt8]

        init(_ name: String, times: Int = 1, _ frames: @escaping @Sendable (Int) -> [UInt8]) {
            testDescription = name
            self.times = times
            self.frames = frames
        }
    }

    @Test("a long conversation in small pieces keeps its connection")
    func smallPieces() throws {
        let stage = try stage()
        let peer = try HTTP2Peer(stage.proxy.connect())
        let stream = try peer.request("POST", authority: Stage.host, body: [0, 0, 0, 0, 0], ends: false)
        for _ in 0..<3000 { try peer.send([0, 0, 0, 0, 0], on: stream) }
        try peer.end(stream, trailers: [("check", "1")])
        #expect(try peer.finish(stream).status == 200)
        #expect(stage.origin.requests.first?.body.count == 15_005)
    }
}
