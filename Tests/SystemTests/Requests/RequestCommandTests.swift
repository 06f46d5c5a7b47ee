// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Commands about rules for requests", .onOwnThreads)
struct RequestCommandTests {
    private let folder: TemporaryFolder
    private let config: String

    init() throws {
        folder = try TemporaryFolder()
        config = try folder.write(
            """
            {
              "version": 1,
              "listeners": [{ "address": "127.0.0.1:0" }],
              "defaults": { "connect": "tunnel" },
              "requests": {
                "rules": [
                  { "id": "usual", "host": "a.example", "method": "GET", "then": "allow" },
                  { "id": "other", "host": "a.example", "port": 8443, "path": "/x", "then": "allow" },
                  { "id": "socket", "host": "s.example", "method": "UPGRADE", "then": "allow" },
                  { "id": "try", "host": "*.example", "port": [443, 80], "method": "PUT", "then": "report" }
                ]
              }
            }
            """,
            as: "config.json"
        )
    }

    private func check(_ words: String...) throws -> Programs.Finished {
        try Programs.run(try Programs.built("pinproxy"), ["check", "request", "--config", config] + words)
    }

    @Test("rules of the host for other ports are shown with that cause")
    func ports() throws {
        let report = try check("GET", "https://a.example:8443/y").output
        #expect(report.contains("usual (allow): its ports are others: without \"port\" it is for 443 alone"))
        #expect(report.contains("other (allow): its paths are others"))
        #expect(report.contains("try (report): its ports are others\n"), "\(report)")
        #expect(!report.contains("pinproxy check request"))
    }

    @Test("a CONNECT has the rules, too")
    func tunnels() throws {
        let report = try check("CONNECT", "a.example:443")
        #expect(report.exitCode == 77)
        #expect(report.output.contains("usual (allow): the request can be read in two ways: the requests in a tunnel"))
        #expect(report.output.contains("other (allow): its ports are others"), "\(report.output)")
    }

    @Test("a URL without a host is reported as such", arguments: ["a.example/ok", "/ok"])
    func hostless(_ url: String) throws {
        #expect(try check("GET", url).output.contains("Write a whole URL"))
    }

    @Test("the field Upgrade alone is an offer")
    func offers() throws {
        #expect(try check("-H", "Upgrade: websocket", "GET", "https://s.example/").output.hasPrefix("allowed"))
        let refused = try check("-H", "Upgrade: websocket", "DELETE", "https://s.example/").output
        #expect(refused.contains("socket (allow): its methods are others: an offer of Upgrade needs"), "\(refused)")
    }

    @Test("characters that steer a terminal are not printed")
    func terminals() throws {
        let user = "\u{1b}]0;owned\u{7}\n  9 x GET https://evil"
        let one = try check("--user", user, "GET", "https://b.example/").output
        #expect(one.contains("owned") && !one.utf8.contains(0x1b) && !one.contains("\n  9 x"))
        let line =
            #"{"event":"task","user":"\u001b]0;owned\u0007\n  9 x GET https://evil","method":"GET","url":"https://b.example/","status":200}"#
        let log = try folder.write(line + "\n", as: "hostile.log")
        let all = try check("--log", log).output
        #expect(all.contains("owned") && !all.utf8.contains(0x1b) && !all.contains("\n  9 x GET"), "\(all)")
    }

    // MARK: A log

    private static func line(_ method: String, _ url: String, _ status: Int, _ more: String = "") -> String {
        let url = "\"url\":\"\(url)\""
        return
            #"{"event":"task",\#(more)"method":"\#(method)",\#(url),"status":\#(status),"transactions":[{\#(url),"status":\#(status)}]}"#
    }

    @Test("refused, ambiguous and unnameable requests are counted and left out")
    func learned() throws {
        let lines = [
            Self.line("GET", "https://a.example/ok", 200),
            Self.line("POST", "https://a.example/v1/\\\"x\\\"", 200),
            Self.line("get", "https://a.example/ok", 200), Self.line("read", "https://a.example/ok", 200),
            Self.line("POST", "https://a.example/secret", 403), Self.line("GET", "https://a.example/7", 404),
            Self.line("POST", "https://a.example/gone", 404),
            Self.line("POST", "https://a.example/v1", 200, #""wouldDeny":true,"ambiguity":"methodOverride","#),
            Self.line("GET", "https://a.example/socket", 200, #""upgrade":true,"#),
        ]
        let log = try folder.write(lines.joined(separator: "\n") + "\n", as: "tasks.log")
        let learned = try Programs.run(try Programs.built("pinproxy"), ["requests", "learn", log])
        #expect(learned.exitCode == 0, "\(learned.errors)")
        let object = try JSONSerialization.jsonObject(with: Data(learned.output.utf8)) as? [String: Any]
        let rules = (object?["requests"] as? [String: Any])?["rules"] as? [[String: Any]] ?? []
        #expect(
            rules.map { "\($0["method"] ?? "") \($0["path"] ?? "")" }.sorted() == [
                #"GET ["/7", "/ok"]"#, "UPGRADE /socket",
            ],
            "\(learned.output)"
        )
        for text in [
            "2 of them a server has refused", "1 of them have a character in their path",
            "2 of them have a method that no rule names", "1 of them can be read in two ways (methodOverride)",
        ] {
            #expect(learned.errors.contains(text), "\(learned.errors)")
        }
    }

    @Test("a logged request counts as it was: ambiguous, or an Upgrade")
    func changes() throws {
        let lines = [
            Self.line("GET", "https://a.example/ok", 200),
            Self.line("GET", "https://a.example/ok", 200, #""wouldDeny":true,"ambiguity":"methodOverride","#),
            Self.line("GET", "https://a.example/ok", 200, #""wouldDeny":true,"ambiguity":"hostOverride","#),
            Self.line("GET", "https://a.example/ok", 200, #""upgrade":true,"#),
            Self.line("GET", "https://s.example/ok", 200, #""upgrade":true,"#),
            Self.line("DELETE", "https://s.example/ok", 200, #""upgrade":true,"#),
        ]
        let log = try folder.write(lines.joined(separator: "\n") + "\n", as: "tasks.log")
        let check = try check("--log", log)
        #expect(check.exitCode == 77 && check.output.contains("4 would be denied"), "\(check.output)")
        for text in ["1 x UPGRADE https://a.example/ok", "1 x UPGRADE DELETE https://s.example/ok"] {
            #expect(check.output.contains(text), "\(check.output)")
        }
    }
}
