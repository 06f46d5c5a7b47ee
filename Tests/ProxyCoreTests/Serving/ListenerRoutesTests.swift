// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("The routes of a listener")
struct ListenerRoutesTests {
    private let loop: EventLoop

    init() throws { loop = try EventLoop() }

    /// The routes of the first listener of a configuration, and the generation that they are of.
    private func routes(_ members: String) throws -> ListenerRoutes {
        let generation = try generation(members)
        return ListenerRoutes(generation.snapshot.configuration.listeners[0], index: 0, under: generation)
    }

    private func generation(_ members: String) throws -> Generation {
        let folder = try ConfigurationFolder([
            "config.json":
                "{\"version\": 1, \"trustAnchors\": {\"system\": false, \"files\": []}, \(members)}"
        ])
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        try #require(outcome.issues.isEmpty, "\(outcome.issues)")
        let snapshot = try #require(outcome.makeSnapshot())
        let shares = DescriptorShares(limit: 4096, opened: 100, workers: 1)
        return try Generation(snapshot, loop: loop, workers: 1, descriptors: shares)
    }

    /// What is decided, in a few words.
    private func decision(
        _ request: String,
        _ routes: ListenerRoutes,
        inside: InterceptedAuthority? = nil,
        from redirection: Redirection? = nil
    ) throws -> String {
        var parser = RequestParser()
        var head = RequestHead()
        try #require(parser.parse(Array(request.utf8).span, into: &head).outcome == .complete)
        let local = try AddressAndPort(parsing: "127.0.0.1:9001").socketAddress
        let decision =
            if let inside {
                routes.route(for: head, inside: inside, from: redirection)
            } else if let redirection {
                routes.route(for: head, from: redirection)
            } else {
                routes.route(for: head, localAddress: local)
            }
        switch decision {
        case .own: return "own"
        case .refused(let problem, _): return problem.code.rawValue
        case .route(let route):
            switch route.destination {
            case .origin(let endpoint): return "\(endpoint.scheme) \(endpoint.host):\(endpoint.port)" + place(endpoint)
            case .tunnel(let endpoint): return "tunnel \(endpoint.host):\(endpoint.port)" + place(endpoint)
            case .intercept(let endpoint): return "intercepted" + place(endpoint)
            case .requests: return "intercepted"
            case .refused(let problem): return problem.code.rawValue
            }
        }
    }

    private func place(_ endpoint: Endpoint) -> String { endpoint.fixedAddress.map { " at \($0)" } ?? "" }

    private static let forward = "\"listeners\": [{\"address\": \"127.0.0.1:0\"}]"
    private static let gateway = """
        "listeners": [{"address": "127.0.0.1:0", "mode": "gateway", "upstream": "https://api.example.com",
                       "allowedHosts": ["api.internal"]}]
        """

    @Test(
        "A forward listener takes whole URLs, CONNECT, and what is for the proxy itself",
        arguments: [
            ("GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "http example.org:80"),
            ("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", "connect_denied"),
            ("OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "own"),
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "request_invalid"),
            ("PURGE http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "request_invalid"),
        ]
    )
    func forward(request: String, expected: String) throws {
        let routes = try routes(Self.forward)
        // The second time the kept route is found.
        for _ in 0..<2 { #expect(try decision(request, routes) == expected) }
    }

    @Test(
        "A gateway takes requests under its own names alone",
        arguments: [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n\r\n", "https api.example.com:443"),
            ("GET / HTTP/1.1\r\nHost: localhost:9001\r\n\r\n", "https api.example.com:443"),
            ("GET / HTTP/1.1\r\nHost: api.internal\r\n\r\n", "https api.example.com:443"),
            ("GET / HTTP/1.0\r\n\r\n", "https api.example.com:443"),
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "misdirected_request"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", "request_denied"),
            ("CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", "connect_denied"),
        ]
    )
    func gateway(request: String, expected: String) throws {
        #expect(try decision(request, routes(Self.gateway)) == expected)
    }

    @Test(
        "A gateway's own address is one of its names, and no other address is",
        arguments: [
            ("127.0.0.1:0", "127.0.0.1", "https api.example.com:443"),
            ("127.0.0.2:0", "127.0.0.2", "https api.example.com:443"),
            ("127.0.0.2:0", "127.0.0.3", "misdirected_request"),
            ("0.0.0.0:0", "127.0.0.1", "https api.example.com:443"),
            ("0.0.0.0:0", "0.0.0.0", "misdirected_request"),
            ("[::1]:0", "[::1]", "https api.example.com:443"),
        ]
    )
    func gatewayAddress(bound: String, host: String, expected: String) throws {
        let listener = """
            "listeners": [{"address": "\(bound)", "mode": "gateway", "upstream": "https://api.example.com"
                           \(bound.hasPrefix("0.") ? ", \"allowRemoteClients\": true" : "")}]
            """
        #expect(try decision("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n", routes(listener)) == expected)
    }

    @Test(
        "A request inside a CONNECT goes to the CONNECT's host and port",
        arguments: [
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "https example.org:443"),
            ("GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", "misdirected_request"),
            ("GET / HTTP/1.1\r\nHost: example.org:444\r\n\r\n", "misdirected_request"),
            ("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", "connect_denied"),
            ("PURGE / HTTP/1.1\r\nHost: example.org\r\n\r\n", "request_invalid"),
        ]
    )
    func inside(request: String, expected: String) throws {
        let authority = InterceptedAuthority(scheme: .https, host: try Host("example.org"), port: 443)
        #expect(try decision(request, routes(Self.forward), inside: authority) == expected)
    }

    @Test("A kept route is forgotten with its policy")
    func adoption() throws {
        let request = "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n"
        let routes = try routes(Self.forward)
        #expect(try decision(request, routes) == "http example.org:80")
        routes.adopt(try generation("\(Self.forward), \"access\": {\"allowHosts\": [\"other.example\"]}"))
        #expect(try decision(request, routes) == "host_denied")
    }

    // MARK: Transparent

    private static let transparent = """
        "listeners": [{"address": "127.0.0.1:0", "mode": "transparent", "allowHosts": ["*.org", "*.test", "192.0.2.1", "192.0.2.9"]}],
        "access": {"connectPorts": [443, 80]},
        "hosts": {"tunnel.test": {"connect": "tunnel"}, "192.0.2.1": {"connect": "tunnel"},
                  "fixed.test": {"resolve": "192.0.2.1:8080"}, "secure.test": {"upgrade": true}}
        """

    private func redirection(_ original: String, isTLS: Bool = false) throws -> Redirection {
        Redirection(original: try AddressAndPort(parsing: original), refusal: nil, isTLS: isTLS)
    }

    @Test(
        "A redirected request goes to its Host, at the original address",
        arguments: [
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "192.0.2.1:80", "http example.org:80 at 192.0.2.1"),
            ("GET / HTTP/1.1\r\nHost: example.org:80\r\n\r\n", "192.0.2.1:80", "http example.org:80 at 192.0.2.1"),
            ("GET / HTTP/1.1\r\nHost: a.org\r\n\r\n", "[2001:db8::1]:8080", "http a.org:8080 at 2001:db8::1"),
            ("GET / HTTP/1.1\r\nHost: a.org:8080\r\n\r\n", "192.0.2.1:8080", "http a.org:8080 at 192.0.2.1"),
            ("OPTIONS * HTTP/1.1\r\nHost: a.org\r\n\r\n", "192.0.2.1:80", "http a.org:80 at 192.0.2.1"),
            ("GET / HTTP/1.1\r\nHost: secure.test\r\n\r\n", "192.0.2.1:80", "https secure.test:443 at 192.0.2.1"),
            ("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", "192.0.2.1:80", "http 192.0.2.1:80"),
            ("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", "[::ffff:192.0.2.1]:80", "http 192.0.2.1:80"),
            ("GET / HTTP/1.1\r\nHost: fixed.test\r\n\r\n", "192.0.2.1:80", "http fixed.test:80 at 192.0.2.1"),
            ("GET / HTTP/1.1\r\nHost: fixed.test\r\n\r\n", "192.0.2.2:80", "misdirected_request"),
            ("GET / HTTP/1.1\r\nHost: 192.0.2.9\r\n\r\n", "192.0.2.1:80", "misdirected_request"),
            ("GET / HTTP/1.1\r\nHost: example.org:81\r\n\r\n", "192.0.2.1:80", "misdirected_request"),
            ("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", "192.0.2.1:80", "host_denied"),
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "169.254.169.254:80", "address_denied"),
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "127.0.0.1:80", "address_denied"),
            ("GET / HTTP/1.0\r\n\r\n", "192.0.2.1:80", "request_invalid"),
            ("GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n", "192.0.2.1:80", "request_invalid"),
            ("CONNECT a.org:443 HTTP/1.1\r\nHost: a.org:443\r\n\r\n", "192.0.2.1:80", "request_invalid"),
            ("PURGE / HTTP/1.1\r\nHost: example.org\r\n\r\n", "192.0.2.1:80", "request_invalid"),
        ]
    )
    func redirected(request: String, original: String, expected: String) throws {
        let routes = try routes(Self.transparent)
        for _ in 0..<2 { #expect(try decision(request, routes, from: redirection(original)) == expected) }
    }

    @Test(
        "A redirected hello is judged as a CONNECT for its name and port",
        arguments: [
            ("tunnel.test", "192.0.2.1:443", "tunnel tunnel.test:443 at 192.0.2.1"),
            ("192.0.2.1", "192.0.2.1:443", "tunnel 192.0.2.1:443"), ("example.org", "192.0.2.1:443", "connect_denied"),
            ("tunnel.test", "192.0.2.1:8443", "connect_denied"), ("tunnel.test", "127.0.0.1:443", "address_denied"),
            ("tunnel.test", "192.0.2.1:80", "tunnel tunnel.test:80 at 192.0.2.1"),
            ("other.example", "192.0.2.1:443", "host_denied"),
        ]
    )
    func redirectedHello(host: String, original: String, expected: String) throws {
        let port = try AddressAndPort(parsing: original).port
        let request = "CONNECT \(host):\(port) HTTP/1.1\r\nHost: \(host):\(port)\r\n\r\n"
        let routes = try routes(Self.transparent)
        for _ in 0..<2 {
            #expect(try decision(request, routes, from: redirection(original, isTLS: true)) == expected)
        }
    }

    @Test("Two original addresses of one host are two places")
    func places() throws {
        let routes = try routes(Self.transparent)
        let request = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"
        for number in [1, 2, 1] {
            let found = try decision(request, routes, from: redirection("203.0.113.\(number):80"))
            #expect(found == "http example.org:80 at 203.0.113.\(number)")
        }
    }

    @Test("Where the original destination is ignored, the name decides")
    func ignored() throws {
        let members = Self.transparent.replacing(
            "\"transparent\",",
            with: "\"transparent\", \"originalDestination\": \"ignore\","
        )
        let routes = try routes(members)
        let request = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"
        #expect(try decision(request, routes, from: redirection("127.0.0.1:80")) == "http example.org:80")
    }

    @Test(
        "A request inside a redirected hello's TLS goes to the hello's name",
        arguments: [
            ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "https example.org:443 at 192.0.2.1"),
            ("GET / HTTP/1.1\r\nHost: tunnel.test\r\n\r\n", "misdirected_request"),
        ]
    )
    func insideRedirected(request: String, expected: String) throws {
        let authority = InterceptedAuthority(scheme: .https, host: try Host("example.org"), port: 443)
        let from = try redirection("192.0.2.1:443", isTLS: true)
        #expect(try decision(request, routes(Self.transparent), inside: authority, from: from) == expected)
    }
}
