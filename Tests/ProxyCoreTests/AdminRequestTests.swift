import HTTPCore
import IOCore
import Testing

@testable import ProxyCore

@Suite("What the admin listener makes of a request")
struct AdminRequestTests {
    private func judge(_ text: String, isOwnName: Bool = true) throws -> AdminRequest {
        var parser = RequestParser()
        var head = RequestHead()
        let (_, outcome) = parser.parse(Array(text.utf8).span, into: &head)
        switch outcome {
        case .complete: return AdminRequest(head, isOwnName: isOwnName)
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
        case .refused(let problem): "\(problem.status)"
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
            ("GET /%6Cive", "404"), ("GET /x/../live", "404"),
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
}
