import HTTPCaching
import HTTPCore
import IOCore
import Testing

@testable import ProxyCore

@Suite("What the admin listener makes of a request")
struct AdminRequestTests {
    private func judge(_ text: String, isOwnName: Bool = true, isLocal: Bool = true) throws -> AdminRequest {
        var parser = RequestParser()
        var head = RequestHead()
        let (_, outcome) = parser.parse(Array(text.utf8).span, into: &head)
        switch outcome {
        case .complete: return AdminRequest(head, isOwnName: isOwnName, isLocal: isLocal)
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
        "paths are those that there are, whatever the query; others are not found",
        arguments: [
            ("GET /live", "live"), ("HEAD /live", "live"), ("GET /ready", "ready"), ("GET /ready?verbose", "ready"),
            ("GET /metrics", "metrics"), ("GET /metrics?name[]=a", "metrics"),
            ("GET http://localhost/metrics", "metrics"),
            ("GET /", "404"), ("GET /Live", "404"), ("GET /live/", "404"), ("GET //live", "404"),
            ("GET /metric", "404"),
            ("GET /%6Cive", "404"), ("GET /x/../live", "404"), ("GET /cache", "cache"), ("HEAD /cache?a", "cache"),
            ("GET /cache/", "404"), ("GET /cache/entry", "404"),
        ]
    )
    func paths(line: String, result: String) throws {
        #expect(name(try judge(request(line))) == result)
    }

    @Test(
        "another method than GET and HEAD is refused, and told which there are",
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
        "a Host that is not its own is refused before anything else is looked at",
        arguments: ["GET /live", "POST /x"]
    )
    func misdirected(line: String) throws {
        guard case .refused(let problem) = try judge(request(line), isOwnName: false) else {
            Issue.record("\(line) is served")
            return
        }
        #expect(problem.status == 421 && problem.code == .misdirectedRequest)
    }

    @Test("a body is refused")
    func body() throws {
        #expect(name(try judge(request("GET /live", "Content-Length: 1\r\n"))) == "400")
        #expect(name(try judge(request("GET /live", "Transfer-Encoding: chunked\r\n"))) == "400")
        #expect(name(try judge(request("GET /live", "Content-Length: 0\r\n"))) == "live")
    }

    @Test(
        "its own names are localhost, the address that was connected to, and those that are configured",
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

    @Test("without a Host, and on a Unix socket by address, there is no own name")
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
        "what is asked of the cache stands in the query, percent-encoded",
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
        "the cache is purged with DELETE alone, which no page can have a browser send",
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
        "a browser's request purges nothing, whatever it says of where it comes from",
        arguments: [
            "Origin: http://localhost:8081", "Origin: null", "ORIGIN: http://evil.example", "Origin:",
            "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "sec-fetch-site: cross-site",
        ]
    )
    func browser(field: String) throws {
        #expect(name(try judge(request("DELETE /cache?all", "\(field)\r\n"))) == "403")
        #expect(name(try judge(request("GET /cache", "\(field)\r\n"))) == "cache")
    }

    @Test("what is stored is told to this machine alone, and purged for it alone")
    func remote() throws {
        func judged(_ line: String) throws -> String { name(try judge(request(line), isLocal: false)) }
        #expect(try judged("DELETE /cache?all") == "403")
        #expect(try judged("GET /cache/entries") == "403")
        #expect(try judged("GET /cache") == "cache" && judged("GET /metrics") == "metrics")
    }
}
