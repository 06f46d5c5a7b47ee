// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyCore

@Suite("The fields of a request towards the origin")
struct OriginFieldsTests {
    private func head(_ fields: String, method: String = "GET") throws -> RequestHead {
        var parser = RequestParser()
        var head = RequestHead()
        let text = "\(method) http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\(fields)\r\n"
        try #require(parser.parse(Array(text.utf8).span, into: &head).outcome == .complete)
        return head
    }

    private func forwarded(_ fields: String, method: String = "GET") throws -> [String] {
        OriginFields.make(from: try head(fields, method: method), mark: .via(Array("1.1 us".utf8))).list
            .map { "\($0.name): \($0.value)" }
    }

    @Test("rule 44: hop-by-hop fields and Host stay behind, others go in order")
    func hopByHop() throws {
        let sent = """
            A: 1\r
            Connection: X, keep-alive, Authorization\r
            X: 2\r
            Keep-Alive: timeout=5\r
            Upgrade: websocket\r
            Authorization: 3\r
            A: 4\r

            """
        #expect(try forwarded(sent) == ["A: 1", "Authorization: 3", "A: 4", "Via: 1.1 us"])
    }

    @Test("rule 45: Via is added after others; one with our name is recognised")
    func via() throws {
        #expect(try forwarded("Via: 1.0 other\r\n") == ["Via: 1.0 other", "Via: 1.1 us"])
        for (value, isOurs) in [
            ("1.1 pinproxy-abcdefgh", true), ("1.0 a, 1.1 pinproxy-abcdefgh (x), 1.1 b", true),
            ("1.1 pinproxy-abcdefgi", false), ("1.1 pinproxy-", false), ("", false),
            ("1.1 a\r\nVia: 1.1 pinproxy-abcdefgh", true),
        ] {
            #expect(try isLoop("Via: \(value)") == isOurs, "\(value)")
        }
    }

    @Test("rule 45: a host without Via gets and checks CDN-Loop")
    func cdnLoop() throws {
        let fields = OriginFields.make(
            from: try head("Via: 1.0 other\r\nCDN-Loop: a.example\r\n"),
            mark: .cdnLoop(Array("pinproxy-abcdefgh".utf8))
        )
        let sent = fields.list.map { "\($0.name): \($0.value)" }
        #expect(sent == ["Via: 1.0 other", "CDN-Loop: a.example", "CDN-Loop: pinproxy-abcdefgh"])
        for (value, isOurs) in [
            ("pinproxy-abcdefgh", true), ("a.example; b=1, pinproxy-abcdefgh", true), ("pinproxy-abcdefgi", false),
            ("a.example\r\ncdn-loop: pinproxy-abcdefgh", true), ("", false),
        ] {
            // Whatever the host of the request: a redirect may have led it from one with Via to one without.
            #expect(try isLoop("CDN-Loop: \(value)") == isOurs, "\(value)")
        }
        #expect(try isLoop("Via: 1.1 pinproxy-abcdefgh"))
    }

    private func isLoop(_ field: String) throws -> Bool {
        OriginFields.comesFromUs(try head("\(field)\r\n").fields, pseudonym: Array("pinproxy-abcdefgh".utf8))
    }

    @Test("rule 44: of TE only trailers remains; rule 48: Expect goes where the origin decides")
    func trailersAndExpectation() throws {
        #expect(try forwarded("TE: gzip, trailers\r\n") == ["TE: trailers", "Connection: TE", "Via: 1.1 us"])
        #expect(try forwarded("TE: gzip\r\n") == ["Via: 1.1 us"])
        let expecting = try head("Expect: 100-continue\r\nContent-Length: 1\r\n", method: "PUT")
        let us = OriginFields.Mark.via(Array("1.1 us".utf8))
        #expect(OriginFields.make(from: expecting, mark: us).list.map(\.name) == ["Via"])
        #expect(
            OriginFields.make(from: expecting, mark: us, keepsExpectation: true).list.map(\.name) == ["Expect", "Via"]
        )
        // Servers compare the whole value, or look at the first line.
        let unusual = "Expect:\r\nExpect: ,100-Continue, 100-continue\r\nExpect: 100-continue\r\nContent-Length: 1\r\n"
        let fields = OriginFields.make(from: try head(unusual, method: "PUT"), mark: us, keepsExpectation: true)
        #expect(fields.values(for: "expect") == ["100-continue"])
    }

    @Test("rule 46: Max-Forwards counts down for OPTIONS alone")
    func maxForwards() throws {
        #expect(try forwarded("Max-Forwards: 3\r\n", method: "OPTIONS").first == "Max-Forwards: 2")
        #expect(try forwarded("Max-Forwards: 3\r\n").first == "Max-Forwards: 3")
    }

    @Test("rule 47: Proxy-Authorization stays behind, as every Proxy- field does")
    func proxyFields() throws {
        let sent = "Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nProxy-Any: 1\r\nProxyish: 2\r\n"
        #expect(try forwarded(sent) == ["Proxyish: 2", "Via: 1.1 us"])
    }
}
