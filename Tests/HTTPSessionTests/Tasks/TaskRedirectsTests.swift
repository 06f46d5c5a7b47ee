// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

@testable import HTTPCore
@testable import HTTPSessionCore
@testable import SessionCore

@Suite("The redirects of a task")
struct TaskRedirectsTests {
    private var redirects = TaskRedirects(escapesLocation: false)

    private func head(_ status: Int, _ location: String) throws -> ResponseHead {
        var head = ResponseHead()
        head.status = status
        try head.fields.append(name: "Location", value: location)
        return head
    }

    /// The outcome of a response: "deliver", the method and the URL of the next request, or the code of the failure.
    ///
    /// - Parameters:
    ///   - hosts: those with an endpoint, over TLS.
    ///   - policy: of these endpoints.
    private mutating func outcome(
        _ status: Int,
        _ location: String,
        from url: String = "https://a.test/here",
        method: HTTPMethod = .get,
        now: Int64 = 0,
        overTLS hosts: [String] = [],
        _ policy: SecurityPolicy = .unpinned,
        hook: (RedirectProposal) -> RedirectDecision? = { _ in nil }
    ) throws -> String {
        let request = HTTPSessionRequest(url: url, method: method, headers: ["Authorization": "x"], body: .bytes([1]))
        let step = redirects.didReceiveHead(
            try head(status, location),
            to: request,
            at: try #require(AbsoluteURL(url)),
            now: now,
            endpoint: { origin in
                guard hosts.contains(origin.host.description) else { return nil }
                return Endpoint(
                    scheme: .https,
                    host: origin.host,
                    port: origin.port,
                    policy: policy,
                    anchors: TrustAnchors(certificates: [])
                )
            },
            hook: { head, proposal in
                #expect(head.status == status)
                return hook(proposal)
            }
        )
        switch step {
        case .deliver: return "deliver"
        case .follow(let next):
            let fields = next.headers.value(for: "Authorization") == nil ? "" : " with credentials"
            return "\(next.method) \(next.url)\(next.body.length.hasBody ? " with a body" : "")\(fields)"
        case .fail(let error):
            let isInOrder = error.details.hasPrefix("https://a.test redirects to ")
            return "\(error.code)\(isInOrder ? ": from here" : "")"
        case .wait: return "wait"
        }
    }

    @Test("a response that is no redirect is delivered without asking the hook")
    mutating func delivers() throws {
        for status in [200, 304, 404] {
            let outcome = try outcome(status, "/next") { _ in
                Issue.record("the hook was asked")
                return nil
            }
            #expect(outcome == "deliver")
        }
        #expect(redirects.count == 0)
    }

    @Test("a redirect makes the next request by the rules, with the last fragment")
    mutating func follows() throws {
        #expect(try outcome(307, "/next") == "GET https://a.test/next with a body with credentials")
        #expect(try outcome(303, "/next", method: .post) == "GET https://a.test/next with credentials")
        #expect(try outcome(307, "/next", method: .post) == "POST https://a.test/next with a body with credentials")
        #expect(try outcome(307, "//b.test/") == "GET https://b.test/ with a body")
        #expect(try outcome(303, "/next", from: "https://a.test/#part").hasPrefix("GET https://a.test/next#part"))
        #expect(try outcome(303, "/#own", from: "https://a.test/#part").hasPrefix("GET https://a.test/#own"))
        #expect(redirects.count == 6)
    }

    @Test("the hook is given the next request, and its decision counts")
    mutating func hook() throws {
        let other = HTTPSessionRequest(url: "http://c.test/", method: .put)
        #expect(try outcome(302, "/next") { _ in .stop } == "deliver")
        #expect(try outcome(302, "/next") { _ in .follow(other) } == "PUT http://c.test/")
        let proceeds = try outcome(303, "/next") {
            #expect($0.request.url == "https://a.test/next" && $0.denial == nil)
            return .proceed
        }
        #expect(proceeds == "GET https://a.test/next with credentials")
    }

    @Test("a redirect to plain http is denied, unless the hook sends a request there")
    mutating func denied() throws {
        let denied = "\(SessionError.Code.redirectDenied): from here"
        #expect(try outcome(302, "http://a.test/") == denied)
        let proceeds = try outcome(302, "http://a.test/") {
            #expect($0.denial == .losesTLS)
            return .proceed
        }
        #expect(proceeds == denied)
        #expect(try outcome(303, "http://a.test/") { .follow($0.request) } == "GET http://a.test/")
        #expect(try outcome(302, "http://a.test/") { _ in .stop } == "deliver")
    }

    @Test("the scheme of the endpoint counts: plain http may be upgraded")
    mutating func upgraded() throws {
        #expect(try outcome(303, "http://a.test/", overTLS: ["a.test"]) == "GET http://a.test/")
        #expect(
            try outcome(303, "http://a.test/", from: "http://a.test/x") == "GET http://a.test/ with credentials"
        )
        // Each end has an endpoint of its own.
        let step = try outcome(303, "http://b.test/", from: "http://a.test/x", overTLS: ["a.test"]) {
            #expect($0.denial == .losesTLS)
            return .stop
        }
        #expect(step == "deliver")
    }

    @Test("a redirect from pins to a host whose pins have expired is denied")
    mutating func leavesPins() throws {
        var configuration = SecurityPolicy.Configuration()
        configuration.pinningMode = .publicKey
        configuration.pins = [Pin(.unrelated(7)), Pin(.unrelated(8))]
        configuration.expiration = CalendarDate("2027-01-31")
        configuration.onExpiration = .unpinned
        let policy = try SecurityPolicy(configuration)
        let last: Int64 = 1_801_439_999
        for (now, denial) in [(last, nil), (last + 1, RedirectProposal.Denial.leavesPins)] {
            let step = try outcome(303, "https://b.test/", now: now, overTLS: ["a.test", "b.test"], policy) {
                #expect($0.denial == denial)
                return nil
            }
            #expect(step.hasSuffix(": from here") == (denial != nil))
        }
    }

    @Test("an invalid target, and the twenty-first redirect, fail")
    mutating func fails() throws {
        let denied = "\(SessionError.Code.redirectDenied)"
        for location in ["ftp://a.test/", "http://[", "/a b"] {
            #expect(try outcome(302, location) == denied)
        }
        #expect(redirects.count == 0)
        for _ in 0..<20 { #expect(try outcome(303, "/next") != denied) }
        #expect(try outcome(303, "/next") == denied)
        #expect(redirects.count == 20)
    }

    @Test("a space in the target is escaped where the session does so")
    mutating func escapes() throws {
        redirects = TaskRedirects(escapesLocation: true)
        #expect(try outcome(303, "/a b") == "GET https://a.test/a%20b with credentials")
    }
}
