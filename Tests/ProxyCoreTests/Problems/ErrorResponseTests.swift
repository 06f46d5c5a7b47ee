// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("Responses in the origin's place")
struct ErrorResponseTests {
    private func write(_ problem: Problem, isHead: Bool = false, keepAlive: Bool = true) throws -> HTTPMessage {
        var output = ByteBuffer()
        let date = Array("Sat, 21 Nov 2026 06:00:00 GMT".utf8)
        ErrorResponse.write(problem, to: &output, isHead: isHead, keepAlive: keepAlive, date: date)
        var pieces = [output.withUnsafeBytes { Array($0) }]
        var reader = MessageReader()
        let role = MessageReader.Role.response(to: isHead ? "HEAD" : "GET")
        let message = try reader.message(role, from: { pieces.popLast() ?? [] })
        #expect(reader.rest.isEmpty)
        return try #require(message)
    }

    @Test(
        "rule 56: every code has a status, a Proxy-Status error and a problem document",
        arguments: Problem.Code.allCases
    )
    func codes(code: Problem.Code) throws {
        let response = try write(Problem(code, "What happened and what to do."))
        #expect(response.status == code.status)
        #expect((400...599).contains(response.status))
        #expect(response.startLine.split(separator: " ").count >= 3)
        #expect(
            response["Proxy-Status"]
                == "pinproxy; error=\(code.proxyStatusError); details=\"What happened and what to do.\""
        )
        #expect(response["Content-Type"] == "application/problem+json")
        #expect(response["Cache-Control"] == "no-store")
        #expect(response["Date"] == "Sat, 21 Nov 2026 06:00:00 GMT")
        #expect(response["Connection"] == nil)
        #expect(response.problemCode == code.rawValue)
        #expect(response.problem["type"] as? String == "urn:pinproxy:error:\(code.rawValue)")
        #expect(response.problem["status"] as? Int == code.status)
        #expect(response.problem["detail"] as? String == "What happened and what to do.")
        #expect((response.problem["title"] as? String)?.isEmpty == false)
    }

    @Test(
        "the reason phrase names the cause, for programs with refused CONNECTs",
        arguments: Problem.Code.allCases
    )
    func reasonPhrase(code: Problem.Code) throws {
        let response = try write(Problem(code, "What happened and what to do."))
        let words = "\(ReasonPhrase.text(of: code.status)) (\(code.rawValue): \(code.title))"
        #expect(response.startLine == "HTTP/1.1 \(code.status) \(words)")
        #expect(words.utf8.allSatisfy { (0x20...0x7E).contains($0) })
    }

    @Test("a browser gets a page with the same facts, and no markup")
    func page() throws {
        var output = ByteBuffer()
        let date = Array("Sat, 21 Nov 2026 06:00:00 GMT".utf8)
        let details = "<script>alert(1)</script> & \"quotes\" 'too'\u{1b}"
        ErrorResponse.write(Problem(.pinMismatch, details), to: &output, isPage: true, keepAlive: true, date: date)
        var pieces = [output.withUnsafeBytes { Array($0) }]
        var reader = MessageReader()
        let page = try #require(try reader.message(.response(to: "GET"), from: { pieces.popLast() ?? [] }))
        #expect(page["Content-Type"] == "text/html; charset=utf-8")
        #expect(page["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'")
        #expect(page["X-Content-Type-Options"] == "nosniff")
        #expect(page["Proxy-Status"]?.hasPrefix("pinproxy; error=tls_certificate_error") == true)
        let text = String(decoding: page.body, as: UTF8.self)
        #expect(text.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot; &#39;too&#39;\u{fffd}"))
        #expect(!text.contains("<script") && !text.contains("http://") && !text.contains("https://"))
        #expect(text.contains("<code>pin_mismatch</code>"))
    }

    @Test(
        "only a client that names HTML gets the page",
        arguments: [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("TEXT/HTML;q=0.7", true),
            ("*/*", false),
            ("text/*", false),
            ("application/json, text/html", false),
            ("text/html;q=0.5, application/problem+json", false),
            ("", false),
        ]
    )
    func wantsPage(accept: String, isWanted: Bool) {
        var fields = HeaderFields()
        fields.append(.accept, Array(accept.utf8).span)
        #expect(ErrorPage.isWanted(by: fields) == isWanted)
    }

    @Test("every session error has its own code", arguments: SessionError.Code.allCases)
    func sessionErrors(code: SessionError.Code) {
        #expect(Problem(SessionError(code, "x")).code.rawValue == code.rawValue)
    }

    @Test("odd details break neither the field nor the document")
    func hostileDetails() throws {
        let details = "a \"quote\", a \\, a line\nanother\r\nX-Injected: 1, ä, \u{1F512}, \u{0}\u{7F}"
        let response = try write(Problem(.internal, details))
        #expect(response["X-Injected"] == nil)
        #expect(response.problem["detail"] as? String == details)
        let status = try #require(response["Proxy-Status"])
        #expect(
            status.hasPrefix("pinproxy; error=proxy_internal_error; details=\"a \\\"quote\\\", a \\\\, a line another")
        )
        #expect(status.utf8.allSatisfy { (0x20...0x7E).contains($0) })
        let long = try write(Problem(.internal, String(repeating: "x", count: 100_000)))
        #expect((long["Proxy-Status"] ?? "").utf8.count < 1000)
    }

    @Test("the response to HEAD announces the body and has none")
    func headAndClose() throws {
        let whole = try write(Problem(.dnsFailed, "x"))
        let head = try write(Problem(.dnsFailed, "x"), isHead: true, keepAlive: false)
        #expect(head.body.isEmpty)
        #expect(head["Content-Length"] == "\(whole.body.count)")
        #expect(head["Connection"] == "close")
    }

    @Test("a 405 says what is allowed")
    func allow() throws {
        let response = try write(Problem(RequestFault.methodTrace))
        #expect(response.status == 405)
        #expect(response["Allow"]?.contains("GET") == true)
        #expect(response["Allow"]?.contains("TRACE") == false)
    }
}
