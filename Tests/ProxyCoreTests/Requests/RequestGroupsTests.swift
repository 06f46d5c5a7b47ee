// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

@testable import ProxyCore

@Suite("requests in groups, for people")
struct RequestGroupsTests {
    private func groups(_ requests: [(method: String, origin: String, target: String)]) -> [String] {
        var groups = RequestGroups()
        var budget = 1 << 20
        for (method, origin, target) in requests {
            #expect(groups.add(method, origin, target: Array(target.utf8), within: &budget))
        }
        #expect(groups.count == requests.count && budget < 1 << 20)
        return groups.groups.map { "\($0.count) \($0.method) \($0.origin)\($0.path)" }
    }

    @Test("paths with ids or many names become one group, the largest groups come first")
    func patterns() {
        let names = ["pip", "wheel", "setuptools", "six", "idna"]
        let seen =
            names.map { ("GET", "https://a.example", "/simple/\($0)/?x=1") } + [
                ("GET", "https://a.example", "/simple/pip/"), ("POST", "https://a.example", "/v1/messages"),
                ("CONNECT", "b.example:8443", ""), ("CONNECT", "b.example:8443", ""),
            ]
        #expect(
            groups(seen) == [
                "6 GET https://a.example/simple/*/", "2 CONNECT b.example:8443", "1 POST https://a.example/v1/messages",
            ]
        )
    }

    @Test("ambiguous paths, and those with a star, stay unchanged")
    func oddPaths() {
        #expect(
            groups([("GET", "http://a", "/a/../b"), ("GET", "http://a", "/v1/*"), ("GET", "http://a", "/v1/x")]) == [
                "1 GET http://a/a/../b", "1 GET http://a/v1/*", "1 GET http://a/v1/x",
            ]
        )
        let many = (0..<10).map { ("GET", "http://a", "/\($0)//") }
        #expect(
            groups(many) == [
                "6 GET http://a …", "1 GET http://a/0//", "1 GET http://a/1//", "1 GET http://a/2//",
                "1 GET http://a/3//",
            ]
        )
    }

    @Test("a budget bounds what a program invents, and known paths count on")
    func bounded() {
        var groups = RequestGroups()
        var budget = 1 << 20
        var random = SeededGenerator(seed: 1)
        var count = 0
        while count < 100_000 {
            let target = "/\(random.next())/" + String(repeating: "/", count: Int(random.next() % 50))
            let method = random.next() % 2 == 0 ? "GET" : "M\(random.next())"
            guard groups.add(method, "http://\(random.next())", target: Array(target.utf8), within: &budget) else {
                break
            }
            count += 1
        }
        #expect((100..<5000).contains(count) && groups.count == count && groups.groups.count <= count)
        var full = RequestGroups()
        var small = 1
        #expect(full.add("GET", "http://a", target: [UInt8(ascii: "/")], within: &small) && small <= 0)
        #expect(full.add("GET", "http://a", target: [UInt8(ascii: "/")], within: &small))
        #expect(!full.add("GET", "http://b", target: [UInt8(ascii: "/")], within: &small))
        #expect(full.groups == [.init(origin: "http://a", method: "GET", path: "/", count: 2)])
    }
}
