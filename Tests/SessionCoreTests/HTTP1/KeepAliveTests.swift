// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import SessionCore

@Suite("Connections that carry another HTTP/1.1 request (RFC 9112, section 9.3)")
struct KeepAliveTests {
    @Test("rule 49: informational heads come before the final one, which stands alone")
    func informational() throws {
        var reader = HTTP1ResponseReader(limits: HeadLimits())
        reader.reset(answering: .get)
        let text =
            "HTTP/1.1 100 Continue\r\nA: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nB: 2\r\n\r\nHTTP/1.1 204 No Content\r\nC: 3\r\n\r\n"
        let bytes = Array(text.utf8)
        var position = 0
        var seen: [Int] = []
        var isFinal = false
        while !isFinal {
            switch reader.next(bytes.span.extracting(position..<bytes.count)) {
            case .informational(let consumed):
                position += consumed
                seen.append(reader.head.status)
            case .head(let consumed):
                position += consumed
                isFinal = true
            default: throw TimedOut("a head")
            }
        }
        check(seen == [100, 103] && reader.head.status == 204 && position == bytes.count)
        check(reader.head.fields.list.map(\.name) == ["C"])
    }

    @Test(
        "the response's version and options decide, also those of 1xx heads",
        arguments: [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
            ("HTTP/1.1 204 No Content\r\n\r\n", true),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", true),
            ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", true),
            ("HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false),
            ("HTTP/1.0 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", false),
        ]
    )
    func keeps(text: String, expected: Bool) {
        var reader = HTTP1ResponseReader(limits: HeadLimits())
        // The second round shows that nothing of the first is left.
        for _ in 0..<2 {
            reader.reset(answering: .get)
            let bytes = Array(text.utf8)
            var position = 0
            steps: while true {
                switch reader.next(bytes.span.extracting(position..<bytes.count)) {
                case .informational(let consumed), .head(let consumed), .data(_, let consumed): position += consumed
                case .needMore, .end: break steps
                case .failed(let why):
                    Issue.record("\(why)")
                    break steps
                }
            }
            check(reader.keepsConnection == expected)
        }
    }
}
