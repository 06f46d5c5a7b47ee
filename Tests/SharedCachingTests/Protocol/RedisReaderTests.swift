// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@testable import SharedCaching

@Suite("Replies are read within bounds, and in pieces of any size")
struct RedisReaderTests {
    private static func status(_ text: String) -> RedisReply { .status(Array(text.utf8)) }
    private static func bulk(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }

    /// Reads replies until the bytes are used up, in pieces of a size.
    private static func read(
        _ bytes: [UInt8],
        by size: Int = .max,
        _ reader: RedisReader = RedisReader()
    ) throws(RedisFailure) -> [RedisReply] {
        var replies: [RedisReply] = []
        var start = 0
        while start < bytes.count {
            let end = bytes.count - start < size ? bytes.count : start + size
            var position = start
            let span = bytes.span.extracting(..<end)
            while let reply = try reader.next(span, from: &position) { replies.append(reply) }
            start = end
        }
        return replies
    }

    /// What is wrong with bytes; nil when nothing is.
    private static func fault(_ text: String, by size: Int = .max, bulkAtMost: Int = 1 << 20) -> String? {
        do throws(RedisFailure) {
            _ = try read(Array(text.utf8), by: size, RedisReader(bulkAtMost: bulkAtMost))
            return nil
        } catch {
            guard case .malformed(let fault) = error else { return "another failure" }
            return fault
        }
    }

    private static let wire = """
        +OK\r\n-ERR no\r\n:0\r\n:-9223372036854775808\r\n:9223372036854775807\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n\
        *3\r\n$1\r\na\r\n$-1\r\n*2\r\n:1\r\n+\r\n*1\r\n*1\r\n*2\r\n:1\r\n*0\r\n$4\r\n\r\n\r\n\r\n
        """
    private static let values: [RedisReply] = [
        status("OK"), .error(Array("ERR no".utf8)), .integer(0), .integer(.min), .integer(.max), bulk("hello"),
        bulk(""), .null,
        .null, .array([]), .array([bulk("a"), .null, .array([.integer(1), status("")])]),
        .array([.array([.array([.integer(1), .array([])])])]), bulk("\r\n\r\n"),
    ]

    @Test("each kind of reply, in pieces of each size", arguments: [1, 2, 3, 5, 7, 11, 64, Int.max])
    func kinds(size: Int) throws {
        let reader = RedisReader()
        #expect(try Self.read(Array(Self.wire.utf8), by: size, reader) == Self.values)
        #expect(reader.isAtRest)
    }

    @Test("a reader with a part of a reply is not at rest")
    func rest() throws {
        #expect(RedisReader().isAtRest)
        let whole = Array("*2\r\n$1\r\na\r\n:1\r\n".utf8)
        for count in 1..<whole.count {
            let reader = RedisReader()
            #expect(try Self.read(Array(whole[..<count]), reader).isEmpty)
            #expect(!reader.isAtRest, "\(count) bytes")
            #expect(try Self.read(Array(whole[count...]), reader).count == 1)
            #expect(reader.isAtRest)
        }
    }

    @Test("replies of random values and pieces are the same ones")
    func randomReplies() throws {
        var random = SeededGenerator(seed: 43)
        func value(_ depth: Int) -> (RedisReply, [UInt8]) {
            switch Int.random(in: 0..<(depth < 4 ? 7 : 6), using: &random) {
            case 0: return (.status([65]), Array("+A\r\n".utf8))
            case 1: return (.error([66]), Array("-B\r\n".utf8))
            case 2:
                let number = Int.random(in: .min ... .max, using: &random)
                return (.integer(number), Array(":\(number)\r\n".utf8))
            case 3: return (.null, Array("$-1\r\n".utf8))
            case 4, 5:
                let count = Int.random(in: 0..<50_000, using: &random)
                let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: count), count: count)
                return (.bytes(bytes), Array("$\(count)\r\n".utf8) + bytes + [13, 10])
            default:
                let parts = (0..<Int.random(in: 0..<6, using: &random)).map { _ in value(depth + 1) }
                return (.array(parts.map(\.0)), Array("*\(parts.count)\r\n".utf8) + parts.flatMap(\.1))
            }
        }
        for _ in 0..<20 {
            let parts = (0..<20).map { _ in value(0) }
            let size = Int.random(in: 1..<100_000, using: &random)
            #expect(try Self.read(parts.flatMap(\.1), by: size) == parts.map(\.0))
        }
    }

    @Test("a hundred thousand small replies come one by one")
    func manyReplies() throws {
        let bytes = (0..<100_000).flatMap { Array(":\($0)\r\n".utf8) }
        let reader = RedisReader()
        #expect(try Self.read(bytes, by: 64 << 10, reader) == (0..<100_000).map { .integer($0) })
        #expect(reader.isAtRest)
    }

    @Test(
        "a header that announces too much is refused before its values come",
        arguments: [
            ("*1025\r\n", "an array of more than 1024 elements"),
            ("*100000\r\n", "an array of more than 1024 elements"),
            ("*1000000000\r\n", "an array of more than 1024 elements"),
            ("*2147483647\r\n", "an array of more than 1024 elements"),
            ("$1048577\r\n", "a value of more than 1048576 bytes"),
            ("$1000000000\r\n", "a value of more than 1048576 bytes"),
            ("$9223372036854775807\r\n", "a value of more than 1048576 bytes"),
            ("$4294967296\r\n", "a value of more than 1048576 bytes"),
            ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "an array within more than 3 others"),
            ("*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n", "an array within more than 3 others"),
            (
                "*3\r\n*1024\r\n" + String(repeating: ":1\r\n", count: 1024) + "*1024\r\n",
                "a reply of more than 2048 values"
            ),
        ]
    )
    func hugeHeaders(text: String, fault: String) {
        for size in [1, 3, Int.max] { #expect(Self.fault(text, by: size) == fault) }
    }

    @Test(
        "bytes that are no reply are refused, and not repeated",
        arguments: [
            "secret\r\n", "\r\n", " +OK\r\n", "*x\r\n", "*\r\n", "*-2\r\n", "* 1\r\n", "*01\r\n", "$-2\r\n", "$x\r\n",
            "$\r\n", "$+1\r\n",
            "$007\r\n", ":\r\n", ":1x\r\n", ":9223372036854775808\r\n", "*2147483648\r\n", "*9223372036854775808\r\n",
            "$18446744073709551616\r\n", ",1.5\r\n", "#t\r\n", "_\r\n", "%1\r\n+a\r\n+b\r\n", "~1\r\n+a\r\n",
            ">1\r\n+a\r\n",
            "(1\r\n", "=7\r\ntxt:abc\r\n", "|1\r\n+a\r\n+b\r\n", "!3\r\nabc\r\n",
        ]
    )
    func noReplies(text: String) throws {
        for size in [1, Int.max] {
            let fault = try #require(Self.fault(text, by: size))
            #expect(["bytes that are no reply of RESP2", "an array of more than 1024 elements"].contains(fault))
        }
    }

    @Test(
        "a value is as long as its header says",
        arguments: ["$3\r\nabcd\r\n", "$3\r\nabc\r+", "$0\r\na\r\n", "$3\r\nabc\n\r"]
    )
    func wrongLength(text: String) {
        for size in [1, Int.max] { #expect(Self.fault(text, by: size) == "a value that is longer than its length") }
    }

    @Test(
        "a line without an end is refused",
        arguments: [
            ("+", "a", "a line without an end"), ("-", "a", "a line without an end"),
            (":", "1", "a number without an end"),
            ("*", "1", "a number without an end"), ("$", "1", "a length without an end"),
            ("$1\n", "1", "a length without an end"),
            ("+", "\r", "a line without an end"), ("+", "\n", "a line without an end"),
        ]
    )
    func endlessLines(start: String, repeated: String, fault: String) {
        let text = start + String(repeating: repeated, count: 5_000)
        for size in [1, 100, Int.max] { #expect(Self.fault(text, by: size) == fault) }
    }

    @Test("a line is at most 4096 bytes long, however it comes")
    func longLines() throws {
        let longest = String(repeating: "a", count: 4_096)
        for size in [1, 4_096, Int.max] {
            #expect(try Self.read(Array("+\(longest)\r\n".utf8), by: size) == [Self.status(longest)])
            #expect(Self.fault("+\(longest)a\r\n", by: size) != nil)
        }
    }

    @Test("a value has the length of the bound, and no more")
    func longestValue() throws {
        let text = String(repeating: "v", count: 1_000)
        for size in [1, 512, Int.max] {
            let reader = RedisReader(bulkAtMost: 1_000)
            #expect(try Self.read(Array("$1000\r\n\(text)\r\n".utf8), by: size, reader) == [Self.bulk(text)])
            #expect(
                Self.fault("$1001\r\n\(text)v\r\n", by: size, bulkAtMost: 1_000) == "a value of more than 1000 bytes"
            )
        }
        let largest = [UInt8](repeating: 9, count: 1 << 20)
        let reader = RedisReader()
        #expect(
            try Self.read(Array("$1048576\r\n".utf8) + largest + [13, 10], by: 64 << 10, reader) == [.bytes(largest)]
        )
        #expect(reader.isAtRest)
        #expect(try Self.read(Array("+OK\r\n".utf8), reader) == [Self.status("OK")])
    }

    @Test("a reply is at most 4 MB in all")
    func wholeReply() throws {
        let value = Array("$1048576\r\n".utf8) + [UInt8](repeating: 1, count: 1 << 20) + [13, 10]
        let reader = RedisReader()
        #expect(try Self.read(Array("*5\r\n".utf8), reader).isEmpty)
        for _ in 0..<4 { #expect(try Self.read(value, by: 64 << 10, reader).isEmpty) }
        #expect(throws: RedisFailure.malformed("a reply of more than 4194304 bytes")) {
            try Self.read(Array("$1048576\r\n".utf8), reader)
        }
    }

    @Test("as many values as the bounds allow are a reply")
    func mostValues() throws {
        let text = "*2\r\n" + String(repeating: "*1022\r\n" + String(repeating: "$-1\r\n", count: 1_022), count: 2)
        let half = RedisReply.array([RedisReply](repeating: .null, count: 1_022))
        for size in [1, Int.max] { #expect(try Self.read(Array(text.utf8), by: size) == [.array([half, half])]) }
    }

    @Test("after an error nothing is read any more")
    func afterError() {
        let reader = RedisReader()
        for _ in 0..<3 {
            #expect(throws: RedisFailure.malformed("an array of more than 1024 elements")) {
                try Self.read(Array("*2000\r\n+OK\r\n".utf8), reader)
            }
        }
    }

    @Test("a reader that ends within a reply gives its memory back")
    func endsWithin() throws {
        for count in 1..<Self.wire.utf8.count {
            _ = try Self.read(Array(Self.wire.utf8.prefix(count)))
        }
    }
}
