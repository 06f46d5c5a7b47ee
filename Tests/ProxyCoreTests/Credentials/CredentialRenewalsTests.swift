// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON
import TestSupport
import Testing

@testable import ProxyConfiguration
@testable import ProxyCore

@Suite("Sources of credentials, run and watched", .waitingOnOwnThreads)
struct CredentialRenewalsTests {
    /// The renewals of a configuration, with a board on a loop of this thread.
    private final class Stage {
        let folder: TemporaryFolder
        let events = Monitor<[String]>([])
        let loop: EventLoop
        var settings = ProxySettings(trusting: TestPKI.shared)
        private(set) var renewals: CredentialRenewals!
        private(set) var board: CredentialBoard!
        private var runs = CredentialRunner.Settings()

        init(
            _ credentials: [String: [String: Any]],
            seconds: Int = 30,
            _ change: (TemporaryFolder, inout ProxySettings) throws -> Void = { _, _ in }
        ) throws {
            folder = try TemporaryFolder()
            loop = try EventLoop()
            runs.command.time = .seconds(seconds)
            runs.request = .seconds(seconds)
            settings.members["log"] = ["tasks": "off"]
            define(credentials)
            try change(folder, &settings)
            var settings = CredentialSettings()
            settings.runs = runs
            settings.log = { [events] line, _, _ in events.with { $0.append(line.json) } }
            let snapshot = try snapshot(1)
            renewals = CredentialRenewals(snapshot: snapshot, settings: settings)
            board = renewals.board(for: snapshot, on: loop)
        }

        deinit { renewals?.stop() }

        func define(_ credentials: [String: [String: Any]]) {
            settings.members["credentials"] = credentials.mapValues {
                $0.merging(["allowUnpinned": true]) { old, _ in old }
            }
            settings.members["requests"] = [
                "rules": credentials.keys.sorted().map {
                    ["id": $0, "then": "allow", "host": "*.\($0).example", "user": "u", "credential": $0]
                }
            ]
        }

        func snapshot(_ generation: Int) throws -> PolicySnapshot {
            let outcome = ConfigurationLoader.load(path: try settings.write(to: folder))
            return PolicySnapshot(try #require(outcome.parts, "\(outcome.issues)"), generation: generation)
        }

        func reload() throws {
            let next = try snapshot(2)
            renewals.replace(next)
            board = renewals.board(for: next, on: loop)
        }

        func script(_ body: String, as name: String = "source") throws -> String {
            let path = try folder.writeProgram("#!/bin/sh\n\(body)\n", as: name)
            return path
        }

        /// The value, or why there is none, after the run that is due.
        func value(_ index: Int = 0, after: CredentialValue? = nil) throws -> String {
            switch after.map({ board.refused401(index, $0) }) ?? board.value(index) {
            case .ready(let value): return sent(value)
            case .failed(let fault): return "\(fault.code): \(fault.message)"
            case .wait: break
            }
            var told: String?
            board.whenReady(index, after: after) { outcome in
                switch outcome {
                case .success(let value): told = self.sent(value)
                case .failure(let fault): told = "\(fault.code): \(fault.message)"
                }
            }
            #expect(told == nil)
            _ = loop.run(until: { told != nil }, atMost: .seconds(30))
            return try #require(told, "nothing was told")
        }

        /// The value that is held now.
        func held(_ index: Int = 0) throws -> CredentialValue {
            guard case .ready(let value) = board.value(index) else { throw TimedOut("a value") }
            return value
        }

        /// Waits until a value is sent.
        func wait(for text: String, _ index: Int = 0) throws {
            let deadline = Clock.monotonic + 30_000_000_000
            while Clock.monotonic < deadline {
                if case .ready(let value) = board.value(index), sent(value) == text { return }
                loop.turn(waitingAtMost: .milliseconds(20))
            }
            throw TimedOut("the value \(text)")
        }

        /// Waits until there is no value.
        func waitForFailure(_ index: Int = 0) throws -> CredentialFault {
            let deadline = Clock.monotonic + 30_000_000_000
            while Clock.monotonic < deadline {
                if case .failed(let fault) = board.value(index) { return fault }
                loop.turn(waitingAtMost: .milliseconds(20))
            }
            throw TimedOut("a failure")
        }

        func sent(_ value: CredentialValue) -> String {
            switch value.content {
            case .field(let bytes): String(copying: bytes.bytes)
            case .signing(let keys, let scope):
                "\(String(copying: keys.identifier.bytes)) for \(scope.service) in \(scope.region)"
            }
        }

        func event(_ word: String) throws -> String {
            try events.wait(for: "an event about \(word)") { $0.first { $0.contains(word) } }
        }

        func count(_ name: String) throws -> Int {
            let path = "\(folder.path)/\(name)"
            return ((try? String(contentsOfFile: path, encoding: .utf8)) ?? "").utf8.count
        }
    }

    // MARK: Files and variables

    @Test("a file's value is there, and its successor soon after a replacement")
    func files() throws {
        let stage = try Stage(["key": ["file": "secret", "header": "X-Key"]]) { folder, _ in
            try folder.write("value-one-1\n", as: "secret")
        }
        #expect(try stage.value() == "value-one-1")
        try stage.folder.write("value-two-2", as: "secret")
        try stage.wait(for: "value-two-2")
        try stage.folder.write("value-three-3", as: "next")
        #expect(rename("\(stage.folder.path)/next", "\(stage.folder.path)/secret") == 0)
        try stage.wait(for: "value-three-3")
    }

    @Test("a file behind symbolic links is followed as Kubernetes replaces it")
    func links() throws {
        let stage = try Stage(["key": ["file": "mount/secret", "prefix": ""]]) { folder, _ in
            try folder.write("value-one-1", as: "mount/..1/secret")
            symlink("..1", "\(folder.path)/mount/..data")
            symlink("..data/secret", "\(folder.path)/mount/secret")
        }
        #expect(try stage.value() == "value-one-1")
        try stage.folder.write("value-two-2", as: "mount/..2/secret")
        symlink("..2", "\(stage.folder.path)/mount/..next")
        #expect(rename("\(stage.folder.path)/mount/..next", "\(stage.folder.path)/mount/..data") == 0)
        try stage.wait(for: "value-two-2")
    }

    @Test("a file that disappears takes its value away until it returns")
    func lostFile() throws {
        let stage = try Stage(["key": ["file": "secret"]]) { folder, _ in try folder.write("value-one-1", as: "secret")
        }
        #expect(try stage.value() == "Bearer value-one-1")
        unlink("\(stage.folder.path)/secret")
        #expect(try stage.waitForFailure().message.contains("No such file"))
        let event = try stage.event("credentialFailed")
        #expect(
            event.contains(#""credential":"key""#) && event.contains("No such file") && !event.contains("value-one")
        )
        try stage.folder.write("value-two-2", as: "secret")
        try stage.wait(for: "Bearer value-two-2")
        #expect(try stage.event("credentialRenewed").contains("key"))
    }

    @Test("a missing file and an unfit value are the credential's failures")
    func badFiles() throws {
        let stage = try Stage([
            "a": ["file": "none"], "b": ["file": "short"], "c": ["file": "prefixed"],
            "d": ["env": "PINPROXY_NO_SUCH_VARIABLE"],
        ]) { folder, _ in
            try folder.write("s3cr3t", as: "short")
            try folder.write("Bearer s3cr3t-value", as: "prefixed")
        }
        #expect(try stage.value(0).hasPrefix("source: the file"))
        #expect(try stage.value(1).hasPrefix("output: the value is shorter than 8 bytes"))
        #expect(try stage.value(2).hasPrefix("output: the value begins with its prefix"))
        #expect(try stage.value(3).hasPrefix("source: the variable PINPROXY_NO_SUCH_VARIABLE is not set"))
        #expect(!stage.events.with { $0 }.contains { $0.contains("s3cr3t") })
    }

    @Test("the value of a variable is available")
    func variables() throws {
        setenv("PINPROXY_TEST_CREDENTIAL", "value-12345678", 1)
        defer { unsetenv("PINPROXY_TEST_CREDENTIAL") }
        let stage = try Stage(["key": ["env": "PINPROXY_TEST_CREDENTIAL", "basicUser": "git"]])
        #expect(try stage.value() == "Basic Z2l0OnZhbHVlLTEyMzQ1Njc4")
    }

    // MARK: Commands

    @Test("a command runs once for all, without other credentials' variables")
    func commands() throws {
        setenv("PINPROXY_TEST_HIDDEN", "value-hidden-1", 1)
        defer { unsetenv("PINPROXY_TEST_HIDDEN") }
        var path = ""
        let stage = try Stage([:]) { folder, settings in
            path = try folder.writeProgram(
                "#!/bin/sh\nprintf x >>\(folder.path)/runs\nsleep 0.2\necho \"token-$1-${PINPROXY_TEST_HIDDEN:-none}\"\n",
                as: "source"
            )
            settings.members["credentials"] = [
                "key": ["command": [path, "a"], "allowUnpinned": true],
                "other": ["env": "PINPROXY_TEST_HIDDEN", "allowUnpinned": true],
            ]
            settings.members["requests"] = [
                "rules": [["id": "r", "then": "allow", "host": "*.example", "user": "u", "credential": "key"]]
            ]
        }
        var told = 0
        for _ in 0..<50 { stage.board.whenReady(0) { _ in told += 1 } }
        #expect(try stage.value() == "Bearer token-a-none")
        #expect(told == 50)
        #expect(try stage.count("runs") == 1)
        // A credential that no rule names has no run.
        #expect(stage.renewals.figures.map(\.name) == ["key"])
        #expect(stage.renewals.figures.first?.renewals == 1)
    }

    @Test("a failing command waits ten seconds, and its output stays secret")
    func failingCommand() throws {
        var path = ""
        let stage = try Stage(["key": ["env": "PATH"]]) { folder, settings in
            path = try folder.writeProgram(
                "#!/bin/sh\nprintf x >>\(folder.path)/runs\necho s3cr3t-value\nexit 3\n",
                as: "source"
            )
            settings.members["credentials"] = ["key": ["command": [path], "allowUnpinned": true]]
        }
        for _ in 0..<20 { #expect(try stage.value().hasPrefix("source: the command ended with exit code 3")) }
        #expect(try stage.count("runs") == 1)
        let figures = try #require(stage.renewals.figures.first)
        #expect(!figures.hasValue && figures.failures == [.source: 1] && figures.fault?.code == .source)
        let events = stage.events.with { $0 }
        #expect(events.count == 1 && !events.contains { $0.contains("s3cr3t") }, "\(events)")
    }

    @Test("an end that the command names is kept, and renewed before", .timeLimit(.minutes(5)))
    func renewal() throws {
        var path = ""
        let stage = try Stage(["key": ["env": "PATH"]]) { folder, settings in
            // The first token ends after 13 seconds: renewed after ten, which is the least.
            path = try folder.writeProgram(
                """
                #!/bin/sh
                printf x >>\(folder.path)/runs
                n=$(wc -c <\(folder.path)/runs)
                echo "{\\"token\\": \\"token-number-$n\\", \\"expires\\": \\"$(date -u -d '+13 seconds' +%Y-%m-%dT%H:%M:%SZ)\\"}"
                """,
                as: "source"
            )
            settings.members["credentials"] = ["key": ["command": [path], "allowUnpinned": true]]
        }
        #expect(try stage.value() == "Bearer token-number-1")
        let end = try #require(stage.renewals.figures.first?.end)
        #expect(abs(end - Int64(time(nil)) - 13) <= 3)
        // Nobody asks, and the next one is there before the first one ends.
        try stage.wait(for: "Bearer token-number-2")
        #expect(Int64(time(nil)) <= end + 1)
    }

    @Test("a late 401 runs the source once for all", .timeLimit(.minutes(5)))
    func unauthorized() throws {
        var path = ""
        let stage = try Stage(["key": ["env": "PATH"]]) { folder, settings in
            path = try folder.writeProgram(
                "#!/bin/sh\nprintf x >>\(folder.path)/runs\necho token-number-$(wc -c <\(folder.path)/runs)\n",
                as: "source"
            )
            settings.members["credentials"] = ["key": ["command": [path], "allowUnpinned": true]]
        }
        #expect(try stage.value() == "Bearer token-number-1")
        let old = try stage.held()
        // Ten seconds are the rule.
        stage.loop.run(atMost: .milliseconds(10_200))
        var others: [String] = []
        for _ in 0..<20 {
            stage.board.whenReady(0, after: old) { outcome in
                if case .success(let value) = outcome { others.append(stage.sent(value)) }
            }
        }
        #expect(try stage.value(after: old) == "Bearer token-number-2")
        #expect(others == [String](repeating: "Bearer token-number-2", count: 20))
        // Whoever comes late with the old value has the new one at once.
        #expect(try stage.value(after: old) == "Bearer token-number-2")
        #expect(try stage.count("runs") == 2)
    }

    @Test(
        "an early 401 changes nothing, and a hanging command stops nothing",
        .timeLimit(.minutes(5))
    )
    func stopping() throws {
        var path = ""
        let stage = try Stage(["key": ["env": "PATH"]]) { folder, settings in
            path = try folder.writeProgram(
                "#!/bin/sh\nprintf x >>\(folder.path)/runs\n[ -e \(folder.path)/hang ] && sleep 1000\necho token-12345678\n",
                as: "source"
            )
            settings.members["credentials"] = ["key": ["command": [path], "allowUnpinned": true]]
        }
        #expect(try stage.value() == "Bearer token-12345678")
        #expect(try stage.value(after: stage.held()).hasPrefix("ended:"))
        #expect(try stage.count("runs") == 1)
        try stage.folder.write("", as: "hang")
        stage.define(["other": ["command": [path, "anew"]]])
        try stage.reload()
        let deadline = Clock.monotonic + 20_000_000_000
        while try stage.count("runs") < 2, Clock.monotonic < deadline { usleep(1000) }
        let start = Clock.monotonic
        stage.renewals.stop()
        #expect(Clock.monotonic - start < 10_000_000_000)
    }

    @Test("a reload keeps values of unchanged credentials, and drops others")
    func reloads() throws {
        var path = ""
        let stage = try Stage(["key": ["env": "PATH"]]) { folder, settings in
            path = try folder.writeProgram(
                "#!/bin/sh\nprintf x >>\(folder.path)/runs\necho \"token-$1-12345678\"\n",
                as: "source"
            )
            settings.members["credentials"] = ["key": ["command": [path, "a"], "allowUnpinned": true]]
        }
        #expect(try stage.value() == "Bearer token-a-12345678")
        let former = try stage.held()
        try stage.reload()
        #expect(try stage.held() === former)
        stage.define(["key": ["command": [path, "b"]]])
        try stage.reload()
        #expect(try stage.value() == "Bearer token-b-12345678")
        #expect(try stage.count("runs") == 2)
        stage.settings.members["credentials"] = nil
        stage.settings.members["requests"] = nil
        try stage.reload()
        let deadline = Clock.monotonic + 20_000_000_000
        while !stage.renewals.figures.isEmpty, Clock.monotonic < deadline { usleep(1000) }
        #expect(stage.renewals.figures.isEmpty)
    }

    @Test("keys for signatures are read from a file")
    func keys() throws {
        let stage = try Stage(["key": ["awsSigV4": ["region": "eu-central-1", "service": "s3", "file": "keys"]]]) {
            folder,
            _ in
            try folder.write(
                #"{"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI"}"#,
                as: "keys"
            )
        }
        #expect(try stage.value() == "AKIDEXAMPLE for s3 in eu-central-1")
        #expect(try stage.held().header == Array("Authorization".utf8))
    }

    @Test("without credentials there is no thread")
    func none() throws {
        let stage = try Stage([:]) { _, settings in
            settings.members["credentials"] = nil
            settings.members["requests"] = nil
        }
        #expect(stage.renewals.figures.isEmpty)
    }

    // MARK: Token servers

    /// A token server with its PKI.
    private final class TokenServer {
        static let host = "login.example"
        let pki: TestPKI
        let server: TestServer
        let origin: ScriptedOrigin
        let secret = "client s3cr3t/+"

        init(_ script: @escaping ScriptedOrigin.Script) throws {
            pki = try TestPKI()
            server = try pki.server(Self.host)
            origin = try ScriptedOrigin(server, script: script)
        }

        convenience init(status: String = "200 OK", fields: [String] = [], _ body: String) throws {
            try self.init { connection in
                while try connection.readRequest() != nil {
                    try connection.respond(body, status: status, fields: fields)
                }
            }
        }

        func stage(
            _ members: [String: Any] = [:],
            allowUnpinned: Bool = false,
            seconds: Int = 30,
            _ change: (inout ProxySettings) -> Void = { _ in }
        ) throws -> Stage {
            try Stage(["key": ["env": "PATH"]], seconds: seconds) { folder, settings in
                try folder.write("\(secret)\n", as: "client-secret")
                settings.anchors = [pki.root.certificate]
                settings.serve(Self.host, server, at: origin.port)
                settings.members["credentials"] = [
                    "key": [
                        "allowUnpinned": allowUnpinned,
                        "oauth2": [
                            "tokenURL": "https://\(Self.host)/token?x=1", "clientID": "my client",
                            "clientSecretFile": "client-secret",
                        ].merging(members) { _, new in new },
                    ]
                ]
                settings.members["requests"] = [
                    "rules": [["id": "r", "then": "allow", "host": "*.api.example", "user": "u", "credential": "key"]]
                ]
                change(&settings)
            }
        }
    }

    private static let token = #"{"access_token": "token-12345678", "token_type": "Bearer", "expires_in": 3600}"#

    @Test("a token is requested with the client's secret in field or form")
    func tokens() throws {
        let server = try TokenServer(Self.token)
        let stage = try server.stage(["scopes": ["read", "a/b"], "parameters": ["audience": "api & more"]])
        #expect(try stage.value() == "Bearer token-12345678")
        let request = try #require(server.origin.requests.first)
        #expect(request.method == "POST" && request.target == "/token?x=1")
        #expect(request.text == "grant_type=client_credentials&scope=read%20a%2Fb&audience=api%20%26%20more")
        #expect(request["Authorization"] == "Basic " + Base64.encode(Array("my%20client:client%20s3cr3t%2F%2B".utf8)))
        #expect(abs((stage.renewals.figures.first?.end ?? 0) - Int64(time(nil)) - 3600) <= 20)

        let body = try server.stage(["secretIn": "body"])
        #expect(try body.value() == "Bearer token-12345678")
        let second = try #require(server.origin.requests.last)
        #expect(second["Authorization"] == nil)
        let form = "grant_type=client_credentials&client_id=my%20client&client_secret=client%20s3cr3t%2F%2B"
        #expect(second.text == form)
    }

    @Test("a token server with a wrong or unenforced pin gets no byte")
    func pins() throws {
        let server = try TokenServer(Self.token)
        let wrong = try server.stage { $0.pin(TokenServer.host, to: PublicKeyPin.unrelated(2)) }
        #expect(try wrong.value().hasPrefix("source: the token server cannot be asked:"))
        for allowUnpinned in [false, true] {
            let reporting = try server.stage(allowUnpinned: allowUnpinned) {
                $0.pinnedDomains[TokenServer.host]?["enforcePinning"] = false
            }
            #expect(try reporting.value().contains("is not held to its pins"))
        }
        #expect(server.origin.applicationBytes == 0)
        let unpinned = try server.stage(allowUnpinned: true) {
            $0.pinnedDomains = ["other.example": $0.pinnedDomains[TokenServer.host]!]
        }
        #expect(try unpinned.value() == "Bearer token-12345678")
    }

    @Test("a denied token server is not asked")
    func access() throws {
        let server = try TokenServer(Self.token)
        let stage = try server.stage { $0.members["access"] = ["denyHosts": [TokenServer.host]] }
        #expect(try stage.value().hasPrefix("source: the token server may not be asked"))
        #expect(server.origin.connections.isEmpty)
    }

    @Test("redirects are not followed, and refusals reported by code alone")
    func refusals() throws {
        for (status, fields, body, text) in [
            (
                "302 Found", ["Location: https://login.example/other"], "",
                "refused: the token server answers with a redirect (302)"
            ),
            (
                "307 Temporary Redirect", ["Location: https://other.example/"], "",
                "refused: the token server answers with a redirect"
            ),
            (
                "401 Unauthorized", [], #"{"error": "invalid_client", "error_description": "s3cr3t"}"#,
                "status 401: invalid_client"
            ),
            ("400 Bad Request", [], #"{"error": "client s3cr3t"}"#, "refuses with the status 400"),
            ("500 Oops", [], "s3cr3t", "refuses with the status 500"),
            ("200 OK", [], "s3cr3t-12345678", "output: not a JSON object"),
            (
                "200 OK", [], #"{"token_type": "mac", "access_token": "s3cr3t-12345678"}"#,
                "output: \"token_type\" is not"
            ),
            (
                "200 OK", ["Content-Encoding: gzip"], "s3cr3t",
                "output: the token server's response has a content coding"
            ),
            (
                "200 OK", [], String(repeating: "s3cr3t", count: 20_000),
                "output: the token server's response is longer than 64 KB"
            ),
        ] {
            let server = try TokenServer(status: status, fields: fields, body)
            let stage = try server.stage()
            let told = try stage.value()
            #expect(told.contains(text), "\(status): \(told)")
            let event = try stage.event("credentialFailed")
            #expect(!told.contains("s3cr3t") && !event.contains("s3cr3t"), "\(told) \(event)")
            #expect(server.origin.requests.count == 1)
        }
    }

    @Test("a token server that is silent, or truncates, is a failure")
    func broken() throws {
        let silent = try TokenServer { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let stage = try silent.stage { $0.setTimeouts(["firstByte": "300ms"]) }
        #expect(try stage.value().hasPrefix("timeout: the token server does not answer in time"))
        let short = try TokenServer { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"access_token\"")
        }
        #expect(
            try short.stage().value().hasPrefix(
                "output: the token server's response cannot be read (response_truncated)"
            )
        )
    }

    @Test("a token server that drips gets no more time")
    func dribbling() throws {
        let isOver = Monitor(false)
        defer { isOver.with { $0 = true } }
        let server = try TokenServer { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
            while !isOver.with({ $0 }) {
                try connection.write(" ")
                Thread.sleep(forTimeInterval: 0.05)
            }
        }
        let stage = try server.stage(seconds: 1)
        #expect(try stage.value().hasPrefix("timeout: the token server does not answer in time"))
    }

    @Test("a missing or invalid file of the client's secret is a failure")
    func clientSecret() throws {
        let server = try TokenServer(Self.token)
        let missing = try server.stage(["clientSecretFile": "none"])
        #expect(try missing.value().contains("No such file"))
        let binary = try Stage(["key": ["env": "PATH"]]) { folder, settings in
            try folder.write("two\nlines", as: "client-secret")
            settings.members["credentials"] = [
                "key": [
                    "allowUnpinned": true,
                    "oauth2": [
                        "tokenURL": "https://login.example/", "clientID": "a", "clientSecretFile": "client-secret",
                    ],
                ]
            ]
        }
        #expect(try binary.value().contains("does not hold one line"))
        #expect(server.origin.connections.isEmpty)
    }
}
