// SPDX-License-Identifier: Apache-2.0
import Testing

@testable import SharedCaching

@Suite("The first word of an error is all that is repeated of it")
struct RedisReplyTests {
    @Test(
        "a word of up to twenty letters is taken, ERR stands for others",
        arguments: [
            ("MOVED 3999 127.0.0.1:6381", "MOVED"), ("LOADING", "LOADING"), ("ERR unknown", "ERR"),
            ("ABCDEFGHIJKLMNOPQRST x", "ABCDEFGHIJKLMNOPQRST"), ("ABCDEFGHIJKLMNOPQRSTU x", "ERR"), ("", "ERR"),
            (" NOAUTH", "ERR"), ("noauth x", "ERR"), ("NOAUTH: x", "ERR"), ("pa55word", "ERR"), ("WRONG\0 x", "ERR"),
            ("WRONGPASS hunter2", "WRONGPASS"), ("ÄRGER x", "ERR"),
        ]
    )
    func words(text: String, word: String) {
        #expect(RedisReply.error(Array(text.utf8)).errorWord == word)
    }

    @Test("other replies have no such word")
    func others() {
        for reply in [
            RedisReply.status(Array("MOVED".utf8)), .bytes(Array("MOVED".utf8)), .integer(1), .null, .array([]),
        ] {
            #expect(reply.errorWord == nil)
        }
    }
}
