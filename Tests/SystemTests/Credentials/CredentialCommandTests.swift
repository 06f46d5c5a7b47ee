// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@Suite("Credentials at the command line and on reload", .onOwnThreads)
struct CredentialCommandTests {
    /// A configuration with one credential, which a rule about the stage's host names.
    private static func define(_ credential: [String: Any], in settings: inout ProxySettings) {
        settings.members["credentials"] = ["key": credential]
        settings.members["requests"] = [
            "rules": [["id": "r", "then": "allow", "host": Stage.host, "user": "u", "credential": "key"]]
        ]
    }

    private func check(
        _ credential: [String: Any],
        files: [String: String] = [:],
        _ words: [String] = ["key"],
        environment: [String: String] = [:]
    ) throws -> Programs.Finished {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: TestPKI.shared)
        settings.pin(Stage.host, to: .unrelated(7))
        Self.define(credential, in: &settings)
        settings.files = files
        let path = try settings.write(to: folder)
        for name in files.keys { chmod("\(folder.path)/\(name)", name.hasSuffix(".sh") ? 0o700 : 0o600) }
        return try pinproxy(["check", "credential", "--config", path] + words, environment: environment)
    }

    @Test("check credential runs the source, and shows whether it works")
    func works() throws {
        let file = try check(["file": "secret"], files: ["secret": "s3cr3t-value\n"])
        #expect(file.exitCode == 0 && file.output == "key: works; no end is named\n", "\(file)")
        let ending = try check(["file": "secret", "ttl": "1h"], files: ["secret": "s3cr3t-value\n"])
        #expect(ending.exitCode == 0 && ending.output.hasPrefix("key: works; the value ends at 20"), "\(ending)")
        #expect(ending.output.hasSuffix(", in 3600 s\n") || ending.output.hasSuffix(", in 3599 s\n"), "\(ending)")
        let variable = try check(["env": "A_KEY"], ["--json", "key"], environment: ["A_KEY": "s3cr3t-value"])
        #expect(variable.exitCode == 0)
        #expect(variable.output == #"{"credential":"key","source":"env","works":true}"# + "\n", "\(variable)")
        for finished in [file, ending, variable] {
            #expect(!finished.output.contains("s3cr3t") && !finished.errors.contains("s3cr3t"))
        }
    }

    @Test("check credential says why there is no value, and ends with 1")
    func fails() throws {
        for (credential, reason) in [
            (["file": "none"], "cannot be read: No such file"), (["file": "secret"], "shorter than 8 bytes"),
            (["env": "PINPROXY_NO_SUCH_VARIABLE"], "is not set"), (["command": ["/bin/false"]], "exit code 1"),
        ] as [([String: Any], String)] {
            let finished = try check(credential, files: ["secret": "s3cr3t"])
            #expect(finished.exitCode == 1 && finished.output.hasPrefix("key: no value: "), "\(finished)")
            #expect(finished.output.contains(reason) && !finished.output.contains("s3cr3t"), "\(finished)")
        }
        let json = try check(["env": "PINPROXY_NO_SUCH_VARIABLE"], ["key", "--json"])
        #expect(json.exitCode == 1 && json.output.contains(#""works":false,"code":"source","message":"the variable"#))
        let unknown = try check(["env": "A"], ["kex"])
        #expect(unknown.exitCode == 64 && unknown.errors.contains("there is no credential \"kex\""), "\(unknown)")
        #expect(unknown.errors.contains("name one of: key"))
        #expect(try check(["env": "A", "file": "b"]).exitCode == 78)
        #expect(try pinproxy("check", "credential", "--config", "/none", "key").exitCode == 66)
        #expect(try pinproxy("check", "credential", "--config", "/none").exitCode == 64)
    }

    @Test("check credential asks a token server whose pin holds")
    func tokenServer() throws {
        let pki = try TestPKI()
        let server = try pki.server("login.example")
        let origin = try ScriptedOrigin(server) { _ in
            OriginResponse.text(#"{"access_token": "s3cr3t-value", "token_type": "bearer", "expires_in": 600}"#)
        }
        for (pin, code) in [(server.pin, Int32(0)), (.unrelated(3), 1)] {
            let folder = try TemporaryFolder()
            var settings = ProxySettings(trusting: pki)
            settings.serve("login.example", server, at: origin.port)
            settings.pin("login.example", to: pin)
            settings.pin(Stage.host, to: .unrelated(7))
            settings.files["client-secret"] = "client-secret"
            let client = ["tokenURL": "https://login.example/", "clientID": "me", "clientSecretFile": "client-secret"]
            Self.define(["oauth2": client], in: &settings)
            let path = try settings.write(to: folder)
            let finished = try pinproxy("check", "credential", "--config", path, "key")
            #expect(finished.exitCode == code, "\(finished)")
            #expect(!finished.output.contains("s3cr3t"))
        }
        #expect(origin.requests.count == 1)
    }

    @Test("check warns of empty sources, open files and keys in headers")
    func warnings() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: TestPKI.shared)
        settings.pin(Stage.host, to: .unrelated(7))
        Self.define(["file": "secret"], in: &settings)
        settings.hosts["other.example"] = [
            "upgrade": true, "headers": ["request": ["set": ["X-Key": ["file": "secret"]]]],
        ]
        settings.files["secret"] = "s3cr3t"
        let path = try settings.write(to: folder)
        chmod("\(folder.path)/secret", 0o644)
        let finished = try pinproxy("check", "--config", path)
        #expect(finished.exitCode == 0, "\(finished.errors)")
        for text in [
            "/credentials/key: \"key\" has no value: the value is shorter than 8 bytes",
            "/credentials/key: every user of this machine can read",
            "/hosts/other.example/headers/request: every request to",
        ] {
            #expect(finished.errors.contains(text), "\(text): \(finished.errors)")
        }
        #expect(finished.output.contains("\ncredentials\n  key  Authorization from the file"), "\(finished.output)")
        #expect(!finished.output.contains("s3cr3t") && !finished.errors.contains("s3cr3t"))
    }

    @Test("exec hides the variable from its program, and warns of readable files")
    func exec() throws {
        let folder = try TemporaryFolder()
        var settings = ProxySettings(trusting: TestPKI.shared)
        settings.pin(Stage.host, to: .unrelated(7))
        settings.members["credentials"] = ["a": ["file": "secret"], "b": ["env": "A_KEY", "header": "X-Key"]]
        settings.members["requests"] = [
            "rules": [["id": "r", "then": "allow", "host": Stage.host, "user": "u", "credential": ["a", "b"]]]
        ]
        settings.files["secret"] = "s3cr3t-value"
        let path = try settings.write(to: folder)
        let words = ["exec", "--config", path, "--", "/bin/sh", "-c", "echo ${A_KEY:-none} ${OTHER:-none}"]
        let finished = try pinproxy(words, environment: ["A_KEY": "s3cr3t-variable", "OTHER": "there"])
        #expect(finished.exitCode == 0 && finished.output == "none there\n", "\(finished)")
        #expect(finished.errors.contains(#""code":"credential_readable","credential":"a""#), "\(finished)")
        #expect(!finished.errors.contains("s3cr3t"))
    }

    // MARK: A proxy that runs

    private func stage(_ credential: [String: Any]) throws -> Stage {
        try Stage {
            $0.members["admin"] = ["address": "127.0.0.1:0"]
            $0.files["secret"] = "s3cr3t-value"
            Self.define(credential, in: &$0)
        } responding: { _ in
            OriginResponse.text("hello")
        }
    }

    @Test("changed files neither set allowUnpinned nor drop a placeholder; SIGHUP does")
    func reloads() throws {
        let stage = try stage(["file": "secret", "placeholder": "agent-key-1"])
        for (credential, text) in [
            (["file": "secret"], "needs no placeholder any more"),
            (
                ["file": "secret", "placeholder": "agent-key-1", "allowUnpinned": true],
                "may go to hosts that no pin file names"
            ),
        ] as [([String: Any], String)] {
            var settings = stage.settings
            Self.define(credential, in: &settings)
            try stage.proxy.rewrite(settings)
            let failed = try stage.proxy.waitForEvent("reloadFailed") { $0.string("message")?.contains(text) == true }
            #expect(failed.string("code") == "credentials_opened", "\(failed.text)")
            try stage.proxy.reload(settings)
        }
        // More guarded than before: no question.
        var settings = stage.settings
        Self.define(["file": "secret", "placeholder": "agent-key-2"], in: &settings)
        try stage.proxy.rewrite(settings)
        try stage.proxy.waitForEvent("reloaded") { $0.string("trigger") == "files" }
    }

    @Test("a failing source prevents no start, and is reported")
    func failures() throws {
        let stage = try stage(["file": "none"])
        let failed = try stage.proxy.waitForEvent("credentialFailed")
        #expect(failed.string("credential") == "key" && failed.string("code") == "source", "\(failed.text)")
        func metric(_ line: String) throws {
            let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
            try Patience.poll(for: "the metric \(line)") {
                try stage.proxy.exchange(request, on: 1).text.contains(line) ? true : nil
            }
        }
        try metric(#"pinproxy_credential_renewals_total{credential="key",result="source"} 1"#)
        try metric(#"pinproxy_credential_expires_seconds{credential="key"} 0"#)
        let policy = try stage.proxy.exchange("GET /policy HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        #expect(
            policy.text.contains(#""credentials":[{"credential":"key","hasValue":false,"failure":"the file "#),
            "\(policy)"
        )
        #expect(try SchemaCheck("policy.schema.json").issues(of: policy.body).isEmpty)
        var settings = stage.settings
        settings.files["none"] = "s3cr3t-value"
        try stage.proxy.rewrite(settings)
        try stage.proxy.waitForEvent("credentialRenewed") { $0.string("credential") == "key" }
        try metric(#"pinproxy_credential_renewals_total{credential="key",result="success"} 1"#)
    }

    @Test("with credentials no other process of the user reads the memory")
    func memory() throws {
        let folder = try TemporaryFolder()
        // What is the user's own while the process can be read is root's when it cannot (proc(5)); root itself sees no difference.
        let script = """
            rm -f "$1/errors"
            chmod -R a+rX "$1"
            [ "$(id -u)" = 0 ] && run="setpriv --reuid=65534 --regid=65534 --clear-groups --" || run=
            $run "$2" run --config "$1/config.json" 2>"$1/errors" >"$1/output" &
            for n in $(seq 300); do grep -q listening "$1/errors" && break; sleep 0.1; done
            stat -c %u "/proc/$!/environ"
            kill $!
            wait
            """
        for hasCredentials in [true, false] {
            var settings = ProxySettings(trusting: TestPKI.shared)
            settings.pin(Stage.host, to: .unrelated(7))
            if hasCredentials { Self.define(["env": "PATH"], in: &settings) }
            _ = try settings.write(to: folder)
            let words = ["-c", script, "sh", folder.path, try Programs.built("pinproxy")]
            let finished = try Programs.run("/bin/sh", words)
            let owner = finished.output.trimmingCharacters(in: .newlines)
            let user = geteuid() == 0 ? "65534" : "\(geteuid())"
            #expect(owner == (hasCredentials ? "0" : user), "\(finished)")
        }
    }
}
