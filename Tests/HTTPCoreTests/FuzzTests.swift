// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

/// Heads and chunk streams from a mostly correct grammar, with a few errors.
struct Corpus {
    var generator: SeededGenerator

    mutating func pick(_ choices: [String]) -> String { choices.randomElement(using: &generator)! }

    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    mutating func requestHead() -> [UInt8] {
        let method = pick(["GET", "GET", "POST", "HEAD", "OPTIONS", "PUT", "CONNECT", "TRACE", "PURGE", "get"])
        let host =
            chance(5) ? pick(["127.1", "", "a..b"]) : pick(["a.example", "A.Example.", "127.0.0.1", "[::1]", "xn--a"])
        let port = chance(5) ? pick([":0", ":99999", ":"]) : pick(["", "", ":80", ":443"])
        let path = pick(["/", "/a/b?c=d", "", "?x", "/%2e%2e/", "//x"])
        let target: String
        switch method {
        case "CONNECT": target = host + pick([":443", ":80", port])
        case "OPTIONS": target = pick(["*", path, "http://\(host)\(port)"])
        default: target = chance(50) ? "\(pick(["http", "https", "HTTP", "ftp"]))://\(host)\(port)\(path)" : path
        }
        let version =
            chance(95)
            ? pick(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"]) : pick(["HTTP/2.0", "HTTP/1.2", "HTTP/1", ""])
        var text = (chance(5) ? "\r\n" : "") + "\(method) \(target) \(version)\r\n"
        if chance(95) { text += "Host: \(chance(90) ? host + (method == "CONNECT" ? "" : port) : "other.example")\r\n" }
        for _ in 0..<Int.random(in: 0...6, using: &generator) {
            text += pick(
                chance(10)
                    ? [
                        "Transfer-Encoding: gzip", "Host: a.example", " folded", "Content_Length: 1", "X\u{E9}: y",
                        "A : b",
                        "Content-Length: 05", "Expect: x",
                    ]
                    : [
                        "Accept: */*", "User-Agent:  x \t", "Connection: keep-alive", "connection: close, X-A",
                        "X-A: b", "X-A:",
                        "Expect: 100-continue", "Upgrade: h2c", "Via: 1.1 x", "Cookie: a=b; c=d", "TE: trailers",
                        "Max-Forwards: 3",
                        "X-Long: " + String(repeating: "y", count: 200), "X-U: \u{E9}",
                    ]
            )
            text += "\r\n"
        }
        if chance(40) {
            text += pick(["Content-Length: 5\r\n", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n"])
        }
        return Array((text + "\r\n").utf8)
    }

    mutating func chunkStream() -> [UInt8] {
        var text = ""
        for _ in 0..<Int.random(in: 0...4, using: &generator) {
            let size = Int.random(in: 1...40, using: &generator)
            text +=
                String(size, radix: 16, uppercase: chance(50))
                + pick(["", "", ";a", ";a=b", ";a=\"b\\\"c\"", " ;a = b"]) + "\r\n"
            text += String(repeating: pick(["x", "\r", "\n", "0"]), count: size) + "\r\n"
        }
        text += pick(["0", "00", "0;x"]) + "\r\n"
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
            text += pick(["X-A: b", "Content-Length: 5", "ETag: \"x\"", "Trailer: y", "X: "]) + "\r\n"
        }
        return Array((text + "\r\n").utf8)
    }

    private static let bytes: [UInt8] =
        Array("\r\n \t:;,=\"\\/@#?*[]%-_.0159afxAFX\0\u{7F}".utf8) + [0x0B, 0x0C, 0x80, 0xFF]

    mutating func mutate(_ input: [UInt8]) -> [UInt8] {
        var output = input
        for _ in 0..<Int.random(in: 0...3, using: &generator) where !output.isEmpty {
            let place = Int.random(in: 0..<output.count, using: &generator)
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: output[place] = Self.bytes.randomElement(using: &generator)!
            case 1: output.insert(Self.bytes.randomElement(using: &generator)!, at: place)
            case 2: output.remove(at: place)
            case 3: output.removeSubrange(place...)
            case 4:
                let end = min(output.count, place + Int.random(in: 1...20, using: &generator))
                output.insert(contentsOf: output[place..<end], at: place)
            default: output[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            }
        }
        return output
    }
}

/// A short run in every test; `make fuzz` runs as long as wanted.
@Suite("Fuzzing with a fixed seed")
struct FuzzTests {
    @Test(
        "a request stream gives the same result in any pieces, and survives rewriting",
        arguments: 1...4
    )
    func requests(seed: UInt64) {
        var corpus = Corpus(generator: SeededGenerator(seed: seed))
        var accepted = 0
        for _ in 0..<500 {
            var bytes = corpus.mutate(corpus.requestHead())
            if corpus.chance(20) { bytes += corpus.mutate(corpus.requestHead()) }
            let limits =
                corpus.chance(10)
                ? HeadLimits(headBytes: 150, targetBytes: 12, methodBytes: 4, fieldCount: 3) : HeadLimits()
            let whole = read(bytes, pieceSize: max(1, bytes.count), limits: limits)
            let single = read(bytes, pieceSize: 1, limits: limits)
            let pieces = read(bytes, pieceSize: Int.random(in: 2...40, using: &corpus.generator), limits: limits)
            guard whole == single, whole == pieces else {
                Issue.record("the divisions differ: \(String(decoding: bytes, as: UTF8.self).debugDescription)")
                return
            }
            for head in whole.heads {
                accepted += 1
                let again = read(head.written, pieceSize: 7)
                guard again.heads.count == 1, again.fault == nil, !again.isUnfinished, again.heads[0].isSame(as: head)
                else {
                    Issue.record("written anew it differs: \(String(decoding: bytes, as: UTF8.self).debugDescription)")
                    return
                }
            }
        }
        // The corpus must exercise both sides.
        #expect(accepted > 50)
        #expect(accepted < 500)
    }

    @Test("an accepted request has a normal host, one framing and no control character")
    func invariants() throws {
        var corpus = Corpus(generator: SeededGenerator(seed: 99))
        for _ in 0..<1500 {
            let bytes = corpus.mutate(corpus.requestHead())
            for head in read(bytes, pieceSize: bytes.count + 1).heads {
                if let host = head.host {
                    #expect(try Host(host.description) == host)
                    #expect(host.description == host.description.lowercased())
                }
                #expect(!(head.fields.contains(.contentLength) && head.fields.contains(.transferEncoding)))
                #expect(head.fields.count(of: .host) <= 1)
                for byte in (head.target + head.rawTarget).utf8 { #expect(byte > 0x20 && byte < 0x7F) }
                for (name, value) in head.fields.list {
                    #expect(!(name + value).utf8.contains { $0 == 13 || $0 == 10 || $0 == 0 })
                }
            }
        }
    }

    @Test(
        "a chunk stream gives the same data in any pieces, and survives rewriting",
        arguments: 1...4
    )
    func chunks(seed: UInt64) {
        var corpus = Corpus(generator: SeededGenerator(seed: seed))
        var accepted = 0
        for _ in 0..<500 {
            let bytes = corpus.mutate(corpus.chunkStream())
            let whole = readChunks(bytes, pieceSize: max(1, bytes.count))
            let single = readChunks(bytes, pieceSize: 1)
            let pieces = readChunks(bytes, pieceSize: Int.random(in: 2...30, using: &corpus.generator))
            // Only the number of bytes after the end depends on the division.
            guard whole.isSame(as: single), whole.isSame(as: pieces) else {
                Issue.record("the divisions differ: \(String(decoding: bytes, as: UTF8.self).debugDescription)")
                return
            }
            guard whole.isEnded else { continue }
            accepted += 1
            let again = readChunks(whole.written, pieceSize: 5)
            guard again.isEnded, again.data == whole.data, again.trailers == whole.trailers else {
                Issue.record("written anew it differs: \(String(decoding: bytes, as: UTF8.self).debugDescription)")
                return
            }
        }
        #expect(accepted > 50)
        #expect(accepted < 500)
    }

    @Test("random bytes crash nothing")
    func noise() {
        var generator = SeededGenerator(seed: 7)
        var head = ResponseHead()
        for _ in 0..<800 {
            let count = Int.random(in: 0..<60, using: &generator)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            _ = readBothWays(bytes)
            _ = readChunksBothWays(bytes)
            _ = HTTPDate.parse(bytes.span, now: 0)
            _ = URLReference(bytes.span)
            _ = IPAddress(parsing: bytes.span)
            _ = try? Host(normalizing: bytes.span)
            var parser = ResponseHeadParser()
            _ = parser.consume(line: bytes.span, answering: .get, into: &head)
            let status = Array("HTTP/1.1 200 OK\r\n".utf8)
            parser.reset()
            _ = parser.consume(line: status.span, answering: .get, into: &head)
            _ = parser.consume(line: (bytes + [13, 10]).span, answering: .get, into: &head)
        }
    }
}
