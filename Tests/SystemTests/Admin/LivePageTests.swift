// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// The live page in headless Chromium. `PINPROXY_REQUIRE_CLIENTS=1` makes its absence a failure; otherwise the tests are
/// skipped without it.
@Suite("The live page in a browser", .onOwnThreads)
struct LivePageTests {
    private static let isComplete = ProcessInfo.processInfo.environment["PINPROXY_REQUIRE_CLIENTS"] == "1"
    static let isThere = (try? Programs.path(of: "chromium")) != nil
    static let script = Repository.folder.appendingPathComponent(".ci/browser").path
    private static let wrongHost = "wrong.example.com"
    private static let markup = "<img%20src=x%20onerror=document.title='run'>"

    @Test("Chromium is there", .enabled(if: isComplete))
    func complete() {
        #expect(Self.isThere, "install chromium (make client-packages)")
    }

    private func stage() throws -> Stage {
        try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.members["cache"] = [String: Any]()
            settings.members["log"] = ["redact": ["token"]]
            settings.resolve(Self.wrongHost, to: 1)
            settings.pin(Self.wrongHost, to: .unrelated(7), with: ["expiration": "2101-01-31"])
        } responding: {
            OriginResponse.text($0.target, fields: ["Cache-Control: max-age=600"])
        }
    }

    /// Runs the steps on the page; returns what `print` steps have printed, then what the page has complained about.
    ///
    /// - Parameter anchor: the end of the page's address, with its `#`.
    static func browse(_ proxy: ProxyUnderTest, at anchor: String = "", _ steps: [String]) throws -> [String] {
        let page = "http://127.0.0.1:\(proxy.port(of: 1))/\(anchor)"
        let finished = try Programs.run(script, ["open=\(page)"] + steps, seconds: 150)
        try #require(finished.exitCode == 0, "\(finished.errors) \(finished.output)")
        return finished.output.split(separator: "\n").map(String.init)
    }

    static let rows = ##"document.querySelectorAll("#task-table tbody tr").length"##

    @Test("the page shows hosts, tasks, cache and loads, without errors", .enabled(if: isThere))
    func shown() throws {
        let stage = try stage()
        #expect(try stage.get("/one?token=secret").status == 200)
        #expect(try stage.get("/one?token=secret").status == 200)
        let folder = try TemporaryFolder()
        let files = ["light", "dark", "phone"].map { "\(folder.path)/\($0).png" }
        let said = try Self.browse(
            stage.proxy,
            [
                "size=1280x900", "scheme=light", "wait=\(Self.rows) == 2",
                ##"wait=document.querySelector("#host-table tbody").innerText.includes("pass")"##,
                // Rows open for their pins and keys.
                ##"print=document.querySelectorAll("#host-table button.open").forEach((one) => one.click())"##,
                #"print=document.body.innerText"#, "page=\(files[0])", "scheme=dark", "page=\(files[1])",
                "phone=390x844", "page=\(files[2])",
                // Nothing is wider than the phone.
                "print=document.documentElement.scrollWidth <= 390",
                // The tab key goes to the link that skips to the content first.
                "key=Tab", "print=document.activeElement.textContent",
                "print=[...document.querySelectorAll('button, input')].every((one) => one.textContent || one.labels.length)",
                "print=[...document.querySelectorAll('.bar')].every((one) => one.getAttribute('aria-label'))",
            ]
        )
        try #require(said.count == 7, "\(said)")
        for text in [
            Stage.host, Self.wrongHost, "not seen yet", "seen 1 time", "2101-01-31", "pass", "/one?token=***",
            "from the cache",
            "policy 1", "start", "50 %",
        ] {
            #expect(said[1].contains(text), "\(text): \(said[1])")
        }
        #expect(!said[1].contains("secret"))
        #expect(said[2] == "true" && said[3] == "\"Skip to the content\"" && said[4] == "true" && said[5] == "true")
        #expect(said[6] == "[]", "the page complains")
        for file in files {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
            #expect(bytes.starts(with: [0x89, 0x50, 0x4E, 0x47]) && bytes.count > 20_000, "\(file)")
        }
    }

    @Test(
        "markup from the network stays text, and the page's policy forbids scripts",
        .enabled(if: isThere)
    )
    func markup() throws {
        let stage = try stage()
        #expect(
            try stage.proxy.get("http://\(Self.wrongHost)/\(Self.markup)?<script>document.title='run'</script>").status
                == 502
        )
        let inject =
            "const one = document.createElement('script'); one.textContent = \"document.title='run'\"; document.body.append(one)"
        let said = try Self.browse(
            stage.proxy,
            [
                "wait=\(Self.rows) == 1",
                "print=document.querySelectorAll('#task-table img, #task-table script').length",
                ##"print=document.querySelector("#task-table").innerText"##, "print={ \(inject); document.title }",
            ]
        )
        try #require(said.count == 4, "\(said)")
        #expect(said[0] == "0" && said[1].contains("onerror=document.title='run'") && said[2] == "\"(1) pinproxy\"")
        #expect(said[3].contains("Content Security Policy"), "\(said[3])")
    }

    /// Texts of peers, of files and of the network that mean ill, as values and as names.
    private static let evilTexts = [
        "<script>document.title='run'</script>", "\"><img src=x onerror=\"document.title='run'\">",
        "</script><script>document.title='run'</script>", "javascript:document.title='run'", "\u{202E}moc.live\u{2066}",
        "a\u{2028}b\u{2029}c", "nul\0 \u{1B}[2J", "__proto__", "constructor", "toString",
        "' onmouseover='document.title=1",
        String(repeating: "w", count: 20_000), "&lt;b&gt; &#60;", "",
    ]

    /// A document of the admin listener in which every text is the same, and numbers are odd.
    private static func documents(_ text: String, _ number: Any) -> (
        domain: [String: Any], task: [String: Any], load: [String: Any]
    ) {
        let time = "2026-11-25T10:00:00.000Z"
        let key: [String: Any] = ["pin": text, "isPinned": true, "subject": text]
        let last: [String: Any] = [
            "host": text, "time": text, "verdict": text, "error": text, "keys": [key],
            "certificateExpiresInDays": number,
        ]
        let pin: [String: Any] = ["pin": text, "matched": number, "backup": true, "scope": text, "comment": text]
        let domain: [String: Any] = [
            "domain": text, "file": text, "includeSubdomains": true, "ports": [number], "expiration": text,
            "expiresInDays": number, "handshakes": [text: number, "pass": number], "pins": [pin], "lastHandshake": last,
            "__proto__": ["excludedFromParentPolicy": true],
        ]
        let transaction: [String: Any] = [
            "fetchStart": number, "domainLookupStart": 0, "domainLookupEnd": number, "connectStart": number,
            "connectEnd": 3, "requestStart": -5, "requestEnd": 4, "responseStart": number, "responseEnd": 1e308,
            "remoteAddress": text, "networkProtocolName": text, "tlsVersion": text, "cipher": text, "tlsGroup": text,
        ]
        let task: [String: Any] = [
            "time": time, "client": text, "method": text, "url": text, "status": number, "duration": number,
            "bytesReceived": number, "redirectCount": number, "cache": text, "user": text, "error": text,
            "errorDetails": text, "pinning": ["verdict": text, "matched": text], "transactions": [transaction],
        ]
        let issue: [String: Any] = ["file": text, "pointer": text, "line": number, "message": text, "remedy": text]
        let load: [String: Any] = [
            "time": time, "trigger": text, "applied": true, "generation": number, "errors": [issue],
            "warnings": [issue],
        ]
        return (domain, task, load)
    }

    @Test("no text of a peer runs, stops the page or breaks its layout", .enabled(if: isThere))
    func hostileTexts() throws {
        let numbers: [Any] = [-1, 9_223_372_036_854_775_807, 1e300, -1e300, 0, 1.5, NSNull(), "7", "NaN", true]
        let all = Self.evilTexts.enumerated().map { Self.documents($1, numbers[$0 % numbers.count]) }
        func json(_ value: Any) throws -> String {
            String(decoding: try JSONSerialization.data(withJSONObject: value), as: UTF8.self)
        }
        let text = Self.evilTexts.joined()
        let settings = Self.evilTexts.map { ["title": $0, "rows": [["label": $0, "text": $0]]] as [String: Any] }
        let responses = [
            "/policy": try json(
                [
                    "generation": 1, "loaded": text, "unpinnedHosts": text, "domains": all.map(\.domain),
                    "files": [
                        "current": false, "inForce": ["digest": text], "onDisk": ["digest": text, "seen": text],
                    ],
                ] as [String: Any]
            ),
            "/tasks": try json(["tasks": all.map(\.task), "next": 1] as [String: Any]),
            "/reloads": try json(["loads": all.map(\.load), "restartNeeded": [text]] as [String: Any]),
            "/cache": try json(
                [
                    "requests": ["hit": 1, "stale": 0, "revalidated": 0, text: 1], "stored": -1,
                    "memory": ["bytes": -1, "capacity": 1e300],
                    "disk": ["offBecause": text, "bytes": 1, "capacity": 1],
                    "redis": [
                        "lookups": ["hit": 1, text: 1e300], "purgesPending": 1,
                        "servers": [["server": text, "offBecause": text], ["server": text]],
                    ] as [String: Any],
                ] as [String: Any]
            ),
            "/workers": try json(["workers": [["longestTurn": ["milliseconds": 1e9, "work": [text]]]]]),
            "/config": try json(["sections": settings]),
        ]
        // The page with its own policy, as the proxy sends it.
        let real = try stage().proxy.exchange("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        let policy = try #require(real["Content-Security-Policy"])
        let page = real.text
        let streamed = try all.prefix(3).map { "event: task\ndata: \(try json($0.task))\n\n" }.joined()
        let site = try ScriptedOrigin(nil) { connection in
            while let request = try connection.readRequest() {
                let path = String(request.target.prefix { $0 != "?" })
                if path == "/tasks/stream" {
                    try connection.write(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n\(streamed)event: task\ndata: {\n\n"
                    )
                    return connection.readToEnd()
                }
                let response = path == "/" ? page : responses[path] ?? "{}"
                let type = path == "/" ? "text/html; charset=utf-8" : "application/json"
                try connection.write(
                    OriginResponse.text(
                        response,
                        fields: ["Content-Type: \(type)", "Content-Security-Policy: \(policy)"]
                    )
                )
            }
        }
        let finished = try Programs.run(
            Self.script,
            [
                "phone=390x844", "open=http://127.0.0.1:\(site.port)/", "wait=\(Self.rows) == \(all.count + 3)",
                ##"wait=document.querySelectorAll("#setting-list details").length == \##(all.count)"##,
                // What the rows open to is shown, too.
                "print=document.querySelectorAll('button.open').forEach((one) => one.click())",
                "print=document.title", "print=document.querySelectorAll('script').length",
                "print=document.querySelectorAll('img, iframe, object, svg, main [onerror], main [onmouseover], main script').length",
                ##"print=document.querySelectorAll("#host-table tbody tr:not(.more)").length"##,
                ##"print=document.querySelectorAll("#reload-table tbody tr").length"##,
                #"print=document.getElementById("failure").textContent"#,
                #"print=/[\u0000-\u0008\u200b-\u200f\u2028-\u202e\u2066-\u2069]/.test(document.body.textContent + [...document.querySelectorAll("[title]")].map((one) => one.title))"#,
                "print=document.documentElement.scrollWidth <= 390",
                #"print=[...document.querySelectorAll("a")].every((one) => one.protocol === "http:")"#,
                // The page lives on.
                ##"print={ const one = document.getElementById("task-filter"); one.value = "moc.live"; one.dispatchEvent(new Event("input")); document.querySelectorAll("#task-table tbody tr:not(.more)").length }"##,
                "print=[...document.querySelectorAll('.errors')].filter((one) => one.textContent.startsWith('This cannot be shown')).length",
            ],
            seconds: 150
        )
        let said = Array(finished.output.split(separator: "\n").map(String.init).dropFirst())
        try #require(finished.exitCode == 0 && said.count == 12, "\(finished.errors) \(said.map { $0.prefix(2000) })")
        #expect(said[0].hasSuffix(" pinproxy\"") && said[1] == "1" && said[2] == "0")
        #expect(said[3] == "\(all.count)" && said[4] == "\(all.count)" && said[5] == "\"\"", "\(said[3...5])")
        #expect(said[6] == "false" && said[7] == "true" && said[8] == "true" && said[9] == "1", "\(said[6...9])")
        // An event that is no JSON is the only thing that the browser complains of.
        #expect(said[11].contains("SyntaxError") && !said[11].contains("TypeError"), "\(said[11].prefix(2000))")
    }

    @Test("a page of another site reads and changes nothing", .enabled(if: isThere))
    func otherSite() throws {
        let stage = try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0", "allowedHosts": ["allowed.test"]]
            settings.members["cache"] = [String: Any]()
        } responding: { _ in
            OriginResponse.text("stored", fields: ["Cache-Control: max-age=600"])
        }
        #expect(try stage.get("/stored").status == 200)
        let admin = "http://127.0.0.1:\(stage.proxy.port(of: 1))"
        let site = try ScriptedOrigin(nil) { _ in
            OriginResponse.text("<!DOCTYPE html><title>other</title>", fields: ["Content-Type: text/html"])
        }
        func fetched(_ path: String, _ options: String) -> String {
            "fetch('\(admin)\(path)', { \(options) }).then((one) => one.text()).then((one) => 'read ' + one.length, () => 'refused')"
        }
        let tries = [
            fetched("/tasks", ""), fetched("/policy", "mode: 'no-cors'"), fetched("/reload", "method: 'POST'"),
            fetched("/drain", "method: 'POST', mode: 'no-cors', credentials: 'include'"),
            fetched("/drain", "method: 'POST', mode: 'no-cors', body: new URLSearchParams('a=b')"),
            fetched("/cache?all", "method: 'DELETE'"),
            "new Promise((done) => { const one = new EventSource('\(admin)/tasks/stream'); one.onopen = () => done('open'); one.onerror = () => done('refused') })",
            "new Promise((done) => { const one = document.createElement('script'); one.src = '\(admin)/tasks'; one.onload = () => done('run'); one.onerror = () => done('refused'); document.head.append(one) })",
            "new Promise((done) => { const one = document.createElement('form'); one.method = 'POST'; one.action = '\(admin)/drain'; one.target = 'frame'; const frame = document.createElement('iframe'); frame.name = 'frame'; document.body.append(one, frame); frame.onload = () => { let seen = 'refused'; try { seen = frame.contentDocument ? 'empty' : 'refused' } catch { } if (seen !== 'empty') done(seen) }; one.submit() })",
        ]
        let finished = try Programs.run(
            Self.script,
            ["open=http://127.0.0.1:\(site.port)/"] + tries.map { "print=\($0)" },
            seconds: 150
        )
        let said = finished.output.split(separator: "\n").map(String.init)
        try #require(finished.exitCode == 0 && said.count == tries.count + 1, "\(finished.errors) \(said)")
        // A response without CORS is empty to the page, if it comes at all.
        for (line, attempt) in zip(said, tries) {
            #expect(["\"refused\"", "\"read 0\""].contains(line), "\(attempt): \(line)")
        }
        #expect(stage.proxy.events("reloaded").isEmpty)
        func get(_ path: String) throws -> String {
            try stage.proxy.exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1).text
        }
        #expect(try get("/ready") == "ready\n")
        #expect(try get("/cache/entries").contains("/stored"))
    }

    @Test(
        "the page shows the rules, what they would deny and why",
        .enabled(if: isThere)
    )
    func rules() throws {
        let stage = try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.members["cache"] = [String: Any]()
            settings.members["requests"] = [
                "policy": "deny",
                "rules": [
                    ["id": "never", "host": Stage.host, "method": "DELETE", "then": "deny"],
                    ["id": "try", "host": Stage.host, "method": "PUT", "then": "report"],
                    ["id": "read", "host": Stage.host, "method": "read", "path": "/v1/*", "then": "allow"],
                ],
            ]
        } responding: {
            OriginResponse.text($0.target)
        }
        func send(_ method: String, _ path: String) -> String {
            "run=curl -sS -o /dev/null --path-as-is -x http://127.0.0.1:\(stage.proxy.port) -X \(method) \"\(stage.url(path))\""
        }
        let rules = #"document.getElementById("rule-table").innerText"#
        let table = ##"document.querySelector("#task-table").innerText"##
        let filter = #"document.getElementById("task-filter")"#
        func filtered(_ text: String) -> String {
            "print={ \(filter).value = '\(text)'; \(filter).dispatchEvent(new Event('input')); \(Self.rows) }"
        }
        let said = try Self.browse(
            stage.proxy,
            [
                ##"wait=document.querySelectorAll("#rule-table tbody tr").length == 3"##,
                #"print=document.getElementById("rule-section").hidden"#,
                send("GET", "/v1/models"), send("DELETE", "/it's\\$(id)"), send("PUT", "/v1/put"),
                send("GET", "/v1/a//b"),
                "wait=\(Self.rows) == 4", #"wait=/never\s+deny\s+1/.test(\#(rules))"#, "print=\(rules)",
                #"print=document.getElementById("rule-policy").textContent"#, "print=\(table)",
                ##"print=[...document.querySelectorAll("#task-table code")].map((one) => one.textContent).sort()"##,
                filtered("request_denied"), filtered("would be denied"), filtered(""),
            ]
        )
        try #require(said.count == 9 && said[0] == "false" && said[8] == "[]", "\(said)")
        for row in ["never", "try", "read", "DELETE; to \(Stage.host)"] { #expect(said[1].contains(row), "\(said[1])") }
        #expect(said[2].contains("A request that no rule matches is denied: 1 request so far."), "\(said[2])")
        for text in [
            "rule never", "rule try, would be denied", "rule read", "can be read in two ways: emptySegment",
            "request_denied: The rule \\\"never\\\" of requests denies it.", "No rule of requests lets it be sent.",
        ] { #expect(said[3].contains(text), "\(text): \(said[3])") }
        #expect(said[5...7] == ["2", "1", "4"], "\(said[5...7])")
        // What is pasted into a shell runs nothing but the command, which is of the page's mind.
        let lines = try JSONDecoder().decode([String].self, from: Data(said[4].utf8))
        try #require(lines.count == 3, "\(lines)")
        let expected = [
            ("DELETE", #"denied"#, #"rule "never" (deny)"#), ("GET", "denied", "the policy of requests"),
            ("PUT", "reported", #"rule "try" (report)"#),
        ]
        for (line, (method, word, decision)) in zip(lines, expected) {
            #expect(line.hasPrefix("pinproxy check request --config FILE \(method) "), "\(line)")
            let command = line.replacing("FILE", with: "\(stage.proxy.folder.path)/config.json")
                .replacing("pinproxy", with: try Programs.built("pinproxy"), maxReplacements: 1)
            let check = try Programs.run("/bin/sh", ["-c", command])
            #expect(check.output.hasPrefix("\(word)\n") && check.output.contains(decision), "\(line): \(check.output)")
            if method == "DELETE" { #expect(check.output.contains("/it's$(id)\n"), "\(check.output)") }
        }
    }

    @Test("a URL of kilobytes is cut, and found by its end", .enabled(if: isThere))
    func longURL() throws {
        let stage = try stage()
        let path = "/" + String(repeating: "long", count: 1500) + "/end"
        #expect(try stage.get(path).status == 200)
        let url = ##"document.querySelector("#task-table .url")"##
        let filter = ##"document.getElementById("task-filter")"##
        let said = try Self.browse(
            stage.proxy,
            [
                "wait=\(Self.rows) == 1", "print=\(url).textContent.length", "print=\(url).title.endsWith('/end')",
                "print={ \(filter).value = '/END'; \(filter).dispatchEvent(new Event('input')); \(Self.rows) }",
                "print={ \(filter).value = '/ends'; \(filter).dispatchEvent(new Event('input')); \(Self.rows) }",
            ]
        )
        #expect(said == ["301", "true", "1", "0", "[]"], "\(said)")
    }

    @Test("a reload without a token is refused, with the remedy", .enabled(if: isThere))
    func reload() throws {
        let stage = try stage()
        let state = #"document.getElementById("reload-state").textContent"#
        let said = try Self.browse(
            stage.proxy,
            [
                ##"wait=document.querySelectorAll("#reload-table tbody tr").length == 1"##,
                #"print=document.getElementById("reload").focus()"#, "key=Enter", "wait=\(state).includes('token')",
                "print=\(state)",
            ]
        )
        #expect(said.dropFirst().first?.contains("admin.tokenFile") == true, "\(said)")
        #expect(stage.proxy.events("reloaded").isEmpty)
    }

    @Test("tasks that end while the page is open arrive, unless it is paused", .enabled(if: isThere))
    func live() throws {
        let stage = try stage()
        let folder = try TemporaryFolder()
        func get(_ path: String) -> String {
            "run=curl -sS -o \(folder.path)/body -x http://127.0.0.1:\(stage.proxy.port) \(stage.url(path))"
        }
        let first = ##"document.querySelector("#task-table .url").textContent"##
        let said = try Self.browse(
            stage.proxy,
            [
                #"wait=document.getElementById("stream-state").textContent.startsWith("Live.")"#,
                get("/a"), "wait=\(Self.rows) == 1", get("/b"), "wait=\(Self.rows) == 2", "print=\(first)",
                #"print=document.getElementById("pause").click()"#, get("/c"), "wait=tasks.length == 3",
                // A paused list does not change any more once the page says that it is paused.
                #"wait=document.getElementById("stream-state").textContent.includes("Paused")"#, "print=\(Self.rows)",
                #"print=document.getElementById("pause").click()"#, "wait=\(Self.rows) == 3", "print=\(first)",
            ]
        )
        #expect(
            said == [
                "\"https://\(Stage.host)/b\"", "null", "2", "null", "\"https://\(Stage.host)/c\"", "[]",
            ],
            "\(said)"
        )
    }
}
