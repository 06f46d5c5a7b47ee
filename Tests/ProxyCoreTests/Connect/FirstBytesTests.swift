// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("The first bytes of a redirected client")
struct FirstBytesTests {
    /// The outcome, which has to be the same in whatever pieces the bytes come.
    private func read(_ bytes: [UInt8], sourceLocation: SourceLocation = #_sourceLocation) -> FirstBytes.Outcome {
        let outcomes = [max(1, bytes.count), 1, 7].map { size in
            var first = FirstBytes()
            var outcome = FirstBytes.Outcome.needMore
            for start in stride(from: 0, to: bytes.count, by: size) {
                outcome = first.consume(bytes.span.extracting(start..<min(start + size, bytes.count)))
            }
            return outcome
        }
        #expect(outcomes.allSatisfy { $0 == outcomes[0] }, "\(outcomes)", sourceLocation: sourceLocation)
        return outcomes[0]
    }

    @Test(
        "a method and a space are HTTP",
        arguments: [
            "GET / HTTP/1.1\r\n", "M-SEARCH *", "X_1 ", "\r\nGET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\n",
        ]
    )
    func http(text: String) { #expect(read(Array(text.utf8)) == .http) }

    @Test("a part of a method is awaited", arguments: ["", "G", "OPTIONS", "\r\n"])
    func partOfMethod(text: String) { #expect(read(Array(text.utf8)) == .needMore) }

    @Test("a whole hello is recognised as TLS, with a server name or without")
    func hello() throws {
        let bytes = ClientHelloBytes("api.example.com").bytes
        #expect(read(bytes) == .tls(ClientHello(serverName: try Host("api.example.com"))))
        #expect(read(Array(bytes.dropLast())) == .needMore)
        #expect(read(bytes + [23, 3, 3, 0, 1, 0]) == .tls(ClientHello(serverName: try Host("api.example.com"))))
        var nameless = ClientHelloBytes("api.example.com")
        nameless.serverNames = []
        #expect(read(nameless.bytes) == .tls(ClientHello()))
    }

    @Test("a broken hello, and one above 16 KB, are told from other protocols")
    func brokenHello() {
        #expect(read([22, 2]) == .neither)
        let other = read([22, 3, 1, 0, 4, 2, 0, 0, 0])
        #expect(other == .brokenTLS(.malformed("the first message is not a client hello")))
        var large = ClientHelloBytes("api.example.com")
        large.extensions.append((0x1234, [UInt8](repeating: 0, count: 17 << 10)))
        #expect(read(large.bytes) == .brokenTLS(.tooLarge(limit: 16 << 10)))
        large.extensions = [(0x1234, [UInt8](repeating: 0, count: 60 << 10))]
        #expect(read(large.bytes) == .brokenTLS(.tooLarge(limit: 16 << 10)))
    }

    @Test("a hello counts as held as long as it is not whole")
    func heldBytes() {
        let bytes = ClientHelloBytes("api.example.com").bytes
        var first = FirstBytes()
        _ = first.consume(bytes.span.extracting(..<(bytes.count - 1)))
        #expect(first.heldBytes == bytes.count - 6)
        _ = first.consume(bytes.span.extracting((bytes.count - 1)...))
        #expect(first.heldBytes == 0)
    }

    @Test(
        "anything else is neither",
        arguments: [
            "SSH-2.0-OpenSSH_9.2\r\n", "\u{04}\u{01}", "\u{05}\u{01}\u{00}", "HELO\r\n", "*1\r\n$4\r\nPING\r\n",
            "{\"id\":1}",
            "\r\n\r\n\r\n", " GET /", "\u{15}\u{03}", "\u{00}", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA ",
        ]
    )
    func neither(text: String) { #expect(read(Array(text.utf8)) == .neither) }
}
