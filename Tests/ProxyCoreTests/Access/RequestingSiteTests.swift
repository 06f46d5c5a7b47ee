// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import ProxyCore

@Suite("The site that made a browser send a request")
struct RequestingSiteTests {
    private func site(_ fields: String, host: String? = "localhost:9001") throws -> RequestingSite {
        var head = RequestHead()
        var parser = RequestParser()
        let version = host == nil ? "HTTP/1.0" : "HTTP/1.1\r\nHost: \(host ?? "")"
        let bytes = Array("GET / \(version)\r\n\(fields)\(fields.isEmpty ? "" : "\r\n")\r\n".utf8)
        let (_, outcome) = parser.parse(bytes.span, into: &head)
        try #require(outcome == .complete)
        return RequestingSite(head)
    }

    @Test(
        "Sec-Fetch-Site is none, same-origin, or another site's, whatever else it says",
        arguments: [
            ("", .unsaid), ("Accept: */*\r\nX-Sec-Fetch-Site: cross-site", .unsaid),
            ("Sec-Fetch-Site: none", .person), ("sec-fetch-SITE: same-origin", .own),
            ("Sec-Fetch-Site: same-site", .other), ("Sec-Fetch-Site: cross-site", .other),
            ("Sec-Fetch-Site: Same-Origin", .other), ("Sec-Fetch-Site:", .other),
            ("Sec-Fetch-Site: same-origin, none", .other), ("Sec-Fetch-Site: none\r\nSec-Fetch-Site: none", .other),
        ] as [(String, RequestingSite.Relation)]
    )
    func fetchSite(fields: String, relation: RequestingSite.Relation) throws {
        let site = try site(fields)
        #expect(site.fetchSite == relation && site.origin == .unsaid)
        #expect(site.isOther == (relation == .other) && site.isSaid == (relation != .unsaid))
    }

    @Test(
        "Origin is the listener's own where host and port are those of Host",
        arguments: [
            ("http://localhost:9001", .own), ("https://localhost:9001", .own), ("http://LOCALHOST:9001", .own),
            ("http://localhost", .other), ("http://localhost:3000", .other), ("http://localhost:90010", .other),
            ("http://localhost:9001.evil.example", .other), ("http://evil.example/http://localhost:9001", .other),
            ("http://a@localhost:9001", .other), ("http://127.0.0.1:9001", .other), ("null", .other), ("", .other),
            ("localhost:9001", .other), ("HTTP://localhost:9001", .other), ("file://localhost:9001", .other),
            ("ws://localhost:9001", .other), ("http://localhost:9001 http://evil.example", .other),
            ("http://evil.example http://localhost:9001", .other), ("http://localhost:9001/", .other),
        ] as [(String, RequestingSite.Relation)]
    )
    func origin(value: String, relation: RequestingSite.Relation) throws {
        let site = try site("Origin: \(value)")
        #expect(site.origin == relation && site.fetchSite == .unsaid)
        #expect(site.isOther == (relation == .other) && site.isSaid)
    }

    @Test("two Origins, and one without a Host to compare it with, are another site's")
    func unclear() throws {
        let own = "Origin: http://localhost:9001"
        #expect(try site("\(own)\r\n\(own)").isOther)
        #expect(try site(own, host: nil).isOther)
        #expect(try site("\(own)\r\nSec-Fetch-Site: cross-site").isOther)
        #expect(try site("Origin: http://evil.example\r\nSec-Fetch-Site: same-origin").isOther)
        #expect(try !site("\(own)\r\nSec-Fetch-Site: same-origin").isOther)
        #expect(try !site("", host: nil).isOther)
    }
}
