// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore
@testable import SessionCore

@Suite("Where requests go")
struct RouterTests {
    /// A router over files as a person writes them.
    private func router(_ configuration: String, pins: String? = nil) throws -> Router {
        let folder = try ConfigurationFolder(["config.json": configuration])
        if let pins { try folder.write("pins/test.json", pins) }
        let outcome = ConfigurationLoader.load(path: folder.path("config.json"))
        try #require(outcome.issues.isEmpty, "\(outcome.issues)")
        return Router(snapshot: try #require(outcome.makeSnapshot()))
    }

    private static let configuration = """
        { "version": 1, "pins": "pins", "trustAnchors": { "system": false, "files": [] },
          "hosts": { "upgraded.example.com": { "upgrade": true, "httpVersion": "2", "rewriteUpgraded": false },
                     "plain.example.com": { "httpVersion": "2" },
                     "resolved.example.com": { "resolve": "127.0.0.1:8443" } } }
        """

    private func route(_ url: String, _ router: Router, allowHosts: HostPatternSet = .any) throws -> Route {
        var parser = RequestParser()
        var head = RequestHead()
        let text = Array("GET \(url) HTTP/1.0\r\n\r\n".utf8)
        try #require(parser.parse(text.span, into: &head).outcome == .complete)
        guard let host = head.host, let port = head.port else { throw TimedOut("a host in \(url)") }
        return router.route(
            isHTTPS: head.scheme == .https,
            host: host,
            port: port,
            allowHosts: allowHosts
        )
    }

    private func endpoint(_ url: String, _ router: Router) throws -> Endpoint {
        guard case .origin(let endpoint) = try route(url, router).destination else {
            throw TimedOut("a route to \(url)")
        }
        return endpoint
    }

    private func refusal(_ url: String, _ router: Router, allowHosts: HostPatternSet = .any) throws -> Problem.Code? {
        guard case .refused(let problem) = try route(url, router, allowHosts: allowHosts).destination else {
            return nil
        }
        return problem.code
    }

    @Test("only an HTTPS proxy's own host and port bypass it", arguments: ["https", "http", "socks5h"])
    func ownAddress(scheme: String) throws {
        let router = try router(
            """
            { "version": 1, "trustAnchors": { "system": false, "files": [] },
              "upstreamProxy": "\(scheme)://proxy.example.com:3128" }
            """
        )
        #expect((try endpoint("https://proxy.example.com:3128/", router).proxy == nil) == (scheme == "https"))
        #expect(try endpoint("https://proxy.example.com:3129/", router).proxy != nil)
        #expect(try endpoint("https://other.example.com:3128/", router).proxy != nil)
    }

    private static func entry(_ members: String) -> String {
        """
        { "version": 1, "trustAnchors": { "system": false, "files": [] },
          "hosts": { "example.com": { "includeSubdomains": true, \(members) } } }
        """
    }

    /// Each has the members of an entry, whether its place digests differ by scheme, and whether `p.example.com:443` is its proxy.
    @Test(
        "hosts of one entry have one place digest a scheme, in every order",
        arguments: [
            ("\"resolve\": \"127.0.0.1:8443\"", false, false),
            ("\"upstreamProxy\": \"http://p.example.com:443\"", false, false),
            ("\"upstreamProxy\": \"http://a:b@p.example.com:443\", \"resolve\": \"127.0.0.1:8443\"", false, false),
            ("\"upstreamProxy\": \"https://p.example.com:443\"", false, true),
            ("\"upstreamProxy\": \"https://p.example.com:8443\"", false, false),
            ("\"tlsServerName\": \"s.example\"", true, false),
            ("\"upstreamProxy\": \"https://p.example.com:443\", \"tlsServerName\": \"s.example\"", true, true),
        ]
    )
    func placeDigests(members: String, differsByScheme: Bool, hasProxyInside: Bool) throws {
        let configuration = Self.entry(members)
        let urls = ["https", "http"].flatMap { scheme in ["a", "b", "p"].map { "\(scheme)://\($0).example.com:443/" } }
        // Each from a router that has found no other endpoint.
        let alone = try urls.map { url in
            let fresh = try router(configuration)
            return try endpoint(url, fresh).placeDigest
        }
        #expect(!alone[0].isEmpty)
        #expect(alone[0] == alone[1] && alone[3] == alone[4])
        #expect((alone[0] != alone[3]) == differsByScheme)
        #expect((alone[0] != alone[2]) == hasProxyInside && (alone[3] != alone[5]) == hasProxyInside)
        for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 1, 0, 5, 3, 4], [4, 0, 3, 1, 5, 2]] {
            let shared = try router(configuration)
            for place in order {
                let digest = try endpoint(urls[place], shared).placeDigest
                #expect(digest == alone[place], "\(urls[place]) in the order \(order)")
            }
        }
    }

    @Test("a probe's place digest counts for no other endpoint, nor theirs for it")
    func probedPlace() throws {
        let host = try Host("a.example.com")
        func probe(_ router: Router) throws -> [UInt8] {
            let found = router.probeEndpoint(host: host, port: 443, httpVersion: .http1, profile: .legacy)
            return try found.get().placeDigest
        }
        for members in [
            "\"tlsServerName\": \"s.example\"",
            "\"upstreamProxy\": \"https://p.example.com:443\", \"tlsProfile\": \"compatible\"",
        ] {
            let configuration = Self.entry(members)
            let urls = ["https://a.example.com/", "https://b.example.com/"]
            let unasked = try router(configuration)
            let unprobed = try router(configuration)
            let alone = try endpoint(urls[0], unprobed).placeDigest
            let probed = try probe(unasked)
            #expect(probed != alone)
            for url in urls {
                let afterProbe = try endpoint(url, unasked).placeDigest
                #expect(afterProbe == alone, "\(url): \(members)")
            }
            let afterOthers = try probe(unprobed)
            #expect(afterOthers == probed, "\(members)")
        }
    }

    @Test(
        "a pinned host is reached over TLS: 80 becomes 443, other ports stay",
        arguments: [
            ("http://pinned.example.com/", 443), ("http://pinned.example.com:80/", 443),
            ("http://pinned.example.com:443/", 443), ("http://pinned.example.com:8080/", 8080),
            ("https://pinned.example.com/", 443), ("https://pinned.example.com:80/", 80),
            ("http://PINNED.example.com./", 443),
        ]
    )
    func pinnedHost(url: String, port: Int) throws {
        let router = try router(Self.configuration, pins: pinFile("pinned.example.com"))
        let endpoint = try endpoint(url, router)
        #expect(endpoint.scheme == .https)
        #expect(Int(endpoint.port) == port)
        #expect(endpoint.policy.configuration.pinningMode == .publicKey)
        #expect(try route(url, router).isUpgraded == url.hasPrefix("http:"))
    }

    @Test(
        "a pinned host is reached over TLS in every mode, after expiry too",
        arguments: [
            "\"enforcePinning\": false,", "\"expiration\": \"2020-01-31\",",
            "\"expiration\": \"2020-01-31\", \"onExpiration\": \"unpinned\",",
        ]
    )
    func pinnedHostWhateverHolds(members: String) throws {
        let file = pinFile("pinned.example.com", members: members)
        for url in ["http://pinned.example.com/", "http://pinned.example.com:8080/"] {
            #expect(try endpoint(url, router(Self.configuration, pins: file)).scheme == .https)
        }
    }

    @Test("a pinned host's unlisted port is never reached without TLS")
    func otherPort() throws {
        let router = try router(Self.configuration, pins: pinFile("pinned.example.com", members: "\"ports\": [443],"))
        let other = try endpoint("http://pinned.example.com:8080/", router)
        #expect(other.scheme == .https)
        #expect(other.policy.configuration.pinningMode == .none)
        #expect(try endpoint("http://pinned.example.com/", router).policy.configuration.pinningMode == .publicKey)
    }

    @Test("a host of mode none, and a pinned host's subdomains, are upgraded")
    func namedOnly() throws {
        let pins = """
            { "version": 1, "pinnedDomains": { "named.example.com":
              { "pinningMode": "none", "includeSubdomains": true } } }
            """
        let router = try router(Self.configuration, pins: pins)
        for host in ["named.example.com", "a.b.named.example.com"] {
            #expect(try endpoint("http://\(host)/", router).scheme == .https)
        }
        #expect(try endpoint("http://othernamed.example.com/", router).scheme == .http)
    }

    @Test("upgrade: true does it without a pin; httpVersion holds over TLS alone")
    func upgraded() throws {
        let router = try router(Self.configuration, pins: pinFile("pinned.example.com"))
        let upgraded = try route("http://upgraded.example.com/", router)
        #expect(upgraded.isUpgraded)
        #expect(!upgraded.rewritesUpgraded)
        let endpoint = try endpoint("http://upgraded.example.com/", router)
        #expect(endpoint.scheme == .https)
        #expect(endpoint.port == 443)
        #expect(endpoint.httpVersion == .http2)
        #expect(endpoint.policy.configuration.pinningMode == .none)
        #expect(try self.endpoint("http://plain.example.com/", router).httpVersion == .http1)
        #expect(try self.endpoint("https://plain.example.com/", router).httpVersion == .http2)
    }

    @Test("any other host is reached as requested")
    func unpinned() throws {
        let router = try router(Self.configuration, pins: pinFile("pinned.example.com"))
        let plain = try endpoint("http://other.example.com/", router)
        #expect(plain.scheme == .http)
        #expect(plain.port == 80)
        #expect(try endpoint("http://other.example.com:8080/", router).port == 8080)
        let secure = try endpoint("https://other.example.com/", router)
        #expect(secure.scheme == .https)
        #expect(secure.port == 443)
    }

    @Test("unpinnedHosts deny refuses every host without a pin file")
    func unpinnedDenied() throws {
        let text = Self.configuration.replacingOccurrences(
            of: "\"pins\":",
            with: "\"unpinnedHosts\": \"deny\", \"pins\":"
        )
        let router = try router(text, pins: pinFile("pinned.example.com"))
        #expect(try refusal("http://other.example.com/", router) == .unpinnedDenied)
        #expect(try refusal("https://upgraded.example.com/", router) == .unpinnedDenied)
        #expect(try refusal("http://pinned.example.com/", router) == nil)
    }

    @Test("unpinnedHosts deny covers ports that a domain leaves out")
    func unpinnedPortDenied() throws {
        let text = Self.configuration.replacingOccurrences(
            of: "\"pins\":",
            with: "\"unpinnedHosts\": \"deny\", \"pins\":"
        )
        let router = try router(text, pins: pinFile("pinned.example.com", members: "\"ports\": [443, 8443],"))
        for url in ["https://pinned.example.com:8080/", "http://pinned.example.com:8080/"] {
            #expect(try refusal(url, router) == .unpinnedDenied, "\(url)")
        }
        for url in ["https://pinned.example.com:8443/", "http://pinned.example.com/", "https://pinned.example.com/"] {
            #expect(try refusal(url, router) == nil, "\(url)")
        }
        let excluded = """
            { "version": 1, "pinnedDomains": {
              "example.com": { "includeSubdomains": true, "pins": [], "pinningMode": "none" },
              "out.example.com": { "excludeFromParentPolicy": true } } }
            """.replacingOccurrences(of: "\"pins\": [], ", with: "")
        let named = try self.router(text, pins: excluded)
        #expect(try refusal("https://out.example.com/", named) == .unpinnedDenied)
        #expect(try refusal("https://in.example.com/", named) == nil)
    }

    @Test("deny wins over allow, and a listener's allowHosts adds to both")
    func hostRules() throws {
        let text = Self.configuration.replacingOccurrences(
            of: "\"pins\":",
            with: "\"access\": { \"denyHosts\": [\"*.denied.example\"], \"allowHosts\": [\"*\"] }, \"pins\":"
        )
        let router = try router(text, pins: pinFile("pinned.example.com"))
        #expect(try refusal("http://a.denied.example/", router) == .hostDenied)
        #expect(try refusal("http://denied.example/", router) == nil)
        let narrow = HostPatternSet([.exactly(try Host("pinned.example.com"))])
        #expect(try refusal("http://pinned.example.com/", router, allowHosts: narrow) == nil)
        #expect(try refusal("http://other.example.com/", router, allowHosts: narrow) == .hostDenied)
    }

    @Test("an address may be dialled for the host whose resolve names it")
    func resolve() throws {
        let router = try router(Self.configuration, pins: pinFile("pinned.example.com"))
        let address = try AddressAndPort(parsing: "127.0.0.1:8443").socketAddress
        let rule = try #require(try endpoint("https://resolved.example.com/", router).dialRule)
        #expect(rule(address) == nil)
        #expect(rule(try AddressAndPort(parsing: "127.0.0.1:8444").socketAddress) != nil)
        let other = try #require(try endpoint("https://other.example.com/", router).dialRule)
        #expect(other(address) != nil)
        #expect(other(try AddressAndPort(parsing: "192.0.2.1:443").socketAddress) == nil)
        #expect(try refusal("http://127.0.0.1:8443/", router) == .addressDenied)
    }

    @Test("the log names the origin, without its usual port")
    func logPrefix() throws {
        let router = try router(Self.configuration, pins: pinFile("pinned.example.com"))
        for (url, prefix) in [
            ("http://pinned.example.com/", "https://pinned.example.com"),
            ("http://pinned.example.com:81/", "https://pinned.example.com:81"),
            ("http://other.example.com/", "http://other.example.com"),
            ("https://[2001:DB8::1]:444/", "https://[2001:db8::1]:444"),
        ] {
            #expect(String(decoding: try route(url, router).logPrefix, as: UTF8.self) == prefix)
        }
    }
}
