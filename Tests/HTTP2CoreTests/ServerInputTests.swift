// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import Testing

@testable import HTTP2Core

@Suite("What a server looks at before nghttp2 does")
struct ServerInputTests {
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(4, 0, 0)
    private static let get: [UInt8] = [0x82, 0x86, 0x84, 0x01] + FieldBlockFilterTests.text("h.example")

    private static func frame(_ type: UInt8, _ flags: UInt8, _ stream: Int32, _ payload: [UInt8] = []) -> [UInt8] {
        var bytes: [UInt8] = []
        FrameHead(length: payload.count, type: type, flags: flags, stream: stream).write(to: &bytes)
        return bytes + payload
    }

    /// HEADERS and CONTINUATION frames of 16 KB.
    private static func frames(_ stream: Int32, _ block: [UInt8]) -> [UInt8] {
        var frames: [UInt8] = []
        var rest = block[...]
        var type: UInt8 = 1
        repeat {
            let piece = Array(rest.prefix(1 << 14))
            rest = rest.dropFirst(1 << 14)
            frames += frame(type, (type == 1 ? 1 : 0) | (rest.isEmpty ? 4 : 0), stream, piece)
            type = 9
        } while !rest.isEmpty
        return frames
    }

    /// The codes of GOAWAY and RST_STREAM frames, with the stream of each.
    private func errors(_ bytes: [UInt8]) -> [String] {
        var found: [String] = []
        var position = 0
        while position + 9 <= bytes.count {
            let head = FrameHead(bytes[position..<(position + 9)].span)
            let payload = bytes[(position + 9)...].prefix(head.length)
            if head.kind == .goAway { found.append("goAway \(payload.dropFirst(7).first ?? 255)") }
            if head.kind == .resetStream { found.append("reset \(head.stream) \(payload.dropFirst(3).first ?? 255)") }
            position += 9 + head.length
        }
        return found
    }

    @Test("frames are cut the same however the bytes come")
    func pieces() throws {
        let bytes =
            Self.preface + Self.frame(1, 4, 1, [0x83] + Self.get.dropFirst()) + Self.frame(0, 0, 1, Array("ab".utf8))
            + Self.frame(0, 1, 1, Array("cd".utf8))
            + Self.frames(
                3,
                Self.get + [0x00] + FieldBlockFilterTests.text("x")
                    + FieldBlockFilterTests.text(40_000)
            )
        for size in [1, 7, 9, 10, 1 << 20] {
            let server = Peer(.server)
            var position = 0
            while position < bytes.count {
                #expect(server.give(Array(bytes[position...].prefix(size))))
                position += size
            }
            #expect(server.opened.map { String(decoding: $0.body, as: UTF8.self) } == ["abcd", ""])
            #expect(server.opened.allSatisfy { $0.ended && $0.heads.count == 1 })
        }
    }

    @Test("a field of 70 KB costs its request alone, and leaves the table right")
    func largeField() throws {
        let server = Peer(.server)
        let kept: [UInt8] = [0x40] + FieldBlockFilterTests.text("x-kept") + FieldBlockFilterTests.text("1")
        #expect(server.give(Self.preface + Self.frames(1, Self.get + kept)))
        // Not indexed: 62 is still x-kept.
        let plain: [UInt8] = [0x00] + FieldBlockFilterTests.text("x-large") + FieldBlockFilterTests.text(70_000)
        #expect(server.give(Self.frames(3, Self.get + plain)))
        #expect(server.give(Self.frames(5, Self.get + [0xBE])))
        // Indexed: the table is empty, and the next entry is 62.
        let indexed: [UInt8] = [0x40] + FieldBlockFilterTests.text("x-large") + FieldBlockFilterTests.text(70_000)
        let next: [UInt8] = [0x40] + FieldBlockFilterTests.text("x-next") + FieldBlockFilterTests.text("2")
        #expect(server.give(Self.frames(7, Self.get + indexed + next)))
        #expect(server.give(Self.frames(9, Self.get + [0xBE])))
        #expect(server.opened.map(\.lacksField) == [false, true, false, true, false])
        #expect(server.opened[2].heads[0].last == "x-kept: 1")
        #expect(server.opened[4].heads[0].last == "x-next: 2")
        #expect(errors(server.take()) == [])
    }

    @Test("a frame may end within a field of 70 KB: the table stays right")
    func largeFieldInPieces() throws {
        // A string that is kept, with a length of several bytes, and one that is too long.
        var block = Self.get
        block += [0x40] + FieldBlockFilterTests.text("x-kept")
        block += FieldBlockFilterTests.text(300)
        block += [0x40] + FieldBlockFilterTests.text("x-large")
        block += FieldBlockFilterTests.text(70_000)
        let next: [UInt8] = [0x40] + FieldBlockFilterTests.text("x-next") + FieldBlockFilterTests.text("2")
        block += next
        for cut in 1..<(block.count - 70_000 - next.count + 2) {
            let server = Peer(.server)
            var bytes = Self.preface + Self.frame(1, 1, 1, Array(block[..<cut]))
            var rest = block[cut...]
            while !rest.isEmpty {
                let piece = Array(rest.prefix(1 << 14))
                rest = rest.dropFirst(1 << 14)
                bytes += Self.frame(9, rest.isEmpty ? 4 : 0, 1, piece)
            }
            #expect(server.give(bytes + Self.frames(3, Self.get + [0xBE])))
            #expect(server.opened.map(\.lacksField) == [true, false], "\(cut)")
            #expect(server.opened.last?.heads.first?.last == "x-next: 2", "\(cut)")
            #expect(errors(server.take()) == [], "\(cut)")
        }
    }

    @Test("a field block that ends within a field of 70 KB is unreadable")
    func cutField() {
        let server = Peer(.server)
        let cut: [UInt8] =
            [0x00] + FieldBlockFilterTests.text("x-large") + FieldBlockFilterTests.text(70_000).dropLast()
        #expect(server.give(Self.preface + Self.frames(1, Self.get + cut)))
        #expect(errors(server.take()) == ["goAway 9"])
    }

    @Test("a stream above the limit is refused, and those below it go on")
    func tooMany() {
        let server = Peer(.server, HTTP2Settings(concurrentStreams: 2))
        #expect(server.give(Self.preface))
        let said = server.take()
        // INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE, MAX_CONCURRENT_STREAMS.
        #expect(said.prefix(4) == [0, 0, 18, 4] && said[21..<27] == [0, 3, 0, 0, 0, 2])
        // Before the client has acknowledged the limit, and after.
        #expect(
            server.give(Self.frame(1, 5, 1, Self.get) + Self.frame(1, 5, 3, Self.get) + Self.frame(1, 5, 5, Self.get))
        )
        #expect(errors(server.take()) == ["reset 5 7"])
        #expect(server.give(Self.frame(4, 1, 0) + Self.frame(1, 5, 7, Self.get)))
        #expect(errors(server.take()) == ["reset 7 7"])
        #expect(server.opened.count == 2)
        #expect(server.session.streams.count == 2)
    }

    @Test("frames on a reset stream are dropped, and count")
    func late() throws {
        let server = Peer(.server)
        #expect(server.give(Self.preface + Self.frame(1, 4, 1, [0x83] + Self.get.dropFirst())))
        server.session.reset(try #require(server.opened.first), .cancel)
        #expect(errors(server.take()) == ["reset 1 8"])
        let before = server.burden
        #expect(server.give(Self.frame(0, 0, 1, Array("late".utf8)) + Self.frame(1, 5, 1, [0x00, 1, 0x78, 1, 0x79])))
        #expect(server.burden > before)
        #expect(errors(server.take()) == [])
        #expect(server.opened.count == 1 && server.opened[0].body.isEmpty)
    }

    @Test("frames that advance nothing count, and those that do cost nothing")
    func burden() {
        func weight(_ frames: [UInt8], settings: HTTP2Settings = HTTP2Settings()) -> Double {
            let server = Peer(.server, settings)
            _ = server.give(Self.preface + Self.frame(1, 4, 1, [0x83] + Self.get.dropFirst()))
            let before = server.burden
            _ = server.give(frames)
            return server.burden - before
        }
        let body = [UInt8](repeating: 0, count: 100)
        #expect(weight(Self.frame(0, 0, 1, body) + Self.frame(0, 1, 1)) == 0)
        #expect(weight(Self.frame(1, 5, 3, Self.get)) == 0)
        #expect(weight(Self.frame(0, 0, 1)) == 1)
        // Padding does not count as data.
        #expect(weight(Self.frame(0, 8, 1, [99] + [UInt8](repeating: 0, count: 99))) == 1)
        #expect(weight(Self.frame(0, 0, 1, [1])) == 0.125)
        #expect(weight(Self.frame(0xBB, 0, 0, body)) == 1)
        #expect(weight(Self.frame(2, 0, 1, [0, 0, 0, 0, 1])) == 1)
        #expect(weight(Self.frame(6, 0, 0, [UInt8](repeating: 0, count: 8))) == 1)
        #expect(weight(Self.frame(1, 1, 3, Self.get) + Self.frame(9, 0, 3) + Self.frame(9, 4, 3)) == 2)
        // 100 bytes more than the section may have, in four fields, and 1 for the section.
        let few = HTTP2Settings(headerListBytes: 200)
        let field: [UInt8] = [0x00] + FieldBlockFilterTests.text("x") + FieldBlockFilterTests.text(4)
        let fields = field + field + field + field
        let size = weight(Self.frame(1, 5, 3, Self.get + fields), settings: few)
        #expect(size > 1 && size < 1.2)
    }
}
