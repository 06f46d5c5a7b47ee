// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing

@testable import HTTP2Core

/// Frames with field blocks as an attacker writes them.
private enum Block {
    static func frame(type: UInt8, flags: UInt8, stream: Int, _ payload: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        FrameHead(length: payload.count, type: type, flags: flags, stream: Int32(stream)).write(to: &bytes)
        return bytes + payload
    }

    static func length(_ value: Int) -> [UInt8] {
        var rest = value - 127
        guard rest >= 0 else { return [UInt8(value)] }
        var bytes: [UInt8] = [127]
        while rest >= 128 {
            bytes.append(UInt8(rest & 127 | 128))
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    /// GET / of h.example, then a field of 4,000 bytes that becomes the newest entry of the dynamic table.
    static let request =
        [0x82, 0x86, 0x84, 0x01] + length(9) + Array("h.example".utf8)
    static let entry = [0x40] + length(3) + Array("x-k".utf8) + length(4000) + [UInt8](repeating: 118, count: 4000)

    /// References to that entry.
    static func references(_ count: Int) -> [UInt8] { [UInt8](repeating: 0xBE, count: count) }
}

@Suite("Room behind a response head")
struct HeadRoomTests {
    @Test("a leaving head reports its room, because a body may wait for it")
    func told() throws {
        let pair = Pair()
        let request = try #require(pair.request("GET", "/"))
        pair.exchange()
        let stream = try #require(pair.server.opened.first)
        pair.server.session.respond(stream, endsStream: false) { $0.add(status: 200) }
        #expect(stream.queuedHeadBytes > 0 && stream.roomTold == 0)
        pair.exchange()
        #expect(stream.queuedHeadBytes == 0 && stream.roomTold == 1)
        #expect(request.heads.count == 1)
    }
}

@Suite("What a peer may have decoded")
struct DecodingBudgetTests {
    private static let preface =
        Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Block.frame(type: 4, flags: 0, stream: 0, [])

    private func server(_ settings: HTTP2Settings = HTTP2Settings()) -> Peer {
        let server = Peer(.server, settings)
        #expect(server.give(Self.preface))
        return server
    }

    @Test("references cost the budget their size; without budget the connection ends")
    func references() {
        let server = server()
        server.decodingLeft = 1 << 20
        let head = Block.request + Block.entry
        #expect(server.give(Block.frame(type: 1, flags: 5, stream: 1, head + Block.references(10))))
        #expect(server.opened.first?.heads.first?.count == 15)
        #expect(server.decoded >= 44_000 && server.decoded < 120_000)
        // 12,000 references of a byte are 48 MB.
        #expect(!server.give(Block.frame(type: 1, flags: 5, stream: 3, Block.request + Block.references(12_000))))
        #expect(server.decoded <= 1 << 20)
        // GOAWAY, and its code: ENHANCE_YOUR_CALM.
        let last = Array(server.session.takeOutput().suffix(17))
        #expect(last.count == 17 && last[3] == 7 && last[16] == 11)
        #expect(server.session.hasDecodedTooMuch)
    }

    @Test("a paused session continues where it stopped, however frames and pieces come")
    func paused() {
        var random = SeededGenerator(seed: 34)
        for _ in 0..<40 {
            var bytes: [UInt8] = []
            for number in 0..<30 {
                let stream = 2 * number + 1
                let block =
                    Block.request + (number == 0 ? Block.entry : [])
                    + Block.references(Int.random(in: 0...14, using: &random))
                // One frame, or several, which are gathered and filtered.
                let cuts = [0, Int.random(in: 1..<block.count, using: &random), block.count]
                if Bool.random(using: &random) {
                    bytes += Block.frame(type: 1, flags: 4, stream: stream, block)
                } else {
                    bytes += Block.frame(type: 1, flags: 0, stream: stream, Array(block[..<cuts[1]]))
                    bytes += Block.frame(type: 9, flags: 4, stream: stream, Array(block[cuts[1]...]))
                }
                bytes += Block.frame(
                    type: 0,
                    flags: 1,
                    stream: stream,
                    [UInt8](repeating: UInt8(number), count: number)
                )
            }
            let (plain, pausing) = (server(), server())
            pausing.pauses = true
            #expect(plain.give(bytes))
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = rest.prefix(Int.random(in: 1...4000, using: &random))
                rest = rest.dropFirst(piece.count)
                #expect(pausing.give(Array(piece)))
            }
            #expect(pausing.opened.map(\.heads) == plain.opened.map(\.heads))
            #expect(pausing.opened.map(\.body) == plain.opened.map(\.body))
            #expect(pausing.opened.allSatisfy(\.ended) && pausing.opened.count == 30)
            #expect(pausing.resumptions >= 30)
        }
    }

    @Test("a session paused within a frame decodes a few hundred more references")
    func pausedInFrame() {
        let server = server(HTTP2Settings(headerListBytes: 64 << 20))
        server.pauses = true
        let block = Block.request + Block.entry + Block.references(8_000)
        let frame = Block.frame(type: 1, flags: 5, stream: 1, block)
        let isWell = server.session.receive(frame.span)
        #expect(isWell)
        #expect(server.session.isPaused)
        var most = 0
        while server.session.isPaused {
            let before = server.decoded
            #expect(server.session.resumeReading())
            most = max(most, server.decoded - before)
        }
        #expect(server.opened.first?.heads.first?.count == 8_005)
        #expect(most <= 3 << 20)
    }

    @Test("small heads never use the budget up")
    func small() {
        let server = server()
        server.decodingLeft = 256 << 10
        for number in 0..<20_000 {
            let isWell = server.give(Block.frame(type: 1, flags: 5, stream: 2 * number + 1, Block.request))
            guard isWell, let stream = server.opened.last else {
                Issue.record("request \(number) ends the connection")
                return
            }
            server.session.respond(stream, endsStream: true) { $0.add(status: 204) }
            _ = server.take()
        }
        #expect(server.opened.count == 20_000)
    }

    @Test("after a malformed field, or a refusal, no further field is delivered")
    func malformed() {
        for isRefused in [false, true] {
            let server = server()
            server.refusesStreams = isRefused
            server.setUp = { $0.refusesFields = true }
            let block = Block.request + Block.entry + Block.references(10_000)
            #expect(server.give(Block.frame(type: 1, flags: 5, stream: 1, block)))
            #expect(server.opened.first?.fieldCount == (isRefused ? nil : 1))
            #expect(server.decoded <= 65 << 10)
            // The compression state is kept: the next head may refer to the entry.
            server.refusesStreams = false
            server.setUp = { _ in }
            #expect(server.give(Block.frame(type: 1, flags: 5, stream: 3, Block.request + Block.references(1))))
            #expect(server.opened.last?.heads.first?.last?.hasPrefix("x-k: vvv") == true)
        }
    }
}
