// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import Testing

@testable import SessionCore

@Suite("Decisions about redirects")
struct RedirectMachineTests {
    private static let base = AbsoluteURL("https://api.example.com/a/b?c")!

    private static func head(_ status: Int, _ locations: String...) throws -> ResponseHead {
        var head = ResponseHead()
        var parser = ResponseHeadParser()
        let lines = ["HTTP/1.1 \(status) X"] + locations.map { "Location: \($0)" } + ["Content-Length: 0", ""]
        for line in lines {
            if case .failed(let fault) = parser.consume(
                line: Array("\(line)\r\n".utf8).span,
                answering: .get,
                into: &head
            ) {
                throw Refused(fault: "\(fault.message)")
            }
        }
        return head
    }

    private struct Refused: Error { let fault: String }

    private static func hop(_ status: Int, _ method: HTTPMethod) throws -> RedirectMachine.Hop? {
        var machine = RedirectMachine()
        guard case .follow(let hop) = machine.didReceiveHead(try head(status, "/next"), url: base, method: method)
        else {
            return nil
        }
        return hop
    }

    @Test(
        "method and body follow the status",
        arguments: [
            (301, HTTPMethod.post, HTTPMethod.get, false), (302, .post, .get, false), (301, .put, .put, true),
            (302, .get, .get, true), (303, .post, .get, false), (303, .put, .get, false), (303, .head, .head, false),
            (303, .get, .get, false), (307, .post, .post, true), (308, .post, .post, true),
            (308, .delete, .delete, true),
        ]
    )
    func methods(status: Int, method: HTTPMethod, next: HTTPMethod, keepsBody: Bool) throws {
        let hop = try #require(try Self.hop(status, method))
        #expect(hop.method == next)
        #expect(hop.keepsBody == keepsBody)
        #expect(hop.url.text == "https://api.example.com/next")
        #expect(!hop.crossesOrigins)
    }

    @Test("other statuses are ordinary responses", arguments: [200, 204, 300, 304, 305, 306, 399, 404])
    func responses(status: Int) throws {
        #expect(try Self.hop(status, .get) == nil)
    }

    @Test("a redirect without a target is the response; an unreadable one fails")
    func locations() throws {
        var machine = RedirectMachine()
        #expect(machine.didReceiveHead(try Self.head(302), url: Self.base, method: .get) == .noRedirect)
        for bad in ["ftp://a/", "https://user@a/", "http://127.1/", "mailto:x"] {
            let action = machine.didReceiveHead(try Self.head(302, bad), url: Self.base, method: .get)
            #expect(action == .fail(.invalidLocation), "\(bad)")
        }
        #expect(
            machine.didReceiveHead(try Self.head(302, "/a", "/a"), url: Self.base, method: .get)
                == .fail(.invalidLocation)
        )
        #expect(machine.count == 0)
    }

    @Test("redirects are followed up to the limit, and not beyond")
    func limit() throws {
        var machine = RedirectMachine(limit: 2)
        let head = try Self.head(302, "/again")
        for _ in 0..<2 {
            guard case .follow = machine.didReceiveHead(head, url: Self.base, method: .get) else {
                Issue.record("not followed")
                return
            }
        }
        #expect(machine.didReceiveHead(head, url: Self.base, method: .get) == .fail(.tooMany))
        #expect(machine.count == 2)
        #expect(RedirectMachine().limit == 20)
    }

    @Test(
        "another scheme, host or port is another origin",
        arguments: [
            ("http://api.example.com/", true), ("https://example.com/", true), ("https://api.example.com:8443/", true),
            ("https://API.example.com.:443/x", false), ("//api.example.com/", false), ("x", false),
        ]
    )
    func origins(location: String, crosses: Bool) throws {
        var machine = RedirectMachine()
        guard case .follow(let hop) = machine.didReceiveHead(try Self.head(307, location), url: Self.base, method: .get)
        else {
            Issue.record("not followed")
            return
        }
        #expect(hop.crossesOrigins == crosses)
    }

    @Test("leaving TLS and leaving pins are denied, each in its order")
    func denials() {
        typealias Machine = RedirectMachine
        #expect(Machine.denial(from: (.https, true), to: (.http, false)) == .losesTLS)
        #expect(Machine.denial(from: (.https, false), to: (.http, false)) == .losesTLS)
        #expect(Machine.denial(from: (.https, true), to: (.https, false)) == .leavesPins)
        #expect(Machine.denial(from: (.https, true), to: (.https, true)) == nil)
        #expect(Machine.denial(from: (.https, false), to: (.https, true)) == nil)
        #expect(Machine.denial(from: (.http, false), to: (.https, false)) == nil)
        #expect(Machine.denial(from: (.http, false), to: (.http, false)) == nil)
    }

    @Test("credentials stay within their origin, and content fields with their content")
    func fields() throws {
        var fields = HeaderFields()
        let content = ["Content-Type", "Content-Language", "Content-Digest", "Repr-Digest", "Last-Modified"]
        for name in ["Authorization", "Cookie"] + content + ["Referer", "X-Own"] {
            try fields.append(name: name, value: "v")
        }
        func kept(crosses: Bool, keepsBody: Bool, leavesTLS: Bool = false) -> [String] {
            var copy = fields
            let hop = RedirectMachine.Hop(url: Self.base, method: .get, keepsBody: keepsBody, crossesOrigins: crosses)
            RedirectMachine.prune(&copy, for: hop, leavesTLS: leavesTLS)
            return copy.list.map(\.name)
        }
        #expect(kept(crosses: false, keepsBody: true).count == 9)
        #expect(kept(crosses: true, keepsBody: true) == content + ["Referer", "X-Own"])
        #expect(kept(crosses: false, keepsBody: false) == ["Authorization", "Cookie", "Referer", "X-Own"])
        #expect(kept(crosses: true, keepsBody: false, leavesTLS: true) == ["X-Own"])
    }
}
