// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore
@testable import SessionCore

@Suite("Whether a request may be sent, and where to")
final class RequestAdmissionTests {
    private static let pseudonym = Array("pinproxy-1a2b".utf8)

    private var admission = RequestAdmission()

    /// A head, from its request line and its other lines.
    private static func head(_ lines: [String]) throws -> RequestHead {
        var parser = RequestParser()
        var head = RequestHead()
        let text = (lines + ["", ""]).joined(separator: "\r\n")
        guard case .complete = parser.parse(Array(text.utf8).span, into: &head).outcome else { throw NoRequest() }
        return head
    }

    private struct NoRequest: Error {}

    private static func endpoint(_ host: String) throws -> Endpoint {
        Endpoint(
            scheme: .http,
            host: try Host(host),
            port: 80,
            policy: .unpinned,
            anchors: TrustAnchors(certificates: []),
            generation: 1
        )
    }

    /// The rules for a host, from a text in the form of the configuration.
    private static func rules(_ text: String, for host: String) throws -> HostRules {
        let read = readConfiguration(#"{"version": 1, "requests": {"policy": "deny", "rules": [\#(text)]}}"#)
        try #require(read.issues.isEmpty, "\(read.issues)")
        return RequestRules(try #require(read.configuration.requests)).rules(
            for: try Host(host),
            port: 80,
            defaultPort: 80
        )
    }

    private static func route(_ destination: Route.Destination, _ rules: HostRules? = nil) -> Route {
        Route(
            destination: destination,
            isUpgraded: false,
            rewritesUpgraded: false,
            logPrefix: Array("http://a.example".utf8),
            rules: rules
        )
    }

    private static func origin(_ rules: HostRules? = nil) throws -> Route {
        route(.origin(try endpoint("a.example")), rules)
    }

    private func admit(
        _ decision: ListenerRoutes.Decision,
        user: String? = nil,
        canHandOver: Bool = true,
        _ desk: CredentialDesk? = nil,
        _ lines: String...
    ) throws -> String {
        let head = try Self.head(lines.isEmpty ? ["GET http://a.example/x HTTP/1.1", "Host: a.example"] : lines)
        switch decision {
        case .own: return "own"
        case .refused(let problem, let route):
            admission.note(route)
            return problem.code.rawValue
        case .route(let route):
            return Self.text(
                admission.admit(
                    head,
                    on: route,
                    user: user.map { Array($0.utf8) },
                    pseudonym: Self.pseudonym,
                    canHandOver: canHandOver,
                    desk
                )
            )
        }
    }

    private static func text(_ step: RequestAdmission.Step) -> String {
        switch step {
        case .send(let offer, let endpoint, let step):
            let next =
                switch step {
                case .ready: ""
                case .gather: " gathers"
                case .wait: " waits"
                case .refused(let problem): " \(problem.code.rawValue)"
                }
            return "send \(endpoint.host)\(offer == nil ? "" : " upgrade")\(next)"
        case .tunnel(let endpoint): return "tunnel \(endpoint.host)"
        case .intercept(let endpoint): return "intercept \(endpoint.host)"
        case .serve(let authority): return "serve \(authority.host)"
        case .respondToOptions: return "options"
        case .refuse(let problem): return problem.code.rawValue
        }
    }

    // MARK: Without rules

    @Test("A request is sent to the origin of its route")
    func origin() throws {
        let route = try Self.origin()
        #expect(try admit(.route(route)) == "send a.example")
        #expect(admission.route === route && admission.ruling.allowingRule == nil)
    }

    @Test("A refused request keeps its route for the log")
    func refusal() throws {
        let route = try Self.origin()
        #expect(try admit(.refused(Problem.purgeOnProxyPort, route)) == "request_invalid")
        #expect(admission.route === route)
        #expect(try admit(.refused(Problem.purgeOnProxyPort, nil)) == "request_invalid")
        #expect(admission.route == nil)
        #expect(try admit(.route(Self.route(.refused(Problem(.hostDenied, "no"))))) == "host_denied")
    }

    @Test("The proxy responds to OPTIONS that it may not forward")
    func options() throws {
        let route = try Self.origin()
        for (method, hops, expected) in [
            ("OPTIONS", 0, "options"), ("OPTIONS", 1, "send a.example"), ("GET", 0, "send a.example"),
        ] {
            let lines = ("\(method) http://a.example/ HTTP/1.1", "Host: a.example", "Max-Forwards: \(hops)")
            #expect(try admit(.route(route), nil, lines.0, lines.1, lines.2) == expected)
        }
        let lines = ("OPTIONS http://a.example/ HTTP/1.1", "Host: a.example")
        #expect(try admit(.route(route), nil, lines.0, lines.1) == "send a.example")
        // No rule is asked about what is not sent.
        let none = try Self.origin(try Self.rules(Self.getOnly, for: "b.example"))
        #expect(try admit(.route(none), nil, lines.0, lines.1, "Max-Forwards: 0") == "options")
        #expect(try admit(.route(none), nil, lines.0, lines.1) == "request_denied")
    }

    @Test(
        "A request that this proxy has sent itself is refused",
        arguments: [
            ("Via: 1.1 pinproxy-1a2b", "loop_detected"), ("Via: 1.1 first, 1.1 pinproxy-1a2b", "loop_detected"),
            ("CDN-Loop: pinproxy-1a2b", "loop_detected"), ("Via: 1.1 pinproxy-1a2c", "send a.example"),
            ("X-Via: 1.1 pinproxy-1a2b", "send a.example"),
        ]
    )
    func loop(line: String, expected: String) throws {
        let request = ("GET http://a.example/ HTTP/1.1", "Host: a.example")
        #expect(try admit(.route(Self.origin()), nil, request.0, request.1, line) == expected)
        // A CONNECT that comes back is no better than a request.
        if expected == "loop_detected" {
            let tunnel = Self.route(.tunnel(try Self.endpoint("a.example")))
            let connect = ("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443")
            #expect(try admit(.route(tunnel), nil, connect.0, connect.1, line) == expected)
        }
    }

    @Test("Another protocol is offered only where the client's connection can carry it")
    func upgrades() throws {
        let lines = ("GET http://a.example/ HTTP/1.1", "Host: a.example", "Upgrade: websocket", "Connection: upgrade")
        for (canHandOver, expected) in [(true, "send a.example upgrade"), (false, "send a.example")] {
            let step = try admit(
                .route(Self.origin()),
                canHandOver: canHandOver,
                nil,
                lines.0,
                lines.1,
                lines.2,
                lines.3
            )
            #expect(step == expected)
        }
    }

    @Test("A CONNECT is relayed, intercepted or served, as its route says")
    func connects() throws {
        let endpoint = try Self.endpoint("a.example")
        let authority = InterceptedAuthority(scheme: .http, host: try Host("a.example"), port: 80)
        #expect(try admit(.route(Self.route(.tunnel(endpoint)))) == "tunnel a.example")
        #expect(try admit(.route(Self.route(.intercept(endpoint)))) == "intercept a.example")
        #expect(try admit(.route(Self.route(.requests(authority)))) == "serve a.example")
    }

    @Test("A CONNECT with a body, or in HTTP/2, is refused, whatever its route")
    func impossibleConnects() throws {
        let endpoint = try Self.endpoint("a.example")
        let authority = InterceptedAuthority(scheme: .http, host: try Host("a.example"), port: 80)
        let lines = ("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443")
        for destination in [Route.Destination.tunnel(endpoint), .intercept(endpoint), .requests(authority)] {
            let route = Self.route(destination)
            #expect(try admit(.route(route), nil, lines.0, lines.1, "Transfer-Encoding: chunked") == "request_invalid")
            #expect(try admit(.route(route), canHandOver: false, nil, lines.0, lines.1) == "connect_denied")
            #expect(try admit(.route(route), nil, lines.0, lines.1).hasSuffix(" a.example"))
        }
        // The rules are asked first, so that their counts do not depend on it.
        let none = Self.route(.tunnel(endpoint), try Self.rules(Self.getOnly, for: "b.example"))
        #expect(try admit(.route(none), canHandOver: false, nil, lines.0, lines.1) == "request_denied")
    }

    // MARK: By rules

    private static let mineOnly = #"{"id": "me", "host": "a.example", "user": "me", "then": "allow"}"#
    private static let getOnly = #"{"id": "get", "host": "a.example", "method": "GET", "then": "allow"}"#

    @Test("Rules judge method, upgrade and user of a request")
    func rules() throws {
        let route = try Self.origin(try Self.rules(Self.getOnly, for: "a.example"))
        #expect(try admit(.route(route)) == "send a.example" && admission.ruling.allowingRule == 0)
        let post = ("POST http://a.example/x HTTP/1.1", "Host: a.example")
        #expect(try admit(.route(route), nil, post.0, post.1) == "request_denied")
        #expect(admission.ruling.allowingRule == nil)

        let path = #"{"id": "path", "host": "a.example", "path": "/x", "then": "allow"}"#
        let paths = try Self.origin(try Self.rules(path, for: "a.example"))
        let other = ("GET http://a.example/y HTTP/1.1", "Host: a.example")
        #expect(try admit(.route(paths)) == "send a.example")
        #expect(try admit(.route(paths), nil, other.0, other.1) == "request_denied")
        // A field of the client may say another method to the server.
        let override = "X-HTTP-Method-Override: DELETE"
        #expect(try admit(.route(route), nil, other.0, other.1, override) == "request_denied")

        let users = try Self.rules(Self.mineOnly, for: "a.example")
        #expect(try admit(.route(Self.origin(users)), user: "me") == "send a.example")
        #expect(try admit(.route(Self.origin(users)), user: "you") == "request_denied")
        #expect(try admit(.route(Self.origin(users))) == "request_denied")

        let lines = ("GET http://a.example/ HTTP/1.1", "Host: a.example", "Upgrade: websocket", "Connection: upgrade")
        #expect(try admit(.route(route), nil, lines.0, lines.1, lines.2, lines.3) == "request_denied")
        #expect(
            try admit(.route(route), canHandOver: false, nil, lines.0, lines.1, lines.2, lines.3) == "send a.example"
        )
    }

    @Test("The verdict about an earlier request is not that of one without rules")
    func latestVerdict() throws {
        let rules = try Self.rules(Self.getOnly, for: "a.example")
        #expect(try admit(.route(Self.origin(rules))) == "send a.example")
        // What its route refuses before any rule is asked has no verdict.
        #expect(try admit(.route(Self.route(.refused(Problem(.hostDenied, "no")), rules))) == "host_denied")
        #expect(admission.ruling.allowingRule == nil)
    }

    @Test("A CONNECT is denied if no request in it could be sent")
    func ruledConnects() throws {
        let endpoint = try Self.endpoint("a.example")
        let authority = InterceptedAuthority(scheme: .http, host: try Host("a.example"), port: 80)
        let some = try Self.rules(Self.getOnly, for: "a.example")
        #expect(try admit(.route(Self.route(.tunnel(endpoint), some))) == "request_denied")
        #expect(try admit(.route(Self.route(.intercept(endpoint), some))) == "intercept a.example")
        #expect(try admit(.route(Self.route(.requests(authority), some))) == "serve a.example")
        // The requests in it are judged and counted; the CONNECT has no verdict of its own.
        #expect(admission.ruling.allowingRule == nil)
        #expect(some.all.tallies.map(\.count) == [0, 1], "the tunnel alone was counted")

        let none = try Self.rules(Self.getOnly, for: "b.example")
        #expect(try admit(.route(Self.route(.intercept(endpoint), none))) == "request_denied")
        #expect(try admit(.route(Self.route(.requests(authority), none))) == "request_denied")

        let all = try Self.rules(#"{"id": "all", "host": "a.example", "then": "allow"}"#, for: "a.example")
        #expect(try admit(.route(Self.route(.tunnel(endpoint), all))) == "tunnel a.example")
        let mine = try Self.rules(Self.mineOnly, for: "a.example")
        #expect(try admit(.route(Self.route(.tunnel(endpoint), mine)), user: "me") == "tunnel a.example")
        #expect(try admit(.route(Self.route(.tunnel(endpoint), mine)), user: "you") == "request_denied")
        #expect(try admit(.route(Self.route(.intercept(endpoint), mine)), user: "me") == "intercept a.example")
        #expect(try admit(.route(Self.route(.intercept(endpoint), mine)), user: "you") == "request_denied")
    }

    // MARK: Credentials

    /// The credentials of the first rule: a key that a command prints, which has not run.
    private static func desk(
        _ loop: EventLoop,
        _ source: CredentialSource = .command(["/bin/true"])
    ) -> CredentialDesk {
        var configuration = Configuration()
        configuration.credentials = [CredentialDefinition(name: "key", source: source)]
        var requests = RequestsConfiguration()
        var rule = RequestRule(id: "get", .allow)
        rule.credentials = ["key"]
        requests.rules.append(rule)
        configuration.requests = requests
        return CredentialDesk(CredentialBoard(count: 1, loop: loop) { _, _ in }, configuration, loop: loop)
    }

    @Test("A request gets the credentials of the rule that lets it through")
    func credentials() throws {
        let loop = try EventLoop()
        loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0))
        let desk = Self.desk(loop)
        let rules = try Self.rules(Self.getOnly, for: "a.example")
        #expect(try admit(.route(Self.origin(rules)), desk) == "send a.example waits")
        #expect(try admit(.route(Self.origin(rules)), nil) == "send a.example")
        // No rule, no credentials.
        #expect(try admit(.route(Self.origin()), desk) == "send a.example")

        let other = #"{"id": "no", "host": "b.example", "then": "deny"},"# + Self.getOnly
        let second = try Self.rules(other, for: "a.example")
        #expect(try admit(.route(Self.origin(second)), desk) == "send a.example")
        #expect(admission.ruling.allowingRule == 1 && admission.credentials.rule == nil)
        let post = ("POST http://a.example/x HTTP/1.1", "Host: a.example")
        #expect(try admit(.route(Self.origin(rules)), desk, post.0, post.1) == "request_denied")
    }

    // MARK: Hops

    private func hop(_ method: HTTPMethod, _ url: String, keepsBody: Bool = false) throws -> RedirectMachine.Hop {
        RedirectMachine.Hop(
            url: try #require(AbsoluteURL(url)),
            method: method,
            keepsBody: keepsBody,
            crossesOrigins: false
        )
    }

    @Test("A hop is judged by its own method and path, as the client's user")
    func hops() throws {
        let text = #"{"id": "me", "host": "a.example", "user": "me", "method": "GET", "path": "/x", "then": "allow"}"#
        let rules = try Self.rules(text, for: "a.example")
        let (me, none) = (Array("me".utf8), HeaderFields())
        let (right, path) = (try hop(.get, "http://a.example/x"), try hop(.get, "http://a.example/y"))
        let method = try hop(.post, "http://a.example/x")
        #expect(admission.refusal(ofHop: right, by: rules, fields: none, user: me) == nil)
        #expect(admission.ruling.allowingRule == 0)
        #expect(admission.refusal(ofHop: path, by: rules, fields: none, user: me)?.code == .requestDenied)
        #expect(admission.refusal(ofHop: method, by: rules, fields: none, user: me)?.code == .requestDenied)
        #expect(admission.refusal(ofHop: right, by: rules, fields: none, user: nil)?.code == .requestDenied)
        #expect(admission.ruling.allowingRule == nil)
        // A field of the client may say another method to the server.
        var fields = HeaderFields()
        let (name, value) = (Array("X-HTTP-Method-Override".utf8), Array("DELETE".utf8))
        fields.append(name: name.span, value: value.span)
        #expect(admission.refusal(ofHop: right, by: rules, fields: fields, user: me)?.code == .requestDenied)
    }

    @Test("A hop gets the credentials of its own rule")
    func credentialsOfHops() throws {
        let loop = try EventLoop()
        loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0))
        let desk = Self.desk(loop)
        let head = try Self.head(["GET http://a.example/x HTTP/1.1", "Host: a.example"])
        let rules = try Self.rules(Self.getOnly, for: "a.example")
        func isReady(_ step: RequestCredentials.Step) -> Bool { if case .ready = step { true } else { false } }
        let hop = try hop(.get, "http://a.example/x")
        #expect(isReady(admission.credentialsOfHop(desk, hop, head)))
        _ = admission.refusal(ofHop: hop, by: rules, fields: HeaderFields(), user: nil)
        #expect(isReady(admission.credentialsOfHop(nil, hop, head)))
        #expect(!isReady(admission.credentialsOfHop(desk, hop, head)))
    }

    @Test("After a reload a hop follows the new policy's route, or none")
    func hopsAfterReload() throws {
        let (first, second) = (try Self.origin(), try Self.origin())
        #expect(try admit(.route(first)) == "send a.example")
        func text(_ step: RequestAdmission.HopStep) -> String {
            switch step {
            case .follow(let route): route === second ? "second" : "another"
            case .fail(let problem): problem.code.rawValue
            }
        }
        #expect(text(admission.admitAgain(.own)) == "internal")
        #expect(text(admission.admitAgain(.refused(Problem(.hostDenied, "no"), nil))) == "host_denied")
        #expect(admission.route === first)
        #expect(text(admission.admitAgain(.route(second))) == "second" && admission.route === second)
    }

    @Test("A request that has ended, or another one, has no route")
    func release() throws {
        #expect(try admit(.route(Self.origin())) == "send a.example")
        admission.begin()
        #expect(admission.route == nil)
        #expect(try admit(.route(Self.origin())) == "send a.example")
        admission.release()
        #expect(admission.route == nil)
    }

    @Test("A signed hop is refused by its query, and where it keeps a body")
    func signedHops() throws {
        let loop = try EventLoop()
        loop.turn(waitingAtMost: TimeSpan(nanoseconds: 0))
        let source = AWSSource(scope: AWSScope(region: "eu-west-1", service: "sts"), keys: .command(["/bin/true"]))
        let desk = Self.desk(loop, .awsSigV4(source))
        let rules = try Self.rules(Self.getOnly, for: "a.example")
        let head = try Self.head(["POST http://a.example/x HTTP/1.1", "Host: a.example", "Content-Length: 3"])
        for (target, keepsBody, isRefused) in [
            ("/x", false, false), ("/x", true, true), ("/x?X-Amz-Signature=0", false, true),
        ] {
            let hop = try hop(.get, "http://a.example\(target)", keepsBody: keepsBody)
            #expect(admission.refusal(ofHop: hop, by: rules, fields: HeaderFields(), user: nil) == nil)
            let step = admission.credentialsOfHop(desk, hop, head)
            if case .refused(let problem) = step {
                #expect(isRefused && problem.code == .credentialWithheld)
            } else {
                #expect(!isRefused)
            }
        }
    }
}
