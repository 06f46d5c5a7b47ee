// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// What the live page says of one moment, in headless Chromium: its first line, rows, filters, addresses and files.
@Suite("The live page's first line, rows, filters and files", .onOwnThreads)
struct LivePageStateTests {
    private static let isThere = LivePageTests.isThere
    private static let deadHost = "dead.example.com"
    private static let wrongHost = "wrong.example.com"
    private static let state = #"document.getElementById("state").innerText"#
    private static let noHosts = #"document.getElementById("no-hosts").textContent"#
    private static let noTasks = #"document.getElementById("no-tasks").textContent"#
    private static let live = #"wait=connection === "Live.""#

    /// A host with the right pin, one with another's, and one where nothing listens.
    private func stage(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0"]
            settings.resolve(Self.deadHost, to: 1)
            settings.pin(Self.deadHost, to: .unrelated(7))
            settings.hosts[Self.wrongHost] = settings.hosts[Stage.host]
            settings.pin(Self.wrongHost, to: .unrelated(8))
            change(&settings)
        } responding: {
            OriginResponse.text($0.target)
        }
    }

    private static func row(_ host: String) -> String {
        ##"document.querySelector("#host-table tr[data-domain='\##(host)']")"##
    }

    private static func filter(_ name: String, _ text: String) -> String {
        #"{ const one = document.getElementById("\#(name)-filter"); one.value = "\#(text)"; one.dispatchEvent(new Event("input")); }"#
    }

    private static let taskWords =
        ##"[...document.querySelectorAll("#task-table tbody tr:not(.more)")].map((one) => one.cells[1].innerText)"##

    @Test("the first line is one green line while nothing is wrong, with the figures", .enabled(if: isThere))
    func fine() throws {
        let stage = try stage()
        #expect(try stage.get().status == 200)
        let said = try LivePageTests.browse(
            stage.proxy,
            [
                Self.live, #"wait=document.getElementById("figures").innerText.includes("/s")"#,
                "wait=\(Self.state).includes('Nothing is wrong')", "print=\(Self.state)",
                ##"print=document.querySelector("#state .fine") !== null"##, "print=document.title",
                #"print=document.getElementById("figures").innerText.replaceAll("\n", " ")"#,
            ]
        )
        try #require(said.count == 5, "\(said)")
        #expect(
            said[0].contains("Nothing is wrong: 3 hosts") && said[1] == "true" && said[2] == "\"pinproxy\"",
            "\(said)"
        )
        for name in ["version ", "up ", "connections ", "requests since the start 1", "longest turn", "memory "] {
            #expect(said[3].contains(name), "\(name): \(said[3])")
        }
        #expect(said[4] == "[]")
    }

    @Test(
        "unreachable and refused hosts are red, with their reasons",
        .enabled(if: isThere)
    )
    func failures() throws {
        let stage = try stage()
        #expect(try stage.get().status == 200)
        #expect(try stage.proxy.get("http://\(Self.deadHost)/").status == 502)
        #expect(try stage.proxy.get("http://\(Self.wrongHost)/").status == 502)
        let said = try LivePageTests.browse(
            stage.proxy,
            [
                Self.live, "wait=\(Self.state).includes('1 host was refused')", "print=\(Self.state)",
                "print=\(Self.row(Self.deadHost)).innerText", "print=\(Self.row(Self.wrongHost)).innerText",
                "print=[\(Self.row(Self.deadHost)), \(Self.row(Self.wrongHost))].every((one) => one.classList.contains('wrong'))",
                "print=[...document.querySelectorAll('#host-table tbody tr')].every((one) => one.offsetHeight >= 14 && one.offsetHeight <= 24)",
                // The link to the error opens its description.
                "print=\(Self.row(Self.wrongHost)).querySelector('a').click()",
                "wait=document.activeElement.id.startsWith('error-')",
                "print=[document.activeElement.id, document.activeElement.nextElementSibling.innerText, location.hash]",
                // The link to the host opens its row.
                ##"print=[...document.querySelectorAll("#state a")].find((one) => one.textContent === "\##(Self.deadHost)").click()"##,
                "wait=document.activeElement.classList.contains('open')",
                "print=[document.activeElement.innerText, document.activeElement.getAttribute('aria-expanded'), location.hash]",
                "print=\(Self.row(Self.deadHost)).nextElementSibling.innerText",
            ]
        )
        try #require(said.count == 11, "\(said)")
        #expect(said[0].contains("1 host was not reached") && said[0].contains(Self.deadHost), "\(said[0])")
        #expect(said[0].contains("connect_failed") && said[0].contains("certificate_host_mismatch"), "\(said[0])")
        #expect(said[1].contains("not reached") && said[1].contains("connect_failed"), "\(said[1])")
        #expect(said[2].contains("refused") && said[2].contains("100 % of 1"), "\(said[2])")
        #expect(said[3] == "true" && said[4] == "true", "\(said)")
        #expect(
            said[6].contains("\"error-certificate_host_mismatch\"")
                && said[6].contains("#error-certificate_host_mismatch"),
            "\(said[6])"
        )
        #expect(said[6].contains("The certificate is for other names"), "\(said[6])")
        #expect(said[8] == "[\"\(Self.deadHost)\", \"true\", \"#host=\(Self.deadHost)\"]", "\(said[8])")
        for text in [
            "Pins", "not seen yet", "History", "No handshake since the start", "connect_failed", "All of its tasks",
        ] {
            #expect(said[9].contains(text), "\(text): \(said[9])")
        }
        #expect(said[10] == "[]")
    }

    @Test("a host is no longer unreachable after a successful request", .enabled(if: isThere))
    func reachedAgain() throws {
        let stage = try stage()
        #expect(try stage.proxy.get("http://\(Self.deadHost)/").status == 502)
        let said = try LivePageTests.browse(
            stage.proxy,
            [
                Self.live, "wait=\(Self.state).includes('1 host was not reached')",
                "print=unreached.size",
                // As if the same host had been asked again.
                "print=addTask({ time: new Date(Date.now() + 60000).toISOString(), method: 'GET', url: 'https://\(Self.deadHost)/', duration: 1, transactions: [{ responseStart: 1 }] }, true)",
                "wait=\(Self.state).includes('Nothing is wrong')",
            ]
        )
        #expect(said.first == "1" && said.last == "[]", "\(said)")
    }

    @Test("losses and unreachable hosts are shown without the tasks of that time", .enabled(if: isThere))
    func earlier() throws {
        let stage = try stage { $0.members["limits"] = ["connections": 1] }
        // It is the only client from its response on.
        let client = try Patience.poll(for: "a place for a client") {
            let client = try stage.proxy.connect()
            try client.send(ProxyUnderTest.request("GET", "http://\(Self.deadHost)/"))
            return try client.readResponse().status == 502 ? client : nil
        }
        #expect(try stage.proxy.connect().readResponse().status == 503)
        client.close()
        try Patience.poll(for: "the failure") {
            let document = try stage.proxy.exchange("GET /policy HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
            return document.text.contains("\"lastConnectFailure\":{\"time\":\"20") ? true : nil
        }
        // The kept tasks are forgotten.
        #expect(try stage.reload { $0.members["log"] = ["redact": ["other"]] }.string("event") == "reloaded")
        let said = try LivePageTests.browse(
            stage.proxy,
            [
                Self.live, "wait=\(Self.state).includes('1 host was not reached')", "print=tasks.length",
                "print=\(Self.state)", "print=\(Self.row(Self.deadHost)).innerText",
                "print=\(Self.row(Self.deadHost)).querySelector('button.open').click()",
                "print=\(Self.row(Self.deadHost)).nextElementSibling.innerText",
            ]
        )
        try #require(said.count == 6, "\(said)")
        #expect(said[0] == "0" && said[1].contains("not reached in the last hour: \(Self.deadHost)"), "\(said)")
        #expect(said[1].contains("one too many since the start, the last at"), "\(said[1])")
        #expect(said[2].contains("connect_failed") && said[4].contains("connect_failed"), "\(said)")
        #expect(said[5] == "[]")
    }

    @Test("refused files are named in the first line with error and place", .enabled(if: isThere))
    func refusedFiles() throws {
        let stage = try stage()
        let line = try stage.reload { $0.members["unpinnedHosts"] = "perhaps" }
        #expect(line.string("event") == "reloadFailed")
        let said = try LivePageTests.browse(stage.proxy, [Self.live, "print=\(Self.state)"])
        for text in ["Files were refused", "policy 1 stays in force", "config.json: /unpinnedHosts, line "] {
            #expect(said[0].contains(text), "\(text): \(said[0])")
        }
        #expect(said.last == "[]")
    }

    @Test(
        "filters find the words that are shown, and say when none match",
        .enabled(if: isThere)
    )
    func filters() throws {
        let stage = try stage { settings in
            settings.members["access"] = ["denyHosts": ["denied.example.com"]]
            settings.members["unpinnedHosts"] = "allow"
        }
        #expect(try stage.get().status == 200)
        for host in [Self.deadHost, Self.wrongHost, "denied.example.com"] { _ = try stage.proxy.get("http://\(host)/") }
        let said = try LivePageTests.browse(
            stage.proxy,
            at: "#tasks=refused",
            [
                Self.live, "wait=\(LivePageTests.rows) >= 2", "print=\(Self.taskWords)",
                #"print=document.getElementById("stream-state").textContent"#,
                "print=\(Self.filter("task", "failed")) \(Self.taskWords)",
                "print=\(Self.filter("task", "PASS")) \(Self.taskWords)",
                "print=\(Self.filter("task", "no such word")) \(Self.noTasks)",
                ##"wait=location.hash === "#tasks=no%20such%20word""##,
                "print=\(Self.filter("host", "not reached")) \(Self.row(Self.deadHost)) !== null && document.querySelectorAll('#host-table tbody tr').length",
                "print=\(Self.filter("host", "no such word")) \(Self.noHosts)",
            ]
        )
        try #require(said.count == 8, "\(said)")
        #expect(said[0].hasPrefix(#"["refused", "refused""#) && said[1].contains("4 tasks kept, "), "\(said)")
        #expect(said[2].contains("failed") && said[3] == #"["pass"]"#, "\(said)")
        #expect(said[4].contains("Nothing found: none of the 4 kept tasks"), "\(said[4])")
        #expect(said[5] == "1" && said[6].contains("Nothing found: none of 3 hosts"), "\(said)")
        #expect(said[7] == "[]")
    }

    @Test("rows open and close by keyboard, and keep the focus", .enabled(if: isThere))
    func keyboard() throws {
        let stage = try stage()
        #expect(try stage.get().status == 200)
        let opener = "\(Self.row(Stage.host)).querySelector('button.open')"
        let focus = "[document.activeElement.innerText, document.activeElement.getAttribute('aria-expanded')]"
        let said = try LivePageTests.browse(
            stage.proxy,
            [
                Self.live, "wait=\(Self.row(Stage.host)).innerText.includes('of 1')",
                #"print=document.getElementById("host-filter").focus()"#,
                // CSV, JSON, five heads of columns, then the first row.
                "key=Tab", "key=Tab", "key=Tab", "key=Tab", "key=Tab", "key=Tab", "key=Tab", "key=Tab",
                "print=\(focus)",
                "print=getComputedStyle(document.activeElement).outlineStyle", "print=\(opener).focus()",
                "key=Enter", "print=\(focus)",
                "print=document.getElementById(document.activeElement.getAttribute('aria-controls')) !== null",
                // The row is replaced, with further figures.
                "print={ const one = structuredClone(domainIndex.get('\(Stage.host)')); one.handshakes.pass = 7; takeDomains([one], false); showHosts(); }",
                "wait=\(Self.row(Stage.host)).innerText.includes('of 7')", "print=\(focus)", "key=Enter",
                "print=\(focus)",
            ]
        )
        try #require(said.count == 10, "\(said)")
        #expect(said[1].contains(".example.com") && said[1].contains("false") && said[2] == "\"solid\"", "\(said)")
        let (opened, closed) = ("[\"\(Stage.host)\", \"true\"]", "[\"\(Stage.host)\", \"false\"]")
        #expect(said[4] == opened && said[5] == "true" && said[7] == opened && said[8] == closed, "\(said)")
        #expect(said.last == "[]")
    }

    @Test("each table is saved as CSV and JSON, without formulas of peers", .enabled(if: isThere))
    func files() throws {
        let stage = try stage()
        #expect(try stage.get("/one,two").status == 200)
        let names = #"["hosts", "tasks", "rules", "credentials", "cache", "reloads", "settings"]"#
        let said = try LivePageTests.browse(
            stage.proxy,
            [
                Self.live, "wait=\(LivePageTests.rows) == 1", "wait=\(Self.row(Stage.host)).innerText.includes('pass')",
                "wait=held.settings.sections.length > 0",
                "print=\(names).map((one) => [tableText(one, 'csv').split('\\r\\n').length > 1, typeof JSON.parse(tableText(one, 'json'))].join()).join(' ')",
                "print=tableText('tasks', 'csv').split('\\r\\n')[1]",
                "print=JSON.parse(tableText('tasks', 'json')).length",
                "print=tableText('hosts', 'csv')",
                #"print=[cellText("=HYPERLINK(1)"), cellText("@x"), cellText("+1"), cellText(-1), cellText("a\nb")].join("|")"#,
                // Nothing of the policy for contents stands in the way of the buttons.
                "print=document.querySelectorAll('button[data-save]').forEach((one) => one.click())",
                "print=document.querySelectorAll('button[data-save]').length",
            ]
        )
        try #require(said.count == 8, "\(said)")
        #expect(said[0] == "\"" + Array(repeating: "true,object", count: 7).joined(separator: " ") + "\"", "\(said[0])")
        #expect(said[1].contains("pass,200,GET") && said[1].contains("one,two") && said[2] == "1", "\(said)")
        #expect(
            said[3].contains("host,verdict,error,lastHandshake") && said[3].contains("\(Stage.host),pass,,"),
            "\(said[3])"
        )
        #expect(said[4] == #""'=HYPERLINK(1)|'@x|'+1|-1|a\\u{a}b""#, "\(said[4])")
        #expect(said[6] == "14" && said[7] == "[]", "\(said)")
    }

    @Test("credentials have their panel: held, ended and failed, and no part of a value", .enabled(if: isThere))
    func credentials() throws {
        let stage = try stage { settings in
            settings.files["good"] = "s3cr3t-value"
            settings.members["credentials"] = ["good": ["file": "good"], "broken": ["file": "none"]]
            settings.members["requests"] = [
                "rules": ["good", "broken"].map {
                    ["id": $0, "then": "allow", "host": Stage.host, "path": "/\($0)/*", "credential": $0]
                }
            ]
        }
        #expect(try stage.get("/good/x").status == 200)
        #expect(try stage.get("/broken/x").status == 502)
        let table = #"document.getElementById("credential-table").innerText"#
        let said = try LivePageTests.browse(
            stage.proxy,
            [
                Self.live, "wait=/good\\s+held/.test(\(table)) && /broken\\s+none/.test(\(table))", "print=\(table)",
                "print=\(Self.state)", #"print=document.getElementById("credential-link").hidden"#,
                ##"print=document.querySelector("#task-table").innerText"##,
                "print=document.body.textContent.includes('s3cr3t')",
            ]
        )
        try #require(said.count == 6, "\(said)")
        #expect(
            said[0].contains("no end known") && said[0].contains("never") && said[0].contains("the file "),
            "\(said[0])"
        )
        #expect(said[1].contains("A credential has no value: broken") && said[2] == "false", "\(said)")
        #expect(said[3].contains("credential good") && said[3].contains("credential_unavailable"), "\(said[3])")
        #expect(said[4] == "false" && said[5] == "[]", "\(said)")
    }

    /// The page with its own policy, and documents of a proxy with so many hosts.
    private static func site(hosts count: Int) throws -> (site: ScriptedOrigin, names: [String]) {
        let real = try Stage {
            $0.members["admin"] = ["address": "127.0.0.1:0"]
        } responding: {
            OriginResponse.text($0.target)
        }
        .proxy.exchange("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        let (page, policy) = (real.text, try #require(real["Content-Security-Policy"]))
        let names = (0..<count).map { "host-\($0).example.com" }
        let time = Date().formatted(.iso8601)
        let domains = names.enumerated().map { index, name -> String in
            let verdict = index == count / 2 ? "fail" : "pass"
            return """
                {"domain":"\(name)","file":"/etc/pinproxy/pins/all.json","includeSubdomains":false,"mode":"publicKey","enforcePinning":true,\
                "pins":[{"pin":"sha256/\(index)","scope":"any","backup":false,"matched":3},{"pin":"sha256/b\(index)","scope":"any","backup":true,"matched":0}],\
                "pinnedCertificates":0,"forbiddenPins":0,"handshakes":{"\(verdict)":3},"lastHandshake":{"time":"\(time)","host":"\(name)",\
                "verdict":"\(verdict)","certificateExpiresInDays":60,"keys":[{"pin":"sha256/\(index)","subject":"CN = \(name)","isPinned":true}]}}
                """
        }
        let head = "{\"generation\":1,\"loaded\":\"\(time)\",\"unpinnedHosts\":\"deny\",\"domains\":["
        // Each host has a section of settings.
        let sections = names.map { #"{"title":"\#($0)","rows":[{"label":"resolve","text":"127.0.0.1"}]}"# }
        let settings = "{\"sections\":[\(sections.joined(separator: ","))]}"
        let responses = [
            "/": page, "/policy": head + domains.joined(separator: ",") + "]}", "/tasks": #"{"next":0,"tasks":[]}"#,
            "/status":
                #"{"version":"1","time":"\#(time)","started":"\#(time)","live":true,"draining":false,"generation":1,"requests":1}"#,
            "/reloads": #"{"loads":[],"restartNeeded":[]}"#, "/config": settings,
            "/cache": #"{"requests":{},"stored":0,"memory":{"bytes":0,"capacity":1}}"#,
        ]
        let changed = head + "]}"
        let site = try ScriptedOrigin(nil) { connection in
            while let request = try connection.readRequest() {
                let path = String(request.target.prefix { $0 != "?" })
                if path == "/tasks/stream" {
                    try connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                    return connection.readToEnd()
                }
                let response = request.target.contains("since=") ? changed : responses[path] ?? "{}"
                let type = path == "/" ? "text/html; charset=utf-8" : "application/json"
                try connection.write(
                    OriginResponse.text(
                        response,
                        fields: ["Content-Type: \(type)", "Content-Security-Policy: \(policy)"]
                    )
                )
            }
        }
        return (site, names)
    }

    @Test("10,000 hosts are found, sorted and paged through, a hundred rows at a time", .enabled(if: isThere))
    func manyHosts() throws {
        let (site, names) = try Self.site(hosts: 10_000)
        let rows = "document.querySelectorAll('#host-table tbody tr').length"
        func timed(_ script: String) -> String {
            "print=(() => { const start = performance.now(); \(script); return performance.now() - start; })()"
        }
        let finished = try Programs.run(
            LivePageTests.script,
            [
                "size=1280x900", "open=http://127.0.0.1:\(site.port)/", Self.live,
                "wait=held.settings.sections.length === 10000", "print=\(rows)",
                // The refused one is the first.
                "print=document.querySelector('#host-table tbody tr').dataset.domain",
                "print=document.querySelector('#host-pager p').textContent",
                "print=[...document.querySelectorAll('#host-pager button')].at(-1).click()",
                "print=document.querySelector('#host-pager p').textContent",
                "print=document.querySelectorAll('*').length < 5000", "print=document.body.scrollHeight < 8000",
                timed("showHosts()"), timed(Self.filter("host", "host-7777")), "print=\(rows)",
                timed(Self.filter("host", "") + " document.querySelector('button[data-sort=ends]').click()"),
            ],
            seconds: 150
        )
        let said = finished.output.split(separator: "\n").map(String.init)
        try #require(finished.exitCode == 0 && said.count == 12, "\(finished.errors) \(said)")
        #expect(said[0] == "100" && said[1] == "\"\(names[5000])\"", "\(said)")
        #expect(
            said[2].contains("of 10,000") && said[4].contains("9,901") && said[5] == "true" && said[6] == "true",
            "\(said)"
        )
        #expect(said[9] == "1" && said[11] == "[]", "\(said)")
        // Some ten milliseconds on a processor of its own; the bound is for one with many others.
        for time in [said[7], said[8], said[10]] { #expect((Double(time) ?? .infinity) < 3000, "\(time) ms") }
    }

    /// axe-core's script, where the Python package `axe-playwright-python` is installed (its licence is MPL-2.0).
    private static let axe: String? = {
        let search =
            "import importlib.util as u; s = u.find_spec('axe_playwright_python'); print(s.submodule_search_locations[0] if s else '', end='')"
        guard let folder = try? Programs.run("python3", ["-c", search]).output, !folder.isEmpty else { return nil }
        return "\(folder)/axe.min.js"
    }()

    @Test("axe-core finds nothing to mend, in either scheme and at either width", .enabled(if: isThere && axe != nil))
    func accessibility() throws {
        let stage = try stage()
        #expect(try stage.get().status == 200)
        for host in [Self.deadHost, Self.wrongHost] { _ = try stage.proxy.get("http://\(host)/") }
        let script = try #require(Self.axe)
        for scheme in ["light", "dark"] {
            for size in ["size=1280x900", "phone=390x844"] {
                let said = try LivePageTests.browse(
                    stage.proxy,
                    [
                        size, "scheme=\(scheme)", Self.live, "wait=\(LivePageTests.rows) == 3",
                        "print=document.querySelectorAll('button.open').forEach((one) => one.click())",
                        "print=document.querySelectorAll('details').forEach((one) => one.open = true)",
                        "script=\(script)",
                        "print=axe.run().then((one) => one.passes.length > 30)",
                        "print=axe.run().then((one) => one.violations.map((each) => each.id + ': ' + each.nodes[0].html))",
                    ]
                )
                #expect(said.suffix(3) == ["true", "[]", "[]"], "\(scheme), \(size): \(said)")
            }
        }
    }
}
