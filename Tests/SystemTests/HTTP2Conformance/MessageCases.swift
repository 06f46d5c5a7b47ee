// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// Requests and their fields (h2spec's groups "http2", section 8, and "hpack": 26 cases).
enum MessageCases {
    private typealias Raw = RawFrames

    private static func fails(_ codes: HTTP2Code...) -> ConformanceCase.Step { .expect(.connectionError(codes)) }
    private static let isMalformed: ConformanceCase.Step = .expect(.streamError([.protocolError], stream: 1))

    private static func malformed(_ name: String, _ block: [UInt8]) -> ConformanceCase {
        ConformanceCase(name, .send(Raw.headers(1, block)), isMalformed)
    }

    static let fields: [ConformanceCase] = [
        ConformanceCase(
            "8.1 a second HEADERS without END_STREAM",
            .send(
                Raw.open(1) + Raw.data(1, Raw.test, ends: false)
                    + Raw.headers(1, Raw.field("x-test", "ok"), flags: Raw.endHeaders)
            ),
            isMalformed
        ),
        malformed("8.1.2 a name in upper case", Raw.get + Raw.field("X-TEST", "ok")),
        malformed("8.1.2.1 an unknown pseudo-header field", Raw.get + Raw.field(":test", "ok")),
        malformed("8.1.2.1 a pseudo-header field of responses", Raw.get + Raw.field(":status", "200")),
        ConformanceCase(
            "8.1.2.1 a pseudo-header field in trailers",
            .send(
                Raw.open(1) + Raw.data(1, Raw.test, ends: false) + Raw.headers(1, Raw.field(":method", "200"))
            ),
            isMalformed
        ),
        malformed(
            "8.1.2.1 a pseudo-header field behind a field",
            [0x82, 0x86] + Raw.authority + Raw.field("x-test", "ok") + [0x84]
        ),
        malformed("8.1.2.2 a field of the connection", Raw.get + Raw.field("connection", "keep-alive")),
        malformed("8.1.2.2 TE other than trailers", Raw.get + Raw.field("te", "trailers, deflate;q=0.5")),
        malformed("8.1.2.3 :path empty", [0x82, 0x86] + Raw.field(":path", "") + Raw.authority),
        malformed("8.1.2.3 no :method", [0x86, 0x84] + Raw.authority),
        malformed("8.1.2.3 no :scheme", [0x82, 0x84] + Raw.authority),
        malformed("8.1.2.3 no :path", [0x82, 0x86] + Raw.authority),
        malformed("8.1.2.3 :method twice", [0x82] + Raw.get),
        malformed("8.1.2.3 :scheme twice", [0x86] + Raw.get),
        malformed("8.1.2.3 :path twice", [0x84] + Raw.get),
        ConformanceCase(
            "8.1.2.6 Content-Length is not that of the DATA frame",
            .send(
                Raw.headers(1, Raw.post + Raw.field("content-length", "1"), flags: Raw.endHeaders)
                    + Raw.data(1, Raw.test)
            ),
            isMalformed
        ),
        ConformanceCase(
            "8.1.2.6 Content-Length is not that of the DATA frames",
            .send(
                Raw.headers(1, Raw.post + Raw.field("content-length", "1"), flags: Raw.endHeaders)
                    + Raw.data(1, Raw.test, ends: false) + Raw.data(1, Raw.test)
            ),
            isMalformed
        ),
        ConformanceCase(
            "8.2 PUSH_PROMISE of a client",
            .send(Raw.frame(type: 5, flags: Raw.endHeaders, stream: 1, Raw.number(3) + Raw.get)),
            fails(.protocolError)
        ),
    ]

    static let compression: [ConformanceCase] = [
        invalid("2.3.3 an index that there is not", Raw.get + [0xC6]),
        invalid("2.3.3 a literal with an index that there is not", Raw.get + [0x7F, 0x07, 0x85] + [1, 2, 3, 4, 5]),
        invalid("4.2 an update of the table's size at the end of a block", Raw.get + [0x3F, 0xE1, 0x1F]),
        invalid("5.2 padding of more than 7 bits", Raw.get + name + [0x84, 0x49, 0x50, 0x9F, 0xFF]),
        invalid("5.2 padding with zeros", Raw.get + name + [0x83, 0x49, 0x50, 0x90]),
        invalid("5.2 the EOS symbol", Raw.get + name + [0x87, 0xFF, 0xFF, 0xFF, 0xFD, 0x25, 0x42, 0x7F]),
        invalid("6.1 index 0", Raw.get + [0x80]),
        invalid("6.3 a table above the announced size", [0x3F, 0xE2, 0x1F] + Raw.get),
    ]

    /// "x-test", Huffman coded, as the name of a literal without indexing.
    private static let name: [UInt8] = [0x00, 0x85, 0xF2, 0xB2, 0x4A, 0x84, 0xFF]

    private static func invalid(_ name: String, _ block: [UInt8]) -> ConformanceCase {
        ConformanceCase(name, .send(Raw.headers(1, block)), fails(.compressionError))
    }
}
