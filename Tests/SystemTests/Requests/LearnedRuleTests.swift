// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// Real programs under the rules that `requests learn` makes from one run of them in report mode.
@Suite("Rules that were learned", .onOwnThreads)
struct LearnedRuleTests {
    struct Client: Sendable, CustomTestStringConvertible {
        let name: String
        /// A command that succeeds where what the scripts need is there.
        let needs: String
        /// Prints `works` at its end when all went well.
        let works: String
        /// What the program was not seen to do.
        let next: String
        /// The words that the program prints of the refusal.
        let tells: String

        var testDescription: String { name }
        var isThere: Bool { (try? Programs.run("/bin/sh", ["-c", needs]).exitCode) == 0 }
    }

    private static let apt = """
        mkdir -p state/lists/partial cache/archives/partial etc/preferences.d etc/apt.conf.d etc/trusted.gpg.d empty; : >status
        cat >apt.conf <<END
        Dir "$WORK"; Dir::State "$WORK/state"; Dir::State::status "$WORK/status"; Dir::Cache "$WORK/cache"; Dir::Etc "$WORK/etc";
        Dir::Etc::sourcelist "$WORK/sources.list"; Dir::Etc::sourceparts "$WORK/empty"; APT::Sandbox::User "";
        Acquire::Languages "none"; Acquire::Retries "0"; Acquire::http::Proxy "$PROXY";
        END
        echo "deb [trusted=yes arch=all] $BASE/files $SUITE main" >sources.list; rm -rf state/lists/*; export APT_CONFIG="$WORK/apt.conf" LC_ALL=C
        apt-get -q update 2>&1 && apt-get -q download pinned-package && echo works
        """

    private static let pip = """
        export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 HOME="$WORK"
        /usr/bin/python3 -m pip --isolated download --no-cache-dir --no-deps --retries 0 --proxy "$PROXY" \
        --trusted-host "${BASE#http://}" -i "$BASE/files/simple" "$PACKAGE" 2>&1 && echo works
        """

    private static let npm = """
        export HOME="$WORK" npm_config_cache="$WORK/cache" npm_config_update_notifier=false; rm -rf cache node_modules; echo '{}' >package.json
        npm install --no-audit --no-fund --fetch-retries 0 --proxy "$PROXY" --registry "$BASE/files/npm/" "$PACKAGE" 2>&1 && echo works
        """

    /// Asks for an upgrade, and says what came.
    private static let socket = """
        node -e '
        const http = require("http"), proxy = new URL(process.env.PROXY)
        const request = http.request({ host: proxy.hostname, port: proxy.port, path: process.env.BASE + process.argv[1], headers: {
          Host: process.env.BASE.slice(7), Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==" } })
        request.on("upgrade", (response, socket) => { console.log("works"); socket.destroy() })
        request.on("response", (response) => { console.log(response.statusCode); response.pipe(process.stdout) })
        request.end()' "$TARGET"
        """

    static let all = [
        Client(
            name: "curl",
            needs: "command -v curl",
            works:
                #"curl -sS -f -x "$PROXY" "$BASE/hello" && curl -sS -f -x "$PROXY" -d a=b "$BASE/echo" && echo works"#,
            next: #"curl -sS -x "$PROXY" -d a=b "$BASE/hello""#,
            tells: "request_denied"
        ),
        Client(
            name: "git",
            needs: "command -v git",
            works:
                #"export HOME="$WORK" GIT_CONFIG_NOSYSTEM=1; rm -rf clone; git -c "http.proxy=$PROXY" clone -q "$BASE/files/repository.git" clone 2>&1 && echo works"#,
            next:
                #"HOME="$WORK" GIT_TERMINAL_PROMPT=0 git -c "http.proxy=$PROXY" clone -q "$BASE/files/other.git" other 2>&1"#,
            tells: "403"
        ),
        Client(
            name: "pip",
            needs: "/usr/bin/python3 -m pip --version",
            works: "PACKAGE=pinned-package; " + pip,
            next: "PACKAGE=other-package; " + pip,
            tells: "No matching distribution"
        ),
        Client(
            name: "npm",
            needs: "command -v npm",
            works: "PACKAGE=@pinned/package; " + npm,
            next: "PACKAGE=@other/package; " + npm,
            tells: "403"
        ),
        Client(
            name: "apt",
            needs: "command -v apt-get",
            works: "SUITE=stable; " + apt,
            next: "SUITE=other; " + apt,
            tells: "403"
        ),
        Client(
            name: "WebSocket",
            needs: "command -v node",
            works: "TARGET=/socket; " + socket,
            next: "TARGET=/hello; " + socket,
            tells: "request_denied"
        ),
    ]

    @Test("every program is there", .enabled(if: RealPeers.areRequired))
    func complete() { for client in Self.all where !client.isThere { Issue.record("\(client.name) is missing") } }

    @Test(
        "a program works under rules learned from it, and no further",
        arguments: all.filter(\.isThere)
    )
    func learned(_ client: Client) throws {
        let work = try TemporaryFolder()
        let server = try Stage.pki.server(Stage.host)
        let origin = try MatrixOrigin(server, withPackages: true)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.members["requests"] = ["policy": "report"]
        // Each worker writes lines of its own: only those of one worker have an order.
        settings.members["workers"] = 1
        let proxy = try ProxyUnderTest(settings)
        func run(_ script: String) throws -> String {
            let variables = [
                "PROXY": "http://127.0.0.1:\(proxy.port)", "BASE": "http://\(Stage.host)", "WORK": work.path,
            ]
            return try Programs.run(
                "/bin/sh",
                ["-c", script],
                environment: Programs.environment.merging(variables) { $1 },
                folder: work.path
            ).output
        }
        let first = try run(client.works)
        try #require(first.contains("works"), "\(first)")
        // Every line of the run is there when that of a request behind it is.
        _ = try proxy.get("http://\(Stage.host)/last")
        try Patience.poll(for: "the last line of the log") {
            proxy.taskLines.contains { $0.string("url")?.hasSuffix("/last") == true } ? true : nil
        }
        #expect(proxy.taskLines.allSatisfy { $0["wouldDeny"] as? Bool == true })
        let lines = proxy.output.split(separator: "\n").filter { !$0.contains("/last\"") }
        let log = try work.write(lines.joined(separator: "\n") + "\n", as: "tasks.log")
        let learned = try Programs.run(try Programs.built("pinproxy"), ["requests", "learn", log])
        #expect(learned.exitCode == 0, "\(learned.errors)")
        let proposal = try JSONSerialization.jsonObject(with: Data(learned.output.utf8)) as? [String: Any]
        settings.members["requests"] = try #require(proposal?["requests"])
        #expect(try proxy.reload(settings).string("event") == "reloaded", "\(learned.output)")
        let again = try run(client.works)
        #expect(again.contains("works"), "\(again) under \(learned.output)")
        let refused = try run(client.next)
        #expect(!refused.contains("works") && refused.contains(client.tells), "\(refused) under \(learned.output)")
        try Patience.poll(for: "the refusal in the log") {
            proxy.taskLines.contains { $0.string("error") == "request_denied" } ? true : nil
        }
        // The same log is judged alike by the command that shows what a file would change.
        let config = "\(proxy.folder.path)/config.json"
        let check = try Programs.run(
            try Programs.built("pinproxy"),
            ["check", "request", "--config", config, "--log", log]
        )
        #expect(check.exitCode == 0 && check.output.contains("nothing would change"), "\(check.output)\(check.errors)")
    }
}
