// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("Fields that the configuration sets", .onOwnThreads)
struct HeaderRuleTests {
    private static let second = "second.example.com"

    @Test("a request gets its host's fields, unknown to the application")
    func injected() throws {
        let stage = try Stage(
            {
                $0.files["token"] = "from-a-file\n"
                $0.hosts[Stage.host]?["headers"] = [
                    "request": [
                        "set": [
                            "Authorization": ["file": "token", "prefix": "Bearer "],
                            "X-From-Env": ["env": "PINPROXY_TEST_KEY"],
                            "User-Agent": "ours",
                        ],
                        "add": ["Accept-Language": "en"], "remove": ["X-Internal"],
                    ],
                    "response": ["set": ["Server": "hidden"], "add": ["X-Added": "1"], "remove": ["X-Powered-By"]],
                ]
            },
            environment: ["PINPROXY_TEST_KEY": "from-the-environment"]
        ) { _ in
            OriginResponse.text("", fields: ["Server: secret/1.0", "X-Powered-By: x", "X-Kept: 1"])
        }
        let response = try stage.get(fields: [
            "authorization: own", "X-Internal: 1", "Accept-Language: de", "User-Agent: curl", "X-Kept: 1",
        ])
        let request = try #require(stage.origin.requests.first)
        #expect(request["Authorization"] == "Bearer from-a-file" && request["X-From-Env"] == "from-the-environment")
        #expect(request["User-Agent"] == "ours" && request["Accept-Language"] == "de, en")
        #expect(request["X-Internal"] == nil && request["X-Kept"] == "1")
        #expect(response["Server"] == "hidden" && response["X-Added"] == "1")
        #expect(response["X-Powered-By"] == nil && response["X-Kept"] == "1")
        _ = try stage.proxy.waitForTaskLines(1)
        for secret in ["from-a-file", "from-the-environment"] {
            #expect(!stage.proxy.output.contains(secret) && !stage.proxy.errors.contains(secret))
        }
    }

    @Test("no twin or trailer of a configured field reaches the origin")
    func twins() throws {
        let stage = try Stage({
            $0.hosts[Stage.host]?["headers"] = [
                "request": ["set": ["X-Api-Key": "ours", "User-Agent": "ours"], "remove": ["X-Gone"]]
            ]
        }) { _ in OriginResponse.text("") }
        let request = [
            "POST \(stage.url()) HTTP/1.1", "Host: \(Stage.host)", "X_Api_Key: theirs", "x-api_key: theirs",
            "User_Agent: theirs", "X_Gone: 1", "X_Kept: 1", "Transfer-Encoding: chunked", "", "1", "a", "0",
            "X-Api-Key: theirs", "X_API_KEY: theirs", "Kept: 1", "", "",
        ]
        #expect(try stage.proxy.exchange(request.joined(separator: "\r\n"), method: "POST").status == 200)
        let received = try #require(stage.origin.requests.first)
        #expect(received["X-Api-Key"] == "ours" && received["User-Agent"] == "ours" && received["X_Kept"] == "1")
        let text = received.fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        #expect(!text.contains("theirs") && !text.contains("X_Gone"))
        #expect(received.trailers.map(\.name) == ["Kept"])
    }

    @Test("a changed file is read again, and an invalid one ignored")
    func reloaded() throws {
        let stage = try Stage({
            $0.files["token"] = "first"
            $0.hosts[Stage.host]?["headers"] = ["request": ["set": ["Authorization": ["file": "token"]]]]
        }) { OriginResponse.text($0["Authorization"] ?? "none") }
        #expect(try stage.get().text == "first")
        try stage.proxy.folder.write("second\n", as: "token")
        try stage.proxy.waitForEvent("reloaded") { $0.string("trigger") == "files" }
        #expect(try stage.get().text == "second")
        try stage.proxy.folder.write("two\nlines", as: "token")
        let failure = try stage.proxy.waitForEvent("reloadFailed")
        #expect(failure.string("pointer") == "/hosts/\(Stage.host)/headers/request/set/Authorization")
        #expect(!failure.text.contains("two"))
        #expect(try stage.get().text == "second")
    }

    @Test("a host's fields go to no other host")
    func notCarriedAlong() throws {
        let server = try Stage.pki.server(Self.second)
        let other = try ScriptedOrigin(server) { _ in OriginResponse.text("there", fields: ["X-Powered-By: x"]) }
        let stage = try Stage({
            $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
            $0.hosts[Stage.host]?["headers"] = [
                "request": ["set": ["Authorization": "first", "X-Key": "first", "X-Only": "first"]]
            ]
            $0.resolve(Self.second, to: other.port)
            $0.pin(Self.second, to: server.pin)
            $0.hosts[Self.second]?["headers"] = [
                "request": ["set": ["X-Key": "second"]], "response": ["remove": ["X-Powered-By"]],
            ]
        }) { request in
            OriginResponse.text(
                "",
                status: "302 Found",
                fields: [
                    "Location: " + (request.target == "/" ? "/again" : "https://\(Self.second)/")
                ]
            )
        }
        let response = try stage.get(fields: ["X-Client: 1", "X-Only: own"])
        #expect(response.text == "there" && response["X-Powered-By"] == nil)
        // Within its host it is given again.
        #expect(stage.origin.requests.map { $0["Authorization"] } == ["first", "first"])
        let request = try #require(other.requests.first)
        #expect(request["Authorization"] == nil && request["X-Key"] == "second" && request["X-Client"] == "1")
        #expect(request["X-Only"] == "own", "the client's own fields go along")
    }
}
