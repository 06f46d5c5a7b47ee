// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import Testing

@testable import ProxyCore

@Suite("Which responses are relayed")
struct ResponseHookTests {
    /// The hook's decision in short: `allow`, `allow 10`, `download`, or code and details of a refusal.
    private func decide(
        _ responses: String,
        _ status: Int,
        _ fields: [String],
        to method: HTTPMethod = .get,
        own: String? = nil
    ) throws -> String {
        let second = own.map { #", "own.example.com": { "responses": { \#($0) } }"# } ?? ""
        let stage = try HookFixture(hosts: #""api.example.com": { "responses": { \#(responses) } }\#(second)"#)
        let head = try HookFixture.head(status, fields, to: method)
        let decision = ResponseHook.decide(
            head,
            try stage.hooks(),
            own: own == nil ? nil : try stage.hooks("own.example.com")
        )
        switch decision {
        case .allow(let limit): return limit == Int.max ? "allow" : "allow \(limit)"
        case .becomeDownload(let directory, let quota, _):
            #expect(directory.hasSuffix("/downloads"))
            return quota == 10 << 30 ? "download" : "download \(quota)"
        case .cancel(let problem): return "\(problem.code.rawValue) \(problem.status): \(problem.details)"
        }
    }

    private let length = "Content-Length: 10"
    private let html = "Content-Type: Text/HTML; charset=utf-8"
    private let json = "Content-Type: application/json"

    @Test("rules match by status, content type and length, and the first decides")
    func rules() throws {
        let rules = #"""
            "rules": [ { "status": "2xx", "contentType": ["text/html", "image/*"], "then": "cancel" },
                       { "status": [404, "500-599"], "then": "cancel" },
                       { "minBytes": "2KB", "maxBytes": "3KB", "then": "cancel" } ]
            """#
        #expect(try decide(rules, 200, [html, length]).hasPrefix("response_denied 502: "))
        #expect(try decide(rules, 200, [html, length]).contains("hosts/api.example.com/responses/rules/0"))
        #expect(try decide(rules, 204, ["Content-Type: image/png"]).contains("rules/0"))
        #expect(try decide(rules, 403, [html, length]) == "allow")
        #expect(try decide(rules, 503, [length]).contains("rules/1"))
        #expect(try decide(rules, 404, [length]).contains("rules/1"))
        for (bytes, isRefused) in [(2047, false), (2048, true), (3072, true), (3073, false)] {
            let decision = try decide(rules, 200, ["Content-Length: \(bytes)"])
            #expect(decision.contains("rules/2") == isRefused, "\(bytes)")
        }
        #expect(try decide(rules, 200, ["Transfer-Encoding: chunked"]) == "allow")
        // HEAD is told of what GET would get.
        #expect(try decide(rules, 200, ["Content-Length: 2048"], to: .head).contains("rules/2"))
    }

    @Test("a second or a missing content type gets around no rule")
    func evasion() throws {
        let cancels = #""rules": [ { "contentType": "text/html", "then": "cancel" } ]"#
        #expect(try decide(cancels, 200, [json, html, length]).contains("rules/0"))
        #expect(try decide(cancels, 200, [length]) == "allow")
        let any = #""rules": [ { "contentType": "*/*", "then": "cancel" } ]"#
        #expect(try decide(any, 200, [length]).contains("rules/0"))
        let acceptable = #""acceptableContentTypes": ["application/json", "text/*"]"#
        #expect(try decide(acceptable, 200, [json, length]) == "allow")
        #expect(try decide(acceptable, 200, [html, length]) == "allow")
        #expect(try decide(acceptable, 200, [json, json, length]).contains("not acceptable"))
        #expect(try decide(acceptable, 200, [length]).contains("no content type"))
        #expect(
            try decide(acceptable, 200, ["Content-Type: text/html, application/json", length]).contains(
                "not acceptable"
            )
        )
        #expect(try decide(acceptable, 200, ["Content-Type: application/json2", length]).contains("not acceptable"))
        // Without a body its type does not matter.
        #expect(try decide(acceptable, 204, []) == "allow")
        #expect(try decide(acceptable, 200, [length], to: .head) == "allow")
        #expect(try decide(acceptable, 200, ["Content-Length: 0"]) == "allow")
        #expect(try decide(#""acceptableContentTypes": "*/*""#, 200, [length]) == "allow")
    }

    @Test("acceptable status codes are a serializer's; a rule that allows comes first")
    func statuses() throws {
        let acceptable = #""acceptableStatusCodes": ["200-299", 304]"#
        #expect(try decide(acceptable, 299, [length]) == "allow")
        #expect(try decide(acceptable, 304, []) == "allow")
        #expect(try decide(acceptable, 302, [length]).contains("takes 200-299, 304"))
        let allowed = #""rules": [ { "status": 404, "then": "allow" } ], \#(acceptable)"#
        #expect(try decide(allowed, 404, [length]) == "allow")
        #expect(try decide(allowed, 405, [length]).hasPrefix("response_denied"))
    }

    @Test("a body above maxBytes is refused, or cut without a known length")
    func tooLarge() throws {
        let bounded = #""maxBytes": "1KB", "rules": [ { "then": "allow" } ]"#
        #expect(try decide(bounded, 200, ["Content-Length: 1025"]).hasPrefix("response_too_large 502"))
        #expect(try decide(bounded, 200, ["Content-Length: 1024"]) == "allow 1024")
        #expect(try decide(bounded, 200, ["Transfer-Encoding: chunked"]) == "allow 1024")
        #expect(try decide(bounded, 200, ["Content-Length: 1025"], to: .head) == "allow 1024")
    }

    @Test("an incomplete file becomes no download")
    func downloads() throws {
        let rules = #"""
            "rules": [ { "minBytes": "1KB", "then": "becomeDownload", "directory": "downloads" },
                       { "contentType": "text/html", "then": "becomeDownload", "directory": "downloads" } ]
            """#
        #expect(try decide(rules, 200, ["Content-Length: 1024"]) == "download")
        #expect(try decide(rules, 200, [html, "Transfer-Encoding: chunked"]) == "download")
        #expect(try decide(rules, 200, [length]) == "allow")
        for status in [206, 404, 302, 500] {
            #expect(try decide(rules, status, ["Content-Length: 1024"]) == "allow", "\(status)")
        }
        #expect(try decide(rules, 200, ["Content-Length: 1024"], to: .head) == "allow")
        #expect(try decide(rules, 204, [html]) == "allow")
    }

    @Test("a response that its own host refuses is refused")
    func own() throws {
        let asked =
            #""maxBytes": "4KB", "rules": [ { "status": 201, "then": "becomeDownload", "directory": "downloads" } ]"#
        let own = #""maxBytes": "1KB", "acceptableStatusCodes": "2xx""#
        #expect(try decide(asked, 200, [length], own: own) == "allow 1024")
        #expect(try decide(asked, 201, [length], own: own) == "download")
        #expect(try decide(asked, 404, [length], own: own).contains("hosts/own.example.com/responses/acceptable"))
        #expect(try decide(own, 201, [length], own: asked) == "allow 1024")
    }
}
