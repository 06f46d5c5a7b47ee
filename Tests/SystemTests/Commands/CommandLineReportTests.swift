// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: exec --report", .earlyOnOwnThreads)
struct CommandLineReportTests {
    private static func exec(
        _ options: [String],
        _ script: String,
        settings: ProxySettings? = nil,
        folder: TemporaryFolder? = nil,
        environment: [String: String] = [:]
    ) throws -> Programs.Finished {
        let work = try folder ?? TemporaryFolder()
        var words = ["exec"]
        if let settings { words += ["--config", try settings.write(to: work)] }
        return try Programs.run(
            try Programs.built("pinproxy"),
            words + options + ["--", "sh", "-c", script],
            environment: Programs.environment.merging(environment) { $1 },
            folder: work.path
        )
    }

    // MARK: Real programs

    struct Client: Sendable, CustomTestStringConvertible {
        let name: String
        let needs: String
        /// Prints `works` at its end when all went well.
        let works: String
        /// What the program was not seen to do.
        let next: String
        /// A row of the summary.
        let row: String

        var testDescription: String { name }
        var isThere: Bool { (try? Programs.run("/bin/sh", ["-c", needs]).exitCode) == 0 }
    }

    private static let pip = """
        export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONWARNINGS=ignore
        /usr/bin/python3 -m pip download --no-cache-dir --no-deps --retries 0 -i "$BASE/files/simple" "$PACKAGE" 2>&1 && echo works
        """

    private static let npm = """
        export npm_config_cache="$WORK/cache" npm_config_update_notifier=false; rm -rf cache node_modules; echo '{}' >package.json
        npm install --no-audit --no-fund --fetch-retries 0 --registry "$BASE/files/npm/" "$PACKAGE" 2>&1 && echo works
        """

    static let clients = [
        Client(
            name: "pip download",
            needs: "/usr/bin/python3 -m pip --version",
            works: "PACKAGE=pinned-package; \(pip)",
            next: "PACKAGE=other-package; \(pip)",
            row: "GET  https://\(Stage.host)/files/simple/pinned-package/\n"
        ),
        Client(
            name: "git clone",
            needs: "command -v git",
            works: #"rm -rf clone; git clone -q "$BASE/files/repository.git" clone 2>&1 && echo works"#,
            next: #"GIT_TERMINAL_PROMPT=0 git clone -q "$BASE/files/other.git" other 2>&1"#,
            row: "GET  https://\(Stage.host)/files/repository.git/info/refs\n"
        ),
        Client(
            name: "npm install",
            needs: "command -v npm",
            works: "PACKAGE=@pinned/package; \(npm)",
            next: "PACKAGE=@other/package; \(npm)",
            row: "GET  https://\(Stage.host)/files/npm/@pinned%2Fpackage\n"
        ),
    ]

    @Test("every program is there", .enabled(if: RealPeers.areRequired))
    func complete() { for client in Self.clients where !client.isThere { Issue.record("\(client.name) is missing") } }

    @Test(
        "--intercept --propose makes a configuration that works for its program alone",
        arguments: clients.filter(\.isThere)
    )
    func programs(_ client: Client) throws {
        let work = try TemporaryFolder()
        let server = try Stage.pki.server(Stage.host)
        let origin = try MatrixOrigin(server, withPackages: true)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.resolve(Stage.host, to: origin.port)
        // The tarball of npm's registry has a URL of plain http.
        settings.hosts[Stage.host]?["upgrade"] = true
        func run(_ options: [String], _ script: String) throws -> Programs.Finished {
            try Self.exec(
                options,
                script,
                settings: settings,
                folder: work,
                environment: [
                    "BASE": "https://\(Stage.host)", "WORK": work.path, "HOME": work.path, "GIT_CONFIG_NOSYSTEM": "1",
                ]
            )
        }
        let first = try run(["--intercept", "--propose", "proposal"], client.works)
        try #require(first.exitCode == 0 && first.output.contains("works"), "\(first.output)\(first.errors)")
        #expect(first.errors.contains(client.row), "\(first.errors)")
        #expect(first.errors.contains("1 host without a pin\n  pinproxy pins show --pin-file \(Stage.host)  "))
        #expect(first.errors.contains("proposed in \"proposal\": 1 rule, the pins of 1 host"), "\(first.errors)")
        #expect(!first.errors.contains("\"event\":\"task\"") && !first.errors.contains("denied"), "\(first.errors)")
        // What a program has asked for and got is proposed whole, and the CONNECT around it is no request of its own.
        #expect(!first.errors.contains("not proposed"), "\(first.errors)")

        let document = try #require(FileManager.default.contents(atPath: "\(work.path)/proposal/config.json"))
        let proposed = try #require(try JSONSerialization.jsonObject(with: document) as? [String: Any])
        #expect(proposed["pins"] as? String == "pins" && proposed["version"] as? Int == 1)
        let schema = try #require(proposed["$schema"] as? String)
        #expect(schema == "urn:pinproxy:schema:config" || schema.hasSuffix("/config.schema.json"))
        settings.members["requests"] = proposed["requests"]
        settings.members["pins"] = "proposal/pins"
        settings.members["unpinnedHosts"] = "deny"
        settings.members["log"] = ["tasks": "stderr", "format": "json"]
        let again = try run(["--intercept"], client.works)
        #expect(again.exitCode == 0 && again.output.contains("works"), "\(again.output)\(again.errors)")
        let tasks = again.errors.split(separator: "\n").compactMap { LogLine(String($0)) }
        #expect(tasks.contains { $0.object("pinning")?["verdict"] as? String == "pass" })
        let refused = try run(["--intercept"], client.next)
        #expect(!refused.output.contains("works"), "\(refused.output)")
        #expect(refused.errors.contains("\"error\":\"request_denied\""), "\(refused.errors)")
        // The configuration of the proposal is whole, but for what only this machine knows.
        let check = try pinproxy("check", "--config", "\(work.path)/proposal/config.json")
        #expect(check.exitCode == 0, "\(check.errors)")
    }

    // MARK: What is in force

    @Test("unmatched requests are sent and named; pins, denials and access hold")
    func inForce() throws {
        let pki = try TestPKI()
        let names = ["api.test", "free.test", "wrong.test", "outside.test"]
        let server = try pki.server(names[0], names[1], names[2], names[3])
        let origin = try ScriptedOrigin(server) { OriginResponse.text("\($0.target)\n") }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        settings.resolve("free.test", to: origin.port)
        settings.resolve("outside.test", to: origin.port)
        settings.resolve("wrong.test", to: origin.port)
        settings.pin("wrong.test", to: .unrelated(3))
        settings.members["unpinnedHosts"] = "deny"
        settings.members["access"] = ["allowHosts": ["api.test", "free.test", "wrong.test"]]
        settings.members["requests"] = [
            "policy": "deny",
            "rules": [
                ["id": "never", "host": "api.test", "method": "DELETE", "then": "deny"],
                ["id": "try", "host": "api.test", "method": "PUT", "then": "report"],
                ["id": "ok", "host": "api.test", "method": "GET", "path": "/v1/*", "then": "allow"],
            ],
        ]
        let script = """
            for path in 1 2 3 4 5; do curl -s https://api.test/v1/name-$path-x; done
            curl -s -X POST https://api.test/v1/post; curl -s -X PUT https://api.test/v1/put
            curl -s --path-as-is https://api.test//v1/double
            curl -s -o /dev/null -w '%{http_code}\\n' -X DELETE https://api.test/v1/delete
            curl -s https://free.test/free; curl -s https://wrong.test/wrong; curl -s https://outside.test/outside
            exit 7
            """
        let finished = try Self.exec(["--intercept", "--report"], script, settings: settings)
        #expect(finished.exitCode == 7)
        let sent = (1...5).map { "/v1/name-\($0)-x" } + ["/v1/post", "/v1/put", "//v1/double", "403", "/free"]
        #expect(finished.output == sent.map { $0 + "\n" }.joined(), "\(finished.output) \(finished.errors)")
        #expect(origin.requests.allSatisfy { $0.method != "DELETE" })
        let rows = [
            "pinproxy: 12 requests of the program", "5  GET      https://api.test/v1/*",
            "1  CONNECT  outside.test:443", "3 requests denied",
            "1  DELETE   https://api.test/v1/delete  (rule \"never\")", "1  CONNECT  wrong.test:443  (pin_mismatch)",
            "1  CONNECT  outside.test:443  (host_denied)", "4 requests sent that would be denied",
            "1  POST  https://api.test/v1/post  (no rule of requests matches)",
            "1  PUT   https://api.test/v1/put  (rule \"try\")",
            "1  GET   https://api.test//v1/double  (no rule of requests matches, can be read in two ways: emptySegment)",
            "1  GET   https://free.test/free  (no rule of requests matches)",
            "1 host without a pin (unpinnedHosts is \"deny\": refused without --report)",
            "  pinproxy pins show --pin-file free.test  1 request", "--propose FOLDER, in the place of --report",
        ]
        for row in rows { #expect(finished.errors.contains(row), "\(row): \(finished.errors)") }
        #expect(!finished.errors.contains("\"event\":\"task\""))
        // Without --report requests that no rule matches are refused.
        let strict = try Self.exec(["--intercept"], script, settings: settings)
        #expect(strict.output.split(separator: "\n").filter { $0.hasPrefix("/") }.count == 6, "\(strict.output)")
    }

    @Test("without --intercept it shows refusals and tunnels")
    func tunnels() throws {
        let refused = try Self.exec(["--report"], "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9/x; true")
        #expect(refused.exitCode == 0 && refused.output == "403", "\(refused.errors)")
        #expect(refused.errors.contains("1  GET  http://127.0.0.1:9/x  (address_denied)"), "\(refused.errors)")
        let nothing = try Self.exec(["--report"], "exit 3")
        #expect(nothing.exitCode == 3 && nothing.errors.contains("has asked for nothing"), "\(nothing.errors)")
        let pki = try TestPKI()
        let origin = try ScriptedOrigin(try pki.server("api.test")) { _ in OriginResponse.text("in the tunnel") }
        var settings = ProxySettings(trusting: pki)
        settings.resolve("api.test", to: origin.port)
        settings.members["defaults"] = ["connect": "tunnel"]
        let finished = try Self.exec(["--report"], "curl -sk https://api.test/x", settings: settings)
        #expect(finished.output == "in the tunnel", "\(finished.errors)")
        #expect(finished.errors.contains("1  CONNECT  api.test:443\n"), "\(finished.errors)")
        #expect(finished.errors.contains("in tunnels, whose servers only the program has judged"), "\(finished.errors)")
    }

    @Test("a program that does not trust the run's CA is recognised")
    func distrust() throws {
        let pki = try TestPKI()
        let origin = try ScriptedOrigin(try pki.server("api.test")) { _ in OriginResponse.text("") }
        var settings = ProxySettings(trusting: pki)
        settings.resolve("api.test", to: origin.port)
        let script = "curl -s --cacert anchors.pem https://api.test/; true"
        let finished = try Self.exec(["--intercept", "--report"], script, settings: settings)
        #expect(finished.errors.contains("1 request failed\n"), "\(finished.errors)")
        #expect(finished.errors.contains("(client_handshake_failed)"), "\(finished.errors)")
        #expect(finished.errors.contains("does not accept the certificate"), "\(finished.errors)")
    }

    @Test("texts that the program chooses do not steer the terminal")
    func texts() throws {
        let pki = try TestPKI()
        let origin = try ScriptedOrigin(try pki.server("api.test")) { _ in OriginResponse.text("") }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", try pki.server("api.test"), at: origin.port)
        let script =
            #"curl -s "http://api.test/$(printf 'a\342\200\256b\302\233c')"; curl -s -X 'M$(x)' http://api.test/; true"#
        let finished = try Self.exec(["--report"], script, settings: settings)
        #expect(finished.errors.contains("of the program"), "\(finished.errors)")
        let steering: Set<Unicode.Scalar> = ["\u{202E}", "\u{9B}", "\u{1B}"]
        #expect(!finished.errors.unicodeScalars.contains { steering.contains($0) })
    }

    // MARK: The folder of proposals

    @Test("the folder must be new or empty, and nothing is overwritten")
    func folder() throws {
        let work = try TemporaryFolder()
        func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: work.path).sorted() }
        try work.write("mine", as: "full/config.json")
        let full = try Self.exec(["--propose", "full"], "echo run", folder: work)
        #expect(full.exitCode == 1 && full.output.isEmpty, "\(full.errors)")
        #expect(full.errors.contains("it exists, and is not an empty folder"), "\(full.errors)")
        #expect(try String(contentsOfFile: "\(work.path)/full/config.json", encoding: .utf8) == "mine")
        let deep = try Self.exec(["--propose", "none/deep"], "echo run", folder: work)
        #expect(deep.exitCode == 1 && deep.errors.contains("No such file or directory"), "\(deep.errors)")
        let nothing = try Self.exec(["--propose", "new"], "exit 4", folder: work)
        #expect(nothing.exitCode == 4 && nothing.errors.contains("Nothing is proposed"), "\(nothing.errors)")
        #expect(try names() == ["full"])
        let wrong = try pinproxy("exec", "--propose", "\(work.path)/new", "--", "\(work.path)/no-program")
        #expect(wrong.exitCode == 127)
        #expect(try names() == ["full"])

        let pki = try TestPKI()
        let server = try pki.server("api.test", "b.test")
        let origin = try ScriptedOrigin(server) { _ in OriginResponse.text("") }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        settings.resolve("b.test", to: origin.port)
        try FileManager.default.createDirectory(atPath: "\(work.path)/empty", withIntermediateDirectories: false)
        let script = "curl -s https://api.test/a https://b.test/b; curl -s --path-as-is https://b.test/a/../b"
        let kept = try Self.exec(
            ["--intercept", "--propose", "empty"],
            script,
            settings: settings,
            folder: work
        )
        #expect(kept.errors.contains("proposed in \"empty\": 2 rules, the pins of 1 host"), "\(kept.errors)")
        #expect(kept.errors.contains("1 of them can be read in two ways (dotSegment): not proposed"), "\(kept.errors)")
        let files = try FileManager.default.subpathsOfDirectory(atPath: "\(work.path)/empty").sorted()
        #expect(files == ["config.json", "pins", "pins/b.test.json"])
        // A pinned host has pins already.
        #expect(!kept.errors.contains("--pin-file api.test"), "\(kept.errors)")
    }

    // MARK: The CA of a run

    private static func constraints(_ requests: [String: Any], _ options: [String] = []) throws -> String {
        var settings = ProxySettings(trusting: try TestPKI())
        settings.members["requests"] = requests
        let finished = try exec(
            ["--intercept"] + options,
            #"openssl x509 -in "$NODE_EXTRA_CA_CERTS" -noout -ext nameConstraints"#,
            settings: settings
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        return finished.output
    }

    @Test("the run's CA signs for the hosts of deciding rules alone")
    func authority() throws {
        func rule(_ id: String, _ hosts: [String]?, _ then: String) -> [String: Any] {
            var rule: [String: Any] = ["id": id, "then": then]
            rule["host"] = hosts
            return rule
        }
        let rules = [
            rule("a", ["api.example.com", "*.below.example"], "allow"), rule("b", ["127.0.0.1"], "report"),
            rule("c", ["never.example"], "deny"),
        ]
        let bound = try Self.constraints(["rules": rules])
        for text in ["DNS:api.example.com", "DNS:below.example", "IP:127.0.0.1/255.255.255.255"] {
            #expect(bound.contains(text), "\(text): \(bound)")
        }
        #expect(!bound.contains("never") && bound.contains("critical"), "\(bound)")
        #expect(try Self.constraints(["rules": [rule("c", nil, "deny")]]).contains("DNS:none.invalid"))
        let unbound: [([String: Any], [String])] = [
            (["policy": "report", "rules": rules], []), (["policy": "allow", "rules": rules], []),
            (["rules": rules + [rule("d", nil, "allow")]], []), (["rules": rules + [rule("d", ["*"], "report")]], []),
            (["rules": rules], ["--report"]),
        ]
        for (requests, options) in unbound {
            let text = try Self.constraints(requests, options)
            #expect(!text.contains("DNS:") && !text.contains("IP:"), "\(text)")
        }
    }

    @Test("a host that a reload adds is refused, with the remedy")
    func addedHost() throws {
        let folder = try TemporaryFolder()
        let pki = try TestPKI()
        let server = try pki.server("api.test", "added.test")
        let origin = try ScriptedOrigin(server) { _ in OriginResponse.text("came through\n") }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        settings.serve("added.test", server, at: origin.port)
        settings.members["log"] = ["tasks": "stderr", "format": "json"]
        func rules(_ hosts: String...) -> [String: Any] { ["rules": [["id": "ok", "host": hosts, "then": "allow"]]] }
        settings.members["requests"] = rules("api.test")
        let path = try settings.write(to: folder)
        let script =
            "curl -s https://api.test/; while [ ! -e '\(folder.path)/go' ]; do sleep 0.05; done; curl -s https://added.test/; curl -s https://api.test/"
        let process = try ChildProcess(
            try Programs.built("pinproxy"),
            ["exec", "--intercept", "--config", path, "--", "sh", "-c", script]
        )
        _ = try process.waitForOutput("the first response") { $0 == "came through\n" ? true : nil }
        settings.members["requests"] = rules("api.test", "added.test")
        _ = try settings.write(to: folder)
        _ = try process.waitForErrors("the reload") { $0.contains("\"event\":\"reloaded\"") ? true : nil }
        try folder.write("", as: "go")
        let finished = try process.waitForExit(seconds: 60)
        #expect(finished.output == "came through\ncame through\n", "\(finished.errors)")
        #expect(finished.errors.contains("\"event\":\"restartNeeded\",\"key\":\"requests\""), "\(finished.errors)")
        let refused = finished.errors.split(separator: "\n").compactMap { LogLine(String($0)) }
            .first { $0.string("url") == "added.test:443" }
        #expect(refused?.string("error") == "connect_denied")
        #expect(refused?.string("errorDetails")?.contains("Start exec anew.") == true, "\(finished.errors)")
    }
}
