// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: exec", .onOwnThreads)
struct CommandLineExecTests {
    /// `exec` of a shell's script, with nothing but the shell's own output on the standard output.
    private func exec(
        _ script: String,
        options: [String] = [],
        settings: ProxySettings? = nil,
        environment: [String: String] = [:]
    ) throws -> Programs.Finished {
        let folder = try TemporaryFolder()
        let path = try (settings ?? ProxySettings(trusting: try TestPKI())).write(to: folder)
        return try pinproxy(
            ["exec", "--config", path] + options + ["--", "sh", "-c", script],
            environment: environment
        )
    }

    @Test("exec ends with its program's exit code, or 128 plus the signal", arguments: [0, 1, 7, 255, 137])
    func exitCode(code: Int32) throws {
        let finished = try exec(code == 137 ? "kill -KILL $$" : "exit \(code)")
        #expect(finished.exitCode == code)
        #expect(finished.output.isEmpty)
    }

    @Test("the program gets exec's descriptors, and none of the proxy's")
    func descriptors() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        // `ls` lists those of the shell, which has it wait.
        let words = [
            try Programs.built("pinproxy"), "exec", "--config", path, "--", "/bin/sh", "-c", "ls /proc/$$/fd; :",
        ]
        let line = words.map { "'\($0)'" }.joined(separator: " ")
        for (redirection, expected) in [("", "0 1 2"), (" 5</dev/null 9</dev/null", "0 1 2 5 9")] {
            let finished = try Programs.run("/bin/sh", ["-c", line + redirection], environment: Programs.environment)
            #expect(finished.output.split(separator: "\n").joined(separator: " ") == expected, "\(finished.errors)")
        }
    }

    @Test("a missing program ends with 127, an unusable one with 126")
    func noProgram() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let missing = try pinproxy("exec", "--config", path, "--", "\(folder.path)/none")
        #expect(missing.exitCode == 127)
        #expect(missing.errors.contains("No such file or directory"))
        let unfit = try pinproxy("exec", "--config", path, "--", path)
        #expect(unfit.exitCode == 126)
        #expect(unfit.errors.contains("Permission denied"))
    }

    @Test("the proxy variables name the listener, and ways around it go")
    func environment() throws {
        let outside = [
            "HTTP_PROXY": "http://other:1", "HTTPS_PROXY": "http://other:1", "ALL_PROXY": "http://other:1",
            "no_proxy": "*", "NO_PROXY": "*", "http_proxy": "http://other:1", "KEPT": "yes",
        ]
        let finished = try exec("env", environment: outside)
        let lines = finished.output.split(separator: "\n").map(String.init)
        let proxies = lines.filter { $0.lowercased().contains("_proxy=") }.sorted()
        try #require(proxies.count == 3, "\(proxies)")
        let value = try #require(proxies[1].wholeMatch(of: /http_proxy=(http:\/\/127\.0\.0\.1:\d+)/)).1
        #expect(proxies == ["all_proxy=\(value)", "http_proxy=\(value)", "https_proxy=\(value)"])
        #expect(lines.contains("KEPT=yes"))
    }

    @Test("--keep-no-proxy leaves the exceptions to the program")
    func keepNoProxy() throws {
        let finished = try exec(
            "echo $no_proxy $NO_PROXY",
            options: ["--keep-no-proxy"],
            environment: ["no_proxy": "a"]
        )
        #expect(finished.output == "a\n")
    }

    @Test("curl and Python reach a pinned origin; the task log goes to stderr")
    func clients() throws {
        let pki = try TestPKI()
        let server = try pki.server("api.test")
        let origin = try ScriptedOrigin(server) { _ in OriginResponse.text("pinned") }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        settings.members["log"] = ["tasks": "stdout"]
        let script = """
            curl -sS http://api.test/
            python3 -c 'import urllib.request as r; print(r.urlopen("http://api.test/").read().decode(), end="")'
            """
        let finished = try exec(script, settings: settings)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(finished.output == "pinnedpinned")
        let tasks = finished.errors.split(separator: "\n").compactMap { LogLine(String($0)) }
            .filter { $0.string("event") == "task" }
        #expect(tasks.count == 2)
        #expect(tasks.allSatisfy { $0.object("pinning")?["verdict"] as? String == "pass" })
    }

    @Test("an https URL of the program is refused, not sent around the pins")
    func httpsURL() throws {
        let finished = try exec("curl -sS https://api.test/")
        #expect(finished.exitCode == 56)
        #expect(finished.errors.contains("403"))
    }

    @Test("the file's listeners stay closed, and the first one's rules apply")
    func listeners() throws {
        let (descriptor, port) = try TestSocket.listen()
        defer { close(descriptor) }
        var settings = ProxySettings(trusting: try TestPKI())
        settings.listeners = [["address": "127.0.0.1:\(port)", "mode": "forward", "allowHosts": ["only.test"]]]
        let finished = try exec("curl -s -o /dev/null -w '%{http_code}' http://other.test/", settings: settings)
        #expect(finished.exitCode == 0)
        #expect(finished.output == "403")
    }

    @Test(
        "a signal is passed on, and decides the exit code",
        arguments: [SIGTERM, SIGHUP]
    )
    func signals(signal: Int32) throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let script = "trap 'exit 5' TERM; trap 'exit 6' HUP; echo ready; while :; do sleep 0.05; done"
        let process = try ChildProcess(
            try Programs.built("pinproxy"),
            ["exec", "--config", path, "--", "sh", "-c", script]
        )
        _ = try process.waitForOutput("the program") { $0 == "ready\n" ? true : nil }
        process.signal(signal)
        #expect(try process.waitForExit().exitCode == (signal == SIGTERM ? 5 : 6))
    }

    // MARK: Interception

    /// A pinned origin that answers with the request's path and X-Key.
    private static func pinned() throws -> (ScriptedOrigin, ProxySettings) {
        let pki = try TestPKI()
        let server = try pki.server("api.test")
        let origin = try ScriptedOrigin(server) { OriginResponse.text("\($0.target) \($0["X-Key"] ?? "-")\n") }
        var settings = ProxySettings(trusting: pki)
        settings.serve("api.test", server, at: origin.port)
        settings.members["log"] = ["tasks": "stderr", "format": "json"]
        return (origin, settings)
    }

    private static func tasks(_ finished: Programs.Finished) -> [LogLine] {
        finished.errors.split(separator: "\n").compactMap { LogLine(String($0)) }.filter {
            $0.string("event") == "task"
        }
    }

    @Test("--intercept: programs use https under the pins, with the run's CA")
    func intercepts() throws {
        let (origin, settings) = try Self.pinned()
        let script = """
            curl -sS https://api.test/curl
            python3 -c 'import urllib.request as r; print(r.urlopen("https://api.test/python").read().decode(), end="")'
            wget -qO- --ca-certificate="$SSL_CERT_FILE" https://api.test/wget
            git ls-remote https://api.test/git 2>/dev/null
            curl -sS http://api.test/plain
            """
        let finished = try exec(script, options: ["--intercept"], settings: settings)
        #expect(finished.output == "/curl -\n/python -\n/wget -\n/plain -\n", "\(finished.errors)")
        let tasks = Self.tasks(finished).filter { $0.string("method") == "GET" }
        #expect(
            tasks.allSatisfy { $0.object("pinning")?["verdict"] as? String == "pass" && $0.string("user") == "exec" }
        )
        let paths = tasks.compactMap { $0.string("url") }
        #expect(paths.contains("https://api.test/git/info/refs?service=git-upload-pack"), "\(paths)")
        #expect(paths.count == 5)
        // A wrong key is found behind the program's own TLS, too.
        var wrong = settings
        wrong.pin("api.test", to: .unrelated(3))
        let before = origin.applicationBytes
        let refused = try exec("curl -sS https://api.test/", options: ["--intercept"], settings: wrong)
        #expect(refused.exitCode != 0 && refused.errors.contains("502"), "\(refused.errors)")
        #expect(origin.applicationBytes == before)
    }

    @Test("--intercept: a host's own entry stays, the file's CA is unnecessary")
    func entriesStay() throws {
        let (origin, pinned) = try Self.pinned()
        var settings = pinned
        settings.hosts["api.test"]?["connect"] = "deny"
        settings.members["interception"] = ["certificate": "none.pem", "key": "none.key"]
        let finished = try exec("curl -sS https://api.test/", options: ["--intercept"], settings: settings)
        #expect(finished.exitCode == 56 && finished.errors.contains("403"), "\(finished.errors)")
        settings.hosts["api.test"]?["connect"] = nil
        settings.members["defaults"] = ["connect": "tunnel"]
        let other = try exec("curl -sS https://api.test/", options: ["--intercept"], settings: settings)
        #expect(other.output == "/ -\n", "\(other.errors)")
        #expect(!origin.connections.isEmpty)
    }

    @Test("--intercept: variables name private files, which go at the end")
    func anchorFiles() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: try TestPKI()).write(to: folder)
        let system = try folder.write(try TestPKI("system").root.certificate.pem, as: "system.pem")
        let environment = Programs.environment.merging([
            "TMPDIR": folder.path, "SSL_CERT_FILE": system, "JAVA_TOOL_OPTIONS": "-Dkept=1", "PIP_CERT": "/other",
        ]) { $1 }
        func start(_ script: String) throws -> ChildProcess {
            let words = ["exec", "--intercept", "--config", path, "--", "sh", "-c", script]
            return try ChildProcess(try Programs.built("pinproxy"), words, environment: environment)
        }
        func made() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("pinproxy-exec-") }
        }
        let script = #"""
            env; stat -c 'mode %a' "$(dirname "$SSL_CERT_FILE")" "$SSL_CERT_FILE"
            echo "bundle $(grep -c BEGIN "$SSL_CERT_FILE")"; echo "own $(grep -c BEGIN "$NODE_EXTRA_CA_CERTS")"
            echo "store $(openssl pkcs12 -in "$(dirname "$SSL_CERT_FILE")/anchors.p12" -passin pass:changeit -nokeys \
                | grep -cE '2\.16\.840\.1\.113894\.746875\.1\.1|Trusted key usage')"
            echo "java $(keytool -list -keystore "$(dirname "$SSL_CERT_FILE")/anchors.p12" -storepass changeit 2>/dev/null | grep -c trustedCertEntry)"
            openssl verify -CAfile "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS" | sed 's/.*: /verified /'
            """#
        let finished = try start(script).waitForExit(seconds: 60)
        let lines = finished.output.split(separator: "\n").map(String.init)
        func value(_ name: String) -> String? {
            let found = lines.filter { $0.hasPrefix(name + "=") }
            return found.count == 1 ? String(found[0].dropFirst(name.count + 1)) : nil
        }
        let bundle = try #require(value("SSL_CERT_FILE"))
        #expect(bundle.hasPrefix("\(folder.path)/pinproxy-exec-"))
        for name in [
            "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "DENO_CERT", "CARGO_HTTP_CAINFO",
            "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "npm_config_cafile",
        ] { #expect(value(name) == bundle, "\(name)") }
        #expect(value("NODE_EXTRA_CA_CERTS") == bundle.replacing("anchors.pem", with: "ca.pem"))
        #expect(value("GIT_HTTP_PROXY_AUTHMETHOD") == "basic")
        let java = try #require(value("JAVA_TOOL_OPTIONS"))
        #expect(
            java.hasPrefix(
                "-Dkept=1 -Djavax.net.ssl.trustStore=\(bundle.replacing("anchors.pem", with: "anchors.p12")) "
            )
        )
        let proxy = try #require(value("https_proxy")?.wholeMatch(of: /http:\/\/exec:[0-9a-f]{64}@127\.0\.0\.1:(\d+)/))
            .1
        #expect(java.hasSuffix("-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=\(proxy)"))
        // Each certificate of the store has Oracle's attribute, without which Java trusts none of it; Java itself may be absent.
        let isJavaInstalled = (try? Programs.path(of: "keytool")) != nil
        let expected = ["mode 700", "mode 600", "bundle 2", "own 1", "store 2", "verified OK"]
        for line in expected + (isJavaInstalled ? ["java 2"] : []) {
            #expect(lines.contains(line), "\(line): \(finished.output) \(finished.errors)")
        }
        #expect(try made().isEmpty)

        let process = try start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
        _ = try process.waitForOutput("the program") { $0 == "ready\n" ? true : nil }
        #expect(try made().count == 1)
        process.signal(SIGTERM)
        #expect(try process.waitForExit().exitCode == 5)
        #expect(try made().isEmpty)
        // A program that cannot be run leaves nothing either.
        let none = try Programs.run(
            try Programs.built("pinproxy"),
            ["exec", "--intercept", "--config", path, "--", "\(folder.path)/none"],
            environment: environment
        )
        #expect(none.exitCode == 127)
        #expect(try made().isEmpty)
    }

    @Test(
        "only the run's program may use the listener",
        .enabled(if: getuid() == 0, "another user's process needs root")
    )
    func token() throws {
        let (origin, settings) = try Self.pinned()
        let script = """
            other() { setpriv --reuid=61234 --regid=61234 --clear-groups curl -s -w '%{http_code}\\n' "$@" http://api.test/; }
            open=$(echo "$http_proxy" | sed 's/[^/]*@//')
            other -o /dev/null -x "$open"
            other -o /dev/null -x "$(echo "$http_proxy" | sed 's/:[0-9a-f]*@/:0@/')"
            other -x "$http_proxy"
            curl -s -x "$open" http://api.test/own
            """
        let finished = try exec(script, options: ["--intercept", "--user", "agent 7/ü"], settings: settings)
        #expect(finished.output == "407\n407\n/ -\n200\n/own -\n", "\(finished.errors)")
        #expect(Self.tasks(finished).map { $0.string("user") } == [nil, nil, "agent 7/ü", "agent 7/ü"])
        let without = try exec("echo $http_proxy", options: ["--user", "agent"], settings: settings)
        #expect(without.output.hasPrefix("http://agent:"))
        #expect(!origin.connections.isEmpty)
    }

    @Test(
        "a name that is no user's is refused, as is an empty run",
        arguments: [
            (["--intercept", "--user", "a:b"], "no colon"), (["--intercept", "--user", "uid 0"], "uid …"),
            (["--intercept", "--user", "spiffe://example.org/a"], "no colon"),
            (["--user", "a\u{7}"], "--config FILE is missing"),
            ([], "--config FILE is missing"),
        ]
    )
    func wrongUse(options: [String], says: String) throws {
        let finished = try pinproxy(["exec"] + options + ["--", "true"])
        #expect(finished.exitCode == 64 && finished.errors.contains(says), "\(finished.errors)")
    }

    @Test("the program does not get variables that the configuration reads", arguments: [[], ["--intercept"]])
    func secrets(options: [String]) throws {
        let (origin, pinned) = try Self.pinned()
        var settings = pinned
        settings.hosts["api.test"]?["headers"] = [
            "request": ["set": ["X-Key": ["env": "PINPROXY_TEST_KEY"]]],
            "response": ["set": ["X-Other": ["env": "PINPROXY_TEST_OTHER"]]],
        ]
        settings.hosts["other.test"] = [
            "upstreamProxy": ["url": "http://127.0.0.1:9", "credentialsEnvironment": "PINPROXY_TEST_PROXY"]
        ]
        let finished = try exec(
            "env | grep -E '^PINPROXY_TEST_(KEY|OTHER|PROXY|KEPT)='; curl -sS http://api.test/",
            options: options,
            settings: settings,
            environment: [
                "PINPROXY_TEST_KEY": "secret", "PINPROXY_TEST_OTHER": "b", "PINPROXY_TEST_PROXY": "a:b",
                "PINPROXY_TEST_KEPT": "c",
            ]
        )
        #expect(finished.output == "PINPROXY_TEST_KEPT=c\n/ secret\n", "\(finished.errors)")
        #expect(!origin.connections.isEmpty)
    }

    @Test(
        "the program cannot read pinproxy's memory and environment",
        .enabled(if: getuid() == 0, "a user of its own needs root")
    )
    func hidden() throws {
        let script = """
            for file in environ mem maps; do cat /proc/$PPID/$file >/dev/null 2>&1 && echo "$file can be read"; done
            echo "runs $(id -u) $(ls /proc/$PPID/fd 2>/dev/null | wc -l)"
            """
        let user = ["--reuid=61234", "--regid=61234", "--clear-groups"]
        let finished = try Programs.run(
            "setpriv",
            user + [try Programs.built("pinproxy"), "exec", "--intercept", "--", "sh", "-c", script],
            environment: Programs.environment.merging(["TMPDIR": "/tmp", "HOME": "/"]) { $1 },
            folder: "/"
        )
        #expect(finished.output == "runs 61234 0\n", "\(finished.errors)")
    }

    @Test("the program starts with no signal blocked and SIGPIPE in effect")
    func signalMask() throws {
        let finished = try exec("grep -E '^Sig(Blk|Ign)' /proc/self/status")
        let masks = finished.output.split(separator: "\n").compactMap { line in
            line.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) }
        }
        try #require(masks.count == 2)
        #expect(masks[0] == 0)
        #expect(masks[1] & 1 << UInt64(SIGPIPE - 1) == 0)
    }
}
