// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Places where a credential's value could appear", .onOwnThreads)
struct CredentialScanTests {
    private static let keys = ["planted-key-of-a-file-01", "planted-key-of-env-0002", "planted-key-of-command-3"]

    /// The forms in which a value could be found.
    private static var forms: [String] {
        keys.flatMap { key in
            let pair = Data("user:\(key)".utf8).base64EncodedString()
            return [key, Data(key.utf8).base64EncodedString(), pair, String(key.reversed())]
        }
    }

    @Test("no log, event, document, page, metric or stored file has it")
    func scan() throws {
        let store = try TemporaryFolder()
        let names = ["file", "env", "command"]
        let stage = try Stage(
            {
                $0.files["key"] = Self.keys[0]
                $0.members["credentials"] = [
                    "file": ["header": "X-File", "file": "key"],
                    "env": ["header": "X-Env", "env": "PINPROXY_TEST_KEY", "allowUnpinned": true],
                    "command": [
                        "basicUser": "user", "command": ["/bin/sh", "-c", "echo $0 >&2; echo $0", Self.keys[2]],
                    ],
                ]
                $0.members["requests"] = [
                    "policy": "allow",
                    "rules": [
                        ["id": "all", "host": [Stage.host, "gone.example.com"], "then": "allow", "credential": names],
                        ["id": "plain", "host": "*.other.example", "then": "allow", "credential": "env"],
                    ],
                ]
                $0.members["cache"] = ["shared": false, "disk": ["path": store.path, "size": "10MB"]]
                $0.members["admin"] = ["address": "127.0.0.1:0"]
                $0.members["log"] = ["level": "debug"]
                $0.hosts[Stage.host]?["redirects"] = ["policy": "follow"]
                $0.resolve("gone.example.com", to: 9)
                $0.pin("gone.example.com", to: .unrelated(3))
                $0.resolve("plain.other.example", to: 9)
            },
            environment: ["PINPROXY_TEST_KEY": Self.keys[1]]
        ) { connection in
            while let request = try connection.readRequest() {
                let sent = request.fields.filter {
                    ["x-file", "x-env", "authorization"].contains($0.name.lowercased())
                }
                let echo = sent.map { "X-Echo-\($0.name): \($0.value)\r\n" }.joined()
                switch request.target {
                case "/stored":
                    try connection.write(
                        "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nVary: X-File\r\n\(echo)Content-Length: 2\r\n\r\nok"
                    )
                case "/redirect":
                    let value = sent.first?.value ?? ""
                    try connection.write(
                        "HTTP/1.1 302 Found\r\nLocation: /\(value)\r\n\(echo)Content-Length: 0\r\n\r\n"
                    )
                case "/refused": try connection.write("HTTP/1.1 401 No\r\n\(echo)Content-Length: 0\r\n\r\n")
                case "/odd":
                    try connection.write("HTTP/1.1 200 OK\r\n\(echo)Content-Length: 1\r\nContent-Length: 2\r\n\r\n")
                case "/cut":
                    try connection.write("HTTP/1.1 200 OK\r\n\(echo)Content-Length: 9\r\n\r\nab")
                    connection.close()
                    return
                default: try connection.write("HTTP/1.1 200 OK\r\n\(echo)Content-Length: 0\r\n\r\n")
                }
            }
        }
        var seen: [String] = []
        for path in ["/", "/stored", "/stored", "/redirect", "/refused", "/odd", "/cut"] {
            let response = try stage.get(path, fields: ["X-File: mine", "Authorization: mine"])
            seen.append("\(response.startLine) \(response.fields) \(response.text)")
        }
        #expect(try stage.proxy.get("http://gone.example.com/").status == 502)
        #expect(try stage.proxy.get("http://plain.other.example/").problemCode == "connect_failed")
        let request = try #require(stage.origin.requests.first)
        #expect(request["X-File"] == Self.keys[0] && request["X-Env"] == Self.keys[1])
        // A source that fails from now on.
        try FileManager.default.removeItem(atPath: "\(stage.proxy.folder.path)/key")
        try Patience.poll(for: "the file is missed") {
            try stage.get("/").problemCode == "credential_unavailable" ? true : nil
        }
        let pages = [
            "/", "/metrics", "/policy", "/config", "/tasks", "/tasks.har", "/workers", "/health", "/pins",
            "/credentials",
        ]
        for page in pages {
            let text = try stage.proxy.exchange("GET \(page) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
            seen.append("\(page) \(text.fields) \(text.text)")
        }
        _ = try stage.proxy.terminate()
        seen += [stage.proxy.output, stage.proxy.errors]
        let files = FileManager.default.enumerator(atPath: store.path)?.compactMap { $0 as? String } ?? []
        for file in files {
            let bytes = FileManager.default.contents(atPath: "\(store.path)/\(file)") ?? Data()
            seen.append(String(decoding: bytes, as: UTF8.self))
        }
        for text in seen {
            for form in Self.forms { #expect(!text.contains(form), "\(form) is in \(text.prefix(2000))") }
        }
    }
}
