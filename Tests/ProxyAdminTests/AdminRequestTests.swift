// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import Testing

@testable import ProxyAdmin
@testable import ProxyCore

@Suite("Requests to the admin listener")
struct AdminRequestTests {
    private func judge(
        _ text: String,
        isOwnName: Bool = true,
        access: AdminAccess = AdminAccess()
    ) throws -> AdminRequest {
        var parser = RequestParser()
        var head = RequestHead()
        let (_, outcome) = parser.parse(Array(text.utf8).span, into: &head)
        switch outcome {
        case .complete: return AdminRequest(head, isOwnName: isOwnName, access: access)
        case .failed(let fault): return AdminRequest(fault)
        case .needMore: throw Incomplete()
        }
    }

    private struct Incomplete: Error {}

    private func request(_ line: String, _ fields: String = "") -> String {
        "\(line) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n"
    }

    private func name(_ request: AdminRequest) -> String {
        switch request {
        case .live: "live"
        case .ready: "ready"
        case .metrics: "metrics"
        case .page: "page"
        case .tasks(let limit): "tasks \(limit)"
        case .taskStream(let first): "stream \(first.map(String.init) ?? "now")"
        case .archive(let limit): "archive \(limit)"
        case .status: "status"
        case .policy(let since): "policy" + (since.map { " since \($0)" } ?? "")
        case .configuration: "config"
        case .reloads: "reloads"
        case .workers: "workers"
        case .reload(let dropsPins): dropsPins ? "reload, dropping pins" : "reload"
        case .drain: "drain"
        case .cache(.figures): "cache"
        case .cache(.entries(let host, let limit)): "entries \(host?.description ?? "*") \(limit)"
        case .cache(.purge(let purges, let softly)):
            (softly ? "soft purge " : "purge ") + purges.map { Self.text($0) }.joined(separator: " ")
        case .refused(let problem): "\(problem.status)"
        }
    }

    private static func text(_ purge: Purge) -> String {
        switch purge {
        case .everything: "all"
        case .uri(let key): String(decoding: key.url, as: UTF8.self)
        case .prefix(let key): "below " + String(decoding: key.url, as: UTF8.self)
        case .host(let host): "host \(host)"
        case .tag(let tag): "tag \(tag)"
        }
    }

    @Test(
        "existing paths are found, whatever the query; others are not",
        arguments: [
            ("GET /live", "live"), ("HEAD /live", "live"), ("GET /ready", "ready"), ("GET /ready?verbose", "ready"),
            ("GET /metrics", "metrics"), ("GET /metrics?name[]=a", "metrics"),
            ("GET http://localhost/metrics", "metrics"),
            ("GET /", "page"), ("HEAD /?a", "page"), ("GET /tasks", "tasks 100"),
            ("GET /tasks?limit=10000", "tasks 10000"), ("GET /status", "status"), ("HEAD /status?x", "status"),
            ("GET /tasks?limit=0", "400"), ("GET /tasks?limit=10001", "400"), ("GET /tasks?limit=1&limit=1", "400"),
            ("GET /tasks?limit=x", "400"), ("GET /tasks?limit=%6", "400"), ("GET /tasks/stream", "stream now"),
            ("GET /tasks/stream?from=7", "stream 7"), ("GET /tasks/stream?from=-1", "400"),
            ("GET /tasks.har", "archive 100"), ("GET /tasks.har?limit=2", "archive 2"), ("GET /policy", "policy"),
            ("GET /policy?since=0", "policy since 0"), ("GET /policy?since=1790000000", "policy since 1790000000"),
            ("GET /policy?since=", "400"), ("GET /policy?since=-1", "400"), ("POST /status", "405"),
            ("GET /policy?since=99999999999999999999", "400"), ("GET /config", "config"), ("GET /reloads", "reloads"),
            ("GET /workers", "workers"),
            ("GET /index.html", "404"), ("GET /tasks/", "404"),
            ("GET /Live", "404"), ("GET /live/", "404"), ("GET //live", "404"),
            ("GET /metric", "404"),
            ("GET /%6Cive", "404"), ("GET /x/../live", "404"), ("GET /cache", "cache"), ("HEAD /cache?a", "cache"),
            ("GET /cache/", "404"), ("GET /cache/entry", "404"),
        ]
    )
    func paths(line: String, result: String) throws {
        #expect(name(try judge(request(line))) == result)
    }

    @Test(
        "methods other than GET and HEAD are refused, with the allowed ones",
        arguments: [
            "POST /live", "PUT /live", "DELETE /metrics", "PATCH /live", "OPTIONS /live", "OPTIONS *", "TRACE /live",
            "PURGE /live", "get /live", "CONNECT localhost:443",
        ]
    )
    func methods(line: String) throws {
        let authority = line.hasPrefix("CONNECT") ? "Host: localhost:443\r\n" : "Host: localhost\r\n"
        guard case .refused(let problem) = try judge("\(line) HTTP/1.1\r\n\(authority)\r\n") else {
            Issue.record("\(line) is served")
            return
        }
        #expect(problem.status == 405)
        #expect(problem.allow.map { "\($0)" } == "GET, HEAD")
    }

    @Test(
        "a foreign Host is refused before anything else",
        arguments: ["GET /live", "POST /x"]
    )
    func misdirected(line: String) throws {
        guard case .refused(let problem) = try judge(request(line), isOwnName: false) else {
            Issue.record("\(line) is served")
            return
        }
        #expect(problem.status == 421 && problem.code == .misdirectedRequest)
    }

    @Test(
        "a client that takes the admin listener for the proxy is told",
        arguments: [("GET http://a.test/", true), ("CONNECT a.test:443", true), ("GET /", false)]
    )
    func takenForTheProxy(line: String, isTold: Bool) throws {
        let host = line.hasPrefix("CONNECT") ? "a.test:443" : "a.test"
        guard case .refused(let problem) = try judge("\(line) HTTP/1.1\r\nHost: \(host)\r\n\r\n", isOwnName: false)
        else {
            Issue.record("\(line) is served")
            return
        }
        #expect(problem.details.contains("This is the admin listener, and no proxy.") == isTold)
        #expect(problem.details.contains("admin.allowedHosts") == !isTold)
    }

    @Test("a body is refused")
    func body() throws {
        #expect(name(try judge(request("GET /live", "Content-Length: 1\r\n"))) == "400")
        #expect(name(try judge(request("GET /live", "Transfer-Encoding: chunked\r\n"))) == "400")
        #expect(name(try judge(request("GET /live", "Content-Length: 0\r\n"))) == "live")
    }

    @Test(
        "own names are localhost, the connected address and configured ones",
        arguments: [
            ("localhost", true), ("LOCALHOST:8081", true), ("127.0.0.1", true), ("127.0.0.1:8081", true),
            ("127.0.0.1:1", true), ("ops.example.com", true), ("ops.example.com.", true), ("127.0.0.2", false),
            ("[::1]", false), ("0.0.0.0", false), ("example.com", false), ("localhost.example.com", false),
            ("xlocalhost", false),
        ]
    )
    func ownNames(host: String, isOwn: Bool) throws {
        var parser = RequestParser()
        var head = RequestHead()
        _ = parser.parse(Array("GET /live HTTP/1.1\r\nHost: \(host)\r\n\r\n".utf8).span, into: &head)
        let names = OwnNames(hosts: [try Host("ops.example.com")])
        let result = names.contains(head, localAddress: .loopback(port: 8081))
        #expect(result == isOwn)
    }

    @Test("without a Host, or a Unix socket's name, no name is its own")
    func noName() throws {
        var parser = RequestParser()
        var head = RequestHead()
        _ = parser.parse(Array("GET /live HTTP/1.0\r\n\r\n".utf8).span, into: &head)
        let names = OwnNames(hosts: [])
        let isOwnWithoutHost = names.contains(head, localAddress: .loopback(port: 8081))
        #expect(!isOwnWithoutHost)
        _ = parser.parse(Array("GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".utf8).span, into: &head)
        let isOwnByAddress = names.contains(head, localAddress: SocketAddress(unixPath: ""))
        #expect(!isOwnByAddress)
    }

    @Test(
        "a request about the cache has its subject in the query",
        arguments: [
            ("GET /cache/entries", "entries * 100"), ("GET /cache/entries?", "entries * 100"),
            ("GET /cache/entries?host=A.Example.&limit=5", "entries a.example 5"),
            ("HEAD /cache/entries?limit=10000", "entries * 10000"),
            ("GET /cache/entries?host=b%C3%BCcher.example", "entries xn--bcher-kva.example 100"),
            ("DELETE /cache?all", "purge all"), ("DELETE /cache?all=", "purge all"),
            ("DELETE /cache?host=%5B::1%5D", "purge host [::1]"), ("DELETE /cache?tag=a%26b", "purge tag a&b"),
            ("DELETE /cache?url=https%3A%2F%2FA.example%2Fx%3Fy%3D%2525", "purge https://a.example:443/x?y=%25"),
            ("DELETE /cache?url=http://a.example/x", "purge http://a.example:80/x https://a.example:443/x"),
            ("DELETE /cache?url=http://a.example:81/x", "purge http://a.example:81/x https://a.example:81/x"),
            ("DELETE /cache?prefix=https://a.example/x/", "purge below https://a.example:443/x/"),
            ("DELETE /cache?soft&url=https://a.example/x", "soft purge https://a.example:443/x"),
            ("DELETE /cache?all&soft=", "soft purge all"),
            // Nothing of these may do more, or something else, than was meant.
            ("DELETE /cache", "400"), ("DELETE /cache?", "400"), ("DELETE /cache?everything", "400"),
            ("DELETE /cache?all&host=a", "400"), ("DELETE /cache?all=no", "400"), ("DELETE /cache?all&all", "400"),
            ("DELETE /cache?host=", "400"), ("DELETE /cache?host=*", "400"), ("DELETE /cache?host=a:1", "400"),
            ("DELETE /cache?tag=", "400"), ("DELETE /cache?tag", "400"), ("DELETE /cache?tag=%ff", "400"),
            ("DELETE /cache?soft", "400"), ("DELETE /cache?all&soft=no", "400"), ("DELETE /cache?all&soft&soft", "400"),
            ("DELETE /cache?prefix=/x", "400"), ("DELETE /cache?prefix=", "400"),
            ("DELETE /cache?tag=%4", "400"), ("DELETE /cache?url=/x", "400"), ("DELETE /cache?url=ftp://a/", "400"),
            ("DELETE /cache?url=https://u@a.example/", "400"), ("GET /cache/entries?limit=0", "400"),
            ("GET /cache/entries?limit=10001", "400"), ("GET /cache/entries?limit=1&limit=2", "400"),
            ("GET /cache/entries?limit=a", "400"), ("GET /cache/entries?hosts=a", "400"),
            ("GET /cache/entries?host=a/b", "400"),
        ]
    )
    func cache(line: String, result: String) throws {
        #expect(name(try judge(request(line))) == result)
    }

    @Test(
        "the cache is purged with DELETE alone, which no page can send",
        arguments: ["POST /cache?all", "PUT /cache?all", "PURGE /cache?all", "PATCH /cache", "OPTIONS /cache"]
    )
    func purgeMethods(line: String) throws {
        guard case .refused(let problem) = try judge(request(line)) else {
            Issue.record("\(line) is served")
            return
        }
        #expect(problem.status == 405 && problem.allow.map { "\($0)" } == "GET, HEAD, DELETE")
        #expect(name(try judge(request("DELETE /cache/entries?all"))) == "405")
    }

    @Test(
        "a browser's request purges nothing, whatever its origin",
        arguments: [
            "Origin: http://localhost:8081", "Origin: null", "ORIGIN: http://evil.example", "Origin:",
            "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "sec-fetch-site: cross-site",
        ]
    )
    func browser(field: String) throws {
        #expect(name(try judge(request("DELETE /cache?all", "\(field)\r\n"))) == "403")
    }

    // MARK: Browsers

    @Test(
        "another site's page reads nothing; a followed link opens the page",
        arguments: [
            ("Sec-Fetch-Site: cross-site", "403"), ("Sec-Fetch-Site: same-site", "403"),
            ("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors", "403"),
            ("Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: same-origin", "403"),
            ("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate", "tasks 100"),
            ("Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate", "tasks 100"),
            ("Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors", "tasks 100"), ("Accept: */*", "tasks 100"),
        ]
    )
    func crossSiteRead(fields: String, result: String) throws {
        #expect(name(try judge(request("GET /tasks", "\(fields)\r\n"))) == result)
    }

    @Test(
        "another site's link opens a page, and no frame, download or stream",
        arguments: [
            ("GET /", "document", "page"), ("GET /policy", "document", "policy"), ("GET /", "iframe", "403"),
            ("GET /", "object", "403"), ("GET /", "embed", "403"), ("GET /", "empty", "403"),
            ("GET /", "document\r\nSec-Fetch-Dest: document", "403"), ("GET /tasks.har", "document", "403"),
            ("GET /tasks/stream", "document", "403"), ("HEAD /tasks/stream", "document", "403"),
        ]
    )
    func link(line: String, place: String, result: String) throws {
        for site in ["cross-site", "same-site"] {
            let fields = "Sec-Fetch-Site: \(site)\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: \(place)\r\n"
            #expect(name(try judge(request(line, fields))) == result, "\(site)")
        }
        let typed = "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"
        #expect(name(try judge(request("GET /tasks.har", typed))) == "archive 100")
        #expect(name(try judge(request("GET /tasks/stream", typed))) == "stream now")
    }

    @Test(
        "the listener's page and programs may change something, a form may not",
        arguments: [
            ("Accept: */*", "reload"), ("Content-Length: 0", "reload"),
            ("Origin: http://localhost\r\nSec-Fetch-Site: same-origin", "reload"),
            ("Origin: https://localhost\r\nSec-Fetch-Site: same-origin", "reload"),
            ("Origin: http://localhost", "reload"), ("Sec-Fetch-Site: same-origin", "reload"),
            ("Origin: http://localhost:1", "403"), ("Origin: null", "403"), ("Origin:", "403"),
            ("Origin: http://evil.example", "403"), ("Origin: http://localhost.evil.example", "403"),
            ("Origin: http://localhost\r\nOrigin: http://localhost", "403"),
            ("Origin: http://localhost\r\nSec-Fetch-Site: cross-site", "403"),
            ("Origin: http://localhost\r\nSec-Fetch-Site: same-site", "403"), ("Sec-Fetch-Site: none", "403"),
            ("Content-Type: application/x-www-form-urlencoded", "403"), ("Content-Type: text/plain", "403"),
            ("Content-Type: application/json", "403"), ("Content-Length: 1", "400"),
        ]
    )
    func crossSiteWrite(fields: String, result: String) throws {
        let access = AdminAccess(needsToken: true, hasToken: true)
        #expect(name(try judge(request("POST /reload", "\(fields)\r\n"), access: access)) == result)
    }

    // MARK: Tokens

    @Test(
        "reading is free on this machine; changes and other machines need a token",
        arguments: [
            (AdminAccess(), "100 200 200 403 403"),
            (AdminAccess(isUnixSocket: true), "100 200 200 200 200"),
            (AdminAccess(needsToken: true), "100 200 401 401 401"),
            (AdminAccess(isUnixSocket: true, needsToken: true), "100 200 401 401 401"),
            (AdminAccess(needsToken: true, hasToken: true), "100 200 200 200 200"),
            (AdminAccess(isRemote: true, needsToken: true), "401 401 401 401 401"),
            // No configuration allows this: it fails closed.
            (AdminAccess(isRemote: true), "401 401 401 401 401"),
            (AdminAccess(isRemote: true, needsToken: true, hasToken: true), "100 200 200 200 200"),
        ]
    )
    func access(access: AdminAccess, expected: String) throws {
        let lines = ["GET /tasks", "GET /cache/entries", "DELETE /cache?all", "POST /reload", "POST /drain"]
        let results = try lines.map { line in
            if case .refused(let problem) = try judge(request(line), access: access) { return "\(problem.status)" }
            return line == "GET /tasks" ? "100" : "200"
        }
        #expect(results.joined(separator: " ") == expected)
    }

    @Test("other machines without a token learn nothing")
    func remote() throws {
        let access = AdminAccess(isRemote: true, needsToken: true)
        for line in ["GET /", "GET /live", "GET /ready", "GET /metrics", "GET /nothing", "PUT /live", "POST /nothing"] {
            #expect(name(try judge(request(line), access: access)) == "401", "\(line)")
        }
        #expect(name(try judge(request("GET /live"), isOwnName: false, access: access)) == "421")
    }

    @Test("reload and drain take POST alone")
    func changes() throws {
        let access = AdminAccess(isUnixSocket: true)
        #expect(name(try judge(request("POST /reload"), access: access)) == "reload")
        #expect(name(try judge(request("POST /reload?dropPins"), access: access)) == "reload, dropping pins")
        #expect(name(try judge(request("POST /reload?dropPins=no"), access: access)) == "400")
        #expect(name(try judge(request("POST /drain"), access: access)) == "drain")
        for line in ["GET /reload", "HEAD /drain", "DELETE /reload", "PUT /drain"] {
            guard case .refused(let problem) = try judge(request(line), access: access) else {
                Issue.record("\(line) is served")
                continue
            }
            #expect(problem.status == 405 && problem.allow.map { "\($0)" } == "POST", "\(line)")
        }
    }

    @Test(
        "a returning reader continues after its last event",
        arguments: [
            ("Last-Event-ID: 41", "stream 42"), ("Last-Event-ID: 0", "stream 1"), ("Last-Event-ID: x", "stream 7"),
            ("Last-Event-ID: -2", "stream 7"), ("Last-Event-ID: 9999999999999999999", "stream 7"),
        ]
    )
    func lastEvent(field: String, result: String) throws {
        #expect(name(try judge(request("GET /tasks/stream?from=7", "\(field)\r\n"))) == result)
    }
}
