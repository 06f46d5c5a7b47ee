// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// The fields of a response behind redirects: the origin chooses them, and the URL that they are resolved against.
@Suite("Fields of responses to followed redirects", .onOwnThreads)
struct FollowedFieldTests {
    private static let host = Stage.host

    /// `/start` leads to `place`, which answers with the fields.
    private func stage(_ fields: [String], at place: String = "/b/c", status: String = "200 OK") throws -> Stage {
        try Stage({ $0.hosts[Self.host]?["redirects"] = ["policy": "follow"] }) { request in
            request.target == "/start"
                ? OriginResponse.text("", status: "302 Found", fields: ["Location: \(place)"])
                : OriginResponse.text("", status: status, fields: fields)
        }
    }

    @Test(
        "a challenge keeps texts that are no URLs",
        arguments: [
            "Bearer realm=\"api\", error=invalid_token", "Bearer realm=\"x\", max_age=5",
            "Bearer realm=\"\", a, b=c, \"",
            "Bearer realm=\"api\", error=\"invalid_token\", error_description=\"The token expired\"", "Bearer ,,,, ,",
        ]
    )
    func challenge(value: String) throws {
        let stage = try stage(["WWW-Authenticate: \(value)"], status: "401 Unauthorized")
        #expect(try stage.get("/start")["WWW-Authenticate"] == value)
        #expect(try stage.get("/start").status == 401)
    }

    @Test("the readers of a response are no references", arguments: ["*", "null", "https://page.example.com"])
    func allowedOrigin(value: String) throws {
        let stage = try stage(["Access-Control-Allow-Origin: \(value)"])
        #expect(try stage.get("/start", fields: ["Origin: null"])["Access-Control-Allow-Origin"] == value)
    }

    @Test("a URL of the redirect is not cut by links around it")
    func brokenOut() throws {
        let stage = try stage(["Link: <?q>; rel=\"self\""], at: "/a>;rel=x,<https://evil.example.com/")
        let link = try #require(try stage.get("/start")["Link"])
        #expect(link.filter { $0 == "<" || $0 == ">" } == "<>", "\(link)")
        #expect(link.hasPrefix("<http://\(Self.host)/a%3E;rel=x,%3Chttps:"), "\(link)")
    }

    @Test("a head with thousands of references stays within its limit")
    func manyReferences() throws {
        let place = "/" + String(repeating: "x", count: 4000) + "/"
        let many = "Link: " + String(repeating: "<>", count: 2000)
        let few = "Link: " + String(repeating: "<a>", count: 40)
        let response = try stage([many, few], at: place).get("/start")
        // The budget of the second one is what the first one has left.
        #expect(response["Link"] == nil)
        let short = try stage([few], at: "/b/").get("/start")
        let challenge =
            "WWW-Authenticate: Bearer " + Array(repeating: "a=\"https://x\"", count: 2000).joined(separator: ",")
        #expect(try stage([challenge]).get("/start")["WWW-Authenticate"] == nil)
        #expect(short["Link"] == String(repeating: "<http://\(Self.host)/b/a>", count: 40))
    }
}
