import Foundation
import TestSupport
import Testing

/// The live page in headless Chromium. `PINPROXY_REQUIRE_CLIENTS=1` makes its absence a failure; otherwise the tests are
/// skipped without it.
@Suite("The live page in a browser")
struct LivePageTests {
    private static let isComplete = ProcessInfo.processInfo.environment["PINPROXY_REQUIRE_CLIENTS"] == "1"
    private static let isThere = (try? Programs.path(of: "chromium")) != nil
    private static let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent(".ci/browser").path
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
        } answering: {
            OriginAnswer.text($0.target, fields: ["Cache-Control: max-age=600"])
        }
    }

    /// Runs the steps on the page; returns what `print` steps have printed, then what the page has complained about.
    private static func browse(_ proxy: ProxyUnderTest, _ steps: [String]) throws -> [String] {
        let page = "http://127.0.0.1:\(proxy.port(of: 1))/"
        let finished = try Programs.run(script, ["open=\(page)"] + steps, seconds: 150)
        try #require(finished.exitCode == 0, "\(finished.errors) \(finished.output)")
        return finished.output.split(separator: "\n").map(String.init)
    }

    private static let rows = ##"document.querySelectorAll("#task-table tbody tr").length"##

    @Test("it shows hosts, tasks as they end, cache and loads, and complains of nothing", .enabled(if: isThere))
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
        try #require(said.count == 6, "\(said)")
        for text in [
            Stage.host, Self.wrongHost, "not seen yet", "seen 1 time", "2101-01-31", "pass", "/one?token=***",
            "from the cache",
            "policy 1", "start", "50 %",
        ] {
            #expect(said[0].contains(text), "\(text): \(said[0])")
        }
        #expect(!said[0].contains("secret"))
        #expect(said[1] == "true" && said[2] == "\"Skip to the content\"" && said[3] == "true" && said[4] == "true")
        #expect(said[5] == "[]", "the page complains")
        for file in files {
            let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
            #expect(bytes.starts(with: [0x89, 0x50, 0x4E, 0x47]) && bytes.count > 20_000, "\(file)")
        }
    }

    @Test(
        "markup of the network is text in it: nothing of it is run, and its own policy forbids it",
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
        #expect(said[0] == "0" && said[1].contains("onerror=document.title='run'") && said[2] == "\"pinproxy\"")
        #expect(said[3].contains("Content Security Policy"), "\(said[3])")
    }

    @Test("a page of another site reads and changes nothing, however it tries", .enabled(if: isThere))
    func otherSite() throws {
        let stage = try Stage { settings in
            settings.members["admin"] = ["address": "127.0.0.1:0", "allowedHosts": ["allowed.test"]]
            settings.members["cache"] = [String: Any]()
        } answering: { _ in
            OriginAnswer.text("stored", fields: ["Cache-Control: max-age=600"])
        }
        #expect(try stage.get("/stored").status == 200)
        let admin = "http://127.0.0.1:\(stage.proxy.port(of: 1))"
        let site = try ScriptedOrigin(nil) { _ in
            OriginAnswer.text("<!DOCTYPE html><title>other</title>", fields: ["Content-Type: text/html"])
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

    @Test("a reload is refused without a token, and the page says what to do", .enabled(if: isThere))
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

    @Test("tasks that end while it is open arrive, latest first, and wait while it is paused", .enabled(if: isThere))
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
