// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore
import Testing

@testable import HTTPSessionCore

@Suite("A request as a value")
struct RequestValueTests {
    @Test("a change of a copy leaves the other as it was")
    func copies() {
        let first = HTTPSessionRequest(url: "https://a.example/", headers: ["A": "1"], body: .bytes([1]))
        var second = first
        second.url = "https://b.example/é"
        second.method = .post
        second.headers["B"] = "2"
        second.body = .none
        second.timeouts = TaskTimeouts(total: .seconds(5))
        second.handlesCookies = false
        second.cachePolicy = .reloadIgnoringLocalCacheData
        second.digestCheck = .required
        #expect(first.url == "https://a.example/")
        #expect(first.method == .get)
        #expect(first.headers == ["A": "1"])
        #expect(first.body.length == .bytes(1))
        #expect(first.timeouts == nil && first.handlesCookies && first.cachePolicy == nil && first.digestCheck == nil)
        #expect(second.url == "https://b.example/%C3%A9")
        #expect(second.method == .post)
        #expect(second.headers == ["A": "1", "B": "2"])
        #expect(second.body.length == .none)
        #expect(second.timeouts != nil && !second.handlesCookies)
        #expect(second.cachePolicy == .reloadIgnoringLocalCacheData && second.digestCheck == .required)
    }

    @Test("a changed copy shares nothing more with a third one")
    func threeCopies() {
        var first = HTTPSessionRequest(url: "https://a.example/")
        let second = first
        first.headers["A"] = "1"
        let third = first
        first.headers["A"] = "2"
        #expect(second.headers.isEmpty)
        #expect(third.headers == ["A": "1"])
        #expect(first.headers == ["A": "2"])
    }
}
