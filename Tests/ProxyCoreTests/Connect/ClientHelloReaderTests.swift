// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("A TLS client's hello")
struct ClientHelloReaderTests {
    /// The outcome, which has to be the same in whatever pieces the bytes come.
    private func read(_ bytes: [UInt8], sourceLocation: SourceLocation = #_sourceLocation) -> ClientHelloReader.Outcome
    {
        var outcomes: [ClientHelloReader.Outcome] = []
        for size in [max(1, bytes.count), 1, 7] {
            var reader = ClientHelloReader()
            var outcome = ClientHelloReader.Outcome.needMore
            for start in stride(from: 0, to: bytes.count, by: size) {
                outcome = reader.consume(bytes.span.extracting(start..<min(start + size, bytes.count)))
            }
            outcomes.append(outcome)
        }
        #expect(outcomes.allSatisfy { $0 == outcomes[0] }, "\(outcomes)", sourceLocation: sourceLocation)
        return outcomes[0]
    }

    private func read(_ change: (inout ClientHelloBytes) -> Void) -> ClientHelloReader.Outcome {
        var hello = ClientHelloBytes("api.example.com")
        change(&hello)
        return read(hello.bytes)
    }

    private func isMalformed(_ outcome: ClientHelloReader.Outcome, _ word: String) -> Bool {
        if case .failed(.malformed(let what)) = outcome { what.contains(word) } else { false }
    }

    @Test("the server's name comes out in its normal form")
    func name() throws {
        #expect(read { _ in } == .complete(ClientHello(serverName: try Host("api.example.com"))))
        #expect(
            read { $0.serverNames = ["API.Example.COM."] }
                == .complete(ClientHello(serverName: try Host("api.example.com")))
        )
        #expect(read { $0.serverNames = [] } == .complete(ClientHello()))
    }

    @Test("a hello without extensions is one of TLS 1.2, without a name")
    func noExtensions() {
        #expect(read { ($0.serverNames, $0.extensions) = ([], []) } == .complete(ClientHello()))
    }

    @Test("a hello over many records is one hello", arguments: [1, 2, 5, 64])
    func fragments(size: Int) throws {
        #expect(read { $0.recordSize = size } == .complete(ClientHello(serverName: try Host("api.example.com"))))
    }

    @Test("records after the hello do not belong to it")
    func earlyData() throws {
        let hello = ClientHelloBytes("api.example.com").bytes
        #expect(read(hello + [23, 3, 3, 0, 1, 0]) == .complete(ClientHello(serverName: try Host("api.example.com"))))
    }

    @Test("an encrypted inner hello is reported; the outer name counts")
    func encryptedHello() throws {
        let outcome = read { $0.extensions.append((0xFE0D, [0, 1, 2])) }
        #expect(outcome == .complete(ClientHello(serverName: try Host("api.example.com"), hasEncryptedHello: true)))
    }

    @Test("an incomplete hello is awaited")
    func unfinished() {
        let bytes = ClientHelloBytes("api.example.com").bytes
        #expect(read(Array(bytes.dropLast())) == .needMore)
        #expect(read([]) == .needMore)
    }

    @Test(
        "other protocols are recognised at their first byte",
        arguments: ["GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\u{16}A"]
    )
    func notTLS(text: String) {
        #expect(read(Array(text.utf8)) == .failed(.notTLS))
    }

    @Test("an alert or application data before it is no hello", arguments: [UInt8(20), 21, 23, 24])
    func otherRecords(type: UInt8) {
        #expect(read([type, 3, 3, 0, 1, 1]) == .failed(.notTLS))
    }

    @Test("ambiguous server names of every kind are refused")
    func ambiguousNames() {
        #expect(isMalformed(read { $0.serverNames = ["a.example", "b.example"] }, "more than one"))
        #expect(isMalformed(read { $0.extensions.append((0, [0, 4, 0, 0, 1, 0x61])) }, "twice"))
        #expect(isMalformed(read { $0.serverNames = ["127.0.0.1"] }, "an IP address"))
        #expect(isMalformed(read { $0.serverNames = ["[::1]"] }, "an IP address"))
        #expect(
            isMalformed(read { ($0.serverNames, $0.extensions) = ([], [(0, [0, 4, 1, 0, 1, 0x61])]) }, "no host's")
        )
        #expect(isMalformed(read { ($0.serverNames, $0.extensions) = ([], [(0, [0, 0])]) }, "too early"))
    }

    @Test("an invalid name is refused", arguments: ["", "a b", "a\u{0}.example", "..", "2130706433", "a/b"])
    func badNames(name: String) {
        #expect(isMalformed(read { $0.serverNames = [name] }, "server name"))
    }

    @Test("lengths that do not add up are refused")
    func lengths() {
        #expect(isMalformed(read { $0.tail = [0] }, "behind the extensions"))
        #expect(isMalformed(read { $0.cipherSuites = [0x13] }, "cipher suites"))
        #expect(isMalformed(read { $0.cipherSuites = [] }, "cipher suites"))
        #expect(isMalformed(read { $0.sessionID = [UInt8](repeating: 0, count: 33) }, "session ID"))
        #expect(isMalformed(read([22, 3, 1, 0, 0, 1]), "record of 0"))
        #expect(isMalformed(read([22, 3, 1, 0x40, 1, 1]), "record of 16385"))
        #expect(isMalformed(read([22, 3, 1, 0, 4, 2, 0, 0, 0]), "not a client hello"))
        #expect(isMalformed(read([22, 3, 1, 0, 9, 1, 0, 0, 2, 3, 3, 1, 1, 1]), "more than the hello"))
        #expect(isMalformed(read([22, 3, 1, 0, 2, 1, 0, 21, 3, 3, 0, 1, 0]), "another record"))
    }

    @Test("a hello beyond the limit is refused before it is complete")
    func tooLarge() {
        #expect(read([22, 3, 1, 0, 4, 1, 2, 0, 0]) == .failed(.tooLarge(limit: ClientHelloReader.limit)))
        // In records so small that their headers are what makes it long.
        let outcome = read { hello in
            hello.extensions.append((0x1234, [UInt8](repeating: 0, count: 12_000)))
            hello.recordSize = 1
        }
        #expect(outcome == .failed(.tooLarge(limit: ClientHelloReader.limit)))
    }

    @Test(
        "a tunnel's hello names the tunnel's host, and no other",
        arguments: [
            ("api.example.com", "api.example.com", nil), ("api.example.com", "other.example.com", 112),
            ("api.example.com", nil, 109), ("192.0.2.1", nil, nil), ("192.0.2.1", "api.example.com", 112),
            ("[2001:db8::1]", nil, nil), ("example.com", "api.example.com", 112),
        ] as [(String, String?, UInt8?)]
    )
    func rule(authority: String, name: String?, alert: UInt8?) throws {
        let hello = ClientHello(serverName: try name.map { try Host($0) })
        let refusal = TunnelRule.refusal(hello, authority: try Host(authority))
        #expect(refusal?.alert == alert)
        #expect((refusal == nil) == (alert == nil))
    }
}
