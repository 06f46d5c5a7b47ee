// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("Commands as bytes")
struct RedisCommandTests {
    @Test("a command is an array of its words")
    func words() {
        let command = RedisCommand("SET", Array("key".utf8), Array("value".utf8))
        #expect(command.words == ["SET", "key", "value"].map { Array($0.utf8) })
        #expect(command.encoded() == Array("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n".utf8))
    }

    @Test("words are bytes of any value, and may be empty")
    func binaryWords() {
        let all = (0...255).map { UInt8($0) }
        #expect(RedisCommand("ECHO", all).encoded() == Array("*2\r\n$4\r\nECHO\r\n$256\r\n".utf8) + all + [13, 10])
        #expect(RedisCommand("ECHO", []).encoded() == Array("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n".utf8))
        #expect(RedisCommand([[]]).encoded() == Array("*1\r\n$0\r\n\r\n".utf8))
    }

    @Test("the byte count is never too small", arguments: [1, 9, 10, 11, 999, 1_000, 3_000])
    func byteCount(count: Int) {
        let many = RedisCommand([[UInt8]](repeating: [], count: count))
        #expect(many.byteCount >= many.encoded().count)
        let long = RedisCommand("X", [UInt8](repeating: 7, count: count * 1_000))
        let encoded = long.encoded()
        #expect(long.byteCount >= encoded.count)
        #expect(encoded.suffix(3) == [7, 13, 10])
    }
}
