// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: fetch", .onOwnThreads)
struct FetchTests {
    private let host = Stage.host
    private let folder: TemporaryFolder
    private let server: TestServer

    init() throws {
        folder = try TemporaryFolder()
        server = try Stage.pki.server(host)
        try folder.write(Stage.pki.root.certificate.pem, as: "anchors.pem")
    }

    private func path(_ name: String) -> String { "\(folder.path)/\(name)" }

    private func bytes(_ name: String) -> [UInt8]? {
        FileManager.default.contents(atPath: path(name)).map { Array($0) }
    }

    private var files: Set<String> {
        Set((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [])
    }

    /// Without a configuration, at an origin that is not the host's own place.
    private func fetch(_ origin: UInt16, _ words: String...) throws -> Programs.Finished {
        try pinproxy(["fetch", "--anchors", path("anchors.pem"), "--connect", "127.0.0.1:\(origin)"] + words)
    }

    private func origin(
        _ response: @escaping @Sendable (HTTPMessage) -> String = { OriginResponse.text("for \($0.target)") }
    ) throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { response($0) }
    }

    private var url: String { "https://\(host)" }

    // MARK: Answers

    @Test("the body alone goes to stdout; statuses from 400 end with 1")
    func body() throws {
        let origin = try origin { request in
            request.target == "/none"
                ? OriginResponse.text("nothing here", status: "404 Not Found")
                : OriginResponse.text("for \(request.target)")
        }
        let good = try fetch(origin.port, "\(url)/a?b=c#d")
        #expect(good.exitCode == 0 && good.output == "for /a?b=c" && good.errors.isEmpty)
        let bad = try fetch(origin.port, "\(url)/none")
        #expect(bad.exitCode == 1 && bad.output == "nothing here")
        #expect(bad.errors == "pinproxy: \(host) responded with 404\n")
    }

    @Test("-o writes a whole good response, and no other")
    func output() throws {
        let body = String(repeating: "0123456789", count: 50_000)
        let origin = try origin { request in
            request.target == "/none" ? OriginResponse.text("no", status: "404 Not Found") : OriginResponse.text(body)
        }
        let good = try fetch(origin.port, "-o", path("file"), "\(url)/")
        #expect(good.exitCode == 0 && good.output.isEmpty && good.errors.isEmpty, "\(good.errors)")
        #expect(bytes("file") == Array(body.utf8))
        // A file that is there is replaced, and is kept where there is nothing to replace it with.
        let bad = try fetch(origin.port, "-o\(path("file"))", "\(url)/none")
        #expect(bad.exitCode == 1 && bad.errors.contains("responded with 404") && bad.errors.contains("is not written"))
        #expect(bytes("file") == Array(body.utf8))
        #expect(files == ["anchors.pem", "file"])
    }

    @Test("-i prints the head before the body")
    func head() throws {
        let origin = try origin { _ in OriginResponse.text("x", fields: ["ETag: \"1\""]) }
        let response = try fetch(origin.port, "-i", "\(url)/")
        #expect(response.output == "HTTP/1.1 200\nETag: \"1\"\nContent-Length: 1\n\nx")
    }

    @Test("-i shows a terminal safe characters, and programs the original")
    func headOnTerminal() throws {
        let odd = "a\u{9b}31mb\u{202e}c\u{200b}d\te"
        let origin = try origin { _ in OriginResponse.text("x", fields: ["X-Odd: \(odd)"]) }
        #expect(try fetch(origin.port, "-i", "\(url)/").output.contains("X-Odd: \(odd)\n"))
        let words = [
            try Programs.built("pinproxy"), "fetch", "--anchors", path("anchors.pem"), "--connect",
            "127.0.0.1:\(origin.port)", "-i", "\(url)/",
        ]
        // script(1) gives the program a terminal.
        let shown = try Programs.run(
            try Programs.path(of: "script"),
            ["-qec", words.map { "'\($0)'" }.joined(separator: " "), "/dev/null"],
            environment: Programs.environment
        )
        #expect(shown.output.contains("X-Odd: a\u{fffd}31mb\u{fffd}c\u{fffd}d\te\r\n"), "\(shown.output)")
    }

    @Test("redirects are followed or shown, and never leave TLS")
    func redirects() throws {
        let origin = try origin { request in
            switch request.target {
            case "/first": OriginResponse.text("", status: "302 Found", fields: ["Location: /second"])
            case "/plain": OriginResponse.text("", status: "302 Found", fields: ["Location: http://\(Stage.host)/"])
            default: OriginResponse.text("for \(request.target)")
            }
        }
        #expect(try fetch(origin.port, "\(url)/first").output == "for /second")
        #expect(try fetch(origin.port, "-i", "--no-redirect", "\(url)/first").output.hasPrefix("HTTP/1.1 302\n"))
        let denied = try fetch(origin.port, "\(url)/plain")
        #expect(denied.exitCode == 77 && denied.errors.contains("without TLS"), "\(denied.errors)")
    }

    // MARK: Requests

    @Test("the body decides the method, and -X and -H override it")
    func requests() throws {
        let origin = try origin()
        try folder.write("from a file", as: "body.txt")
        _ = try fetch(origin.port, "-d", "a=1", "-d", "b=2", "-H", "X-One: 1", "-H", "X-Two:2", "\(url)/data")
        _ = try fetch(origin.port, "-d", "@\(path("body.txt"))", "-H", "content-type: text/plain", "\(url)/file")
        _ = try fetch(origin.port, "-T", path("body.txt"), "\(url)/upload")
        _ = try fetch(origin.port, "-X", "DELETE", "\(url)/method")
        let requests = origin.connections.flatMap(\.requests)
        try #require(requests.count == 4)
        #expect(requests[0].method == "POST" && requests[0].text == "a=1&b=2")
        #expect(requests[0]["content-type"] == "application/x-www-form-urlencoded")
        #expect(requests[0]["x-one"] == "1" && requests[0]["x-two"] == "2")
        #expect(requests[0]["user-agent"]?.hasPrefix("pinproxy/") == true)
        #expect(requests[1].method == "POST" && requests[1].text == "from a file")
        #expect(requests[1]["content-type"] == "text/plain")
        #expect(
            requests[2].method == "PUT" && requests[2].text == "from a file" && requests[2]["content-length"] == "11"
        )
        #expect(requests[3].method == "DELETE" && requests[3].body.isEmpty)
    }

    @Test("-F sends a form with files and their types")
    func form() throws {
        let origin = try origin()
        try folder.write("{}", as: "x.json")
        let response = try fetch(
            origin.port,
            "-F",
            "title=A report",
            "-F",
            "file=@\(path("x.json"))",
            "-F",
            "other=@\(path("x.json"));type=text/x-own",
            "\(url)/form"
        )
        #expect(response.exitCode == 0)
        let request = try #require(origin.connections.first?.requests.first)
        #expect(
            request.method == "POST" && request["content-type"]?.hasPrefix("multipart/form-data; boundary=") == true
        )
        #expect(request.text.contains("name=\"title\"\r\n\r\nA report\r\n"))
        #expect(
            request.text.contains("name=\"file\"; filename=\"x.json\"\r\nContent-Type: application/json\r\n\r\n{}\r\n")
        )
        #expect(request.text.contains("Content-Type: text/x-own\r\n"))
    }

    @Test("the standard input is streamed, and sent once")
    func standardInput() throws {
        let origin = try origin { request in
            request.target == "/again"
                ? OriginResponse.text("", status: "307 Temporary Redirect", fields: ["Location: /"])
                : OriginResponse.text("ok")
        }
        func pipe(_ target: String) throws -> Programs.Finished {
            let line = #"printf 'one two' | "$0" fetch --anchors "$1" --connect "127.0.0.1:$2" -T - "$3""#
            return try Programs.run(
                "sh",
                ["-c", line, try Programs.built("pinproxy"), path("anchors.pem"), "\(origin.port)", url + target]
            )
        }
        #expect(try pipe("/").output == "ok")
        let request = try #require(origin.connections.first?.requests.first)
        #expect(request.method == "PUT" && request.text == "one two" && request["transfer-encoding"] == "chunked")
        let again = try pipe("/again")
        #expect(again.exitCode == 64 && again.errors.contains("a second time"), "\(again.errors)")
    }

    // MARK: Trust

    @Test("with --config the pins hold: a wrong key gets no request")
    func pins() throws {
        let origin = try origin()
        func run(_ pin: PublicKeyPin, _ target: String) throws -> Programs.Finished {
            var settings = ProxySettings(trusting: Stage.pki)
            settings.resolve(host, to: origin.port)
            settings.pin(host, to: pin)
            return try pinproxy("fetch", "--config", try settings.write(to: folder), "--metrics", target)
        }
        // A host that a pin file names is reached with TLS, whatever was written.
        for target in ["\(url)/a", "http://\(host)/a"] {
            let good = try run(server.certificate.publicKeyPin, target)
            #expect(
                good.exitCode == 0 && good.output == "for /a" && good.errors.contains("pinning: pass"),
                "\(good.errors)"
            )
        }
        let bad = try run(.unrelated(2), "\(url)/secret")
        #expect(bad.exitCode == 77 && bad.output.isEmpty && bad.errors.contains("pin"), "\(bad.errors)")
        let records = try origin.waitForClosed(3)
        #expect(records.map(\.requests.count).sorted() == [0, 1, 1])
        #expect(records.filter { $0.requests.isEmpty }.allSatisfy { $0.applicationBytes == 0 })
    }

    @Test("with --config the rules on addresses hold")
    func addresses() throws {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["access"] = ["denyAddresses": ["loopback"]]
        let response = try pinproxy("fetch", "--config", try settings.write(to: folder), "https://127.0.0.1:1/")
        #expect(response.exitCode == 77, "\(response.errors)")
    }

    @Test("with --config a forbidden unpinned host is refused, not redirected")
    func unpinned() throws {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.members["unpinnedHosts"] = "deny"
        let response = try pinproxy("fetch", "--json", "--config", try settings.write(to: folder), "\(url)/")
        #expect(response.exitCode == 77 && response.errors.contains("unpinnedHosts"), "\(response.errors)")
        #expect(!response.errors.contains("redirect"))
    }

    @Test(
        "with --config a redirect leads from pins to pins",
        arguments: [
            ["enforcePinning": false], ["expiration": "2020-01-31", "onExpiration": "unpinned"], ["ports": [1]],
        ] as [[String: any Sendable]]
    )
    func redirectOutOfPins(members: [String: any Sendable]) throws {
        let otherHost = "other.example.com"
        let server = try Stage.pki.server(Stage.host)
        let otherServer = try Stage.pki.server(otherHost)
        let other = try ScriptedOrigin(otherServer) { OriginResponse.text($0.target) }
        let origin = try ScriptedOrigin(server) { _ in
            let fields = ["Location: https://\(otherHost)/end"]
            return OriginResponse.text("", status: "307 Temporary Redirect", fields: fields)
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        settings.pinnedDomains[Stage.host]?["ports"] = [443]
        settings.resolve(otherHost, to: other.port)
        settings.pin(otherHost, to: .unrelated(2), with: members)
        for url in ["http://\(Stage.host)/", "https://\(Stage.host)/"] {
            let response = try pinproxy(
                "fetch",
                "--config",
                try settings.write(to: folder),
                "-H",
                "X-Api-Key: secret",
                url
            )
            #expect(response.exitCode == 77 && response.errors.contains("pins"), "\(url): \(response.errors)")
        }
        #expect(other.connections.isEmpty)
        settings.pin(otherHost, to: otherServer.pin)
        let held = try pinproxy("fetch", "--config", try settings.write(to: folder), "http://\(Stage.host)/")
        #expect(held.exitCode == 0 && held.output == "/end", "\(held.errors)")
    }

    @Test("an upgraded URL does not lead out of TLS")
    func redirectOutOfTLS() throws {
        let plain = try ScriptedOrigin(nil) { _ in OriginResponse.text("in the clear") }
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server) { request in
            request.target == "/end"
                ? OriginResponse.text("there")
                : OriginResponse.text(
                    "",
                    status: "302 Found",
                    fields: ["Location: http://\(request.target.dropFirst())/end"]
                )
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.resolve(Stage.host, to: origin.port)
        settings.hosts[Stage.host]?["upgrade"] = true
        settings.resolve("plain.example.com", to: plain.port)
        let path = try settings.write(to: folder)
        let left = try pinproxy("fetch", "--config", path, "http://\(Stage.host)/plain.example.com")
        #expect(left.exitCode == 77 && left.errors.contains("without TLS"), "\(left.errors)")
        #expect(plain.connections.isEmpty)
        let stayed = try pinproxy("fetch", "--config", path, "http://\(Stage.host)/\(Stage.host)")
        #expect(stayed.exitCode == 0 && stayed.output == "there", "\(stayed.errors)")
    }

    @Test("a denied redirect is reported by its first URL")
    func deniedRedirect() throws {
        let origin = try origin { _ in
            OriginResponse.text("", status: "302 Found", fields: ["Location: http://\(Stage.host)/elsewhere"])
        }
        let response = try fetch(origin.port, "--json", "\(url)/asked")
        #expect(
            response.exitCode == 77 && response.errors.contains("\"url\":\"https://\(host)/asked\""),
            "\(response.errors)"
        )
    }

    @Test("without --config, chain and host are checked")
    func chain() throws {
        let origin = try origin()
        let other = try fetch(origin.port, "https://other.example.com/")
        #expect(other.exitCode == 77 && other.errors.contains("other.example.com"), "\(other.errors)")
        let unknown = try pinproxy("fetch", "--connect", "127.0.0.1:\(origin.port)", "\(url)/")
        #expect(unknown.exitCode == 77, "\(unknown.errors)")
        #expect(try origin.waitForClosed(2).allSatisfy { $0.applicationBytes == 0 })
    }

    // MARK: Downloads that break off

    /// Sends the body's first part and ends; sends the rest in response to a range request.
    private func breakingOrigin(_ body: [UInt8], at cut: Int) throws -> ScriptedOrigin {
        try ScriptedOrigin(server) { connection in
            guard let request = try connection.readRequest() else { return }
            let tag = "ETag: \"v1\"\r\n"
            if request["range"] == "bytes=\(cut)-", request["if-range"] == "\"v1\"" {
                let range = "Content-Range: bytes \(cut)-\(body.count - 1)/\(body.count)\r\n"
                let head = "HTTP/1.1 206 Partial Content\r\n\(tag)\(range)Content-Length: \(body.count - cut)\r\n\r\n"
                try connection.write(Array(head.utf8) + body[cut...])
            } else {
                let head = "HTTP/1.1 200 OK\r\n\(tag)Content-Length: \(body.count)\r\n\r\n"
                try connection.write(Array(head.utf8) + body[..<cut])
                if request["x-hold"] != nil { connection.readToEnd() }
            }
        }
    }

    @Test("-C - resumes an interrupted download, and leaves nothing behind")
    func resumption() throws {
        let body = patternBytes(300_000)
        let origin = try breakingOrigin(body, at: 100_000)
        let broken = try fetch(origin.port, "-o", path("file"), "\(url)/big")
        #expect(broken.exitCode == 76 && broken.errors.contains("100.0 kB are kept"), "\(broken.errors)")
        #expect(files.contains("file.resume") && !files.contains("file"))
        // For another URL it is of no use, and stays.
        let other = try fetch(origin.port, "-C", "-", "-o", path("file"), "\(url)/other")
        #expect(other.exitCode == 64 && other.errors.contains("file.resume"), "\(other.errors)")
        let whole = try fetch(origin.port, "-C", "-", "-o", path("file"), "\(url)/big")
        #expect(whole.exitCode == 0, "\(whole.errors)")
        let isSame = bytes("file") == body
        #expect(isSame)
        #expect(files == ["anchors.pem", "file"])
    }

    @Test("Ctrl-C keeps the received bytes", arguments: [SIGINT, SIGTERM])
    func interruption(signal: Int32) throws {
        let body = patternBytes(300_000)
        let origin = try breakingOrigin(body, at: 200_000)
        let child = try ChildProcess(
            try Programs.built("pinproxy"),
            [
                "fetch", "--anchors", path("anchors.pem"), "--connect", "127.0.0.1:\(origin.port)",
                "-o", path("file"), "-H", "X-Hold: yes", "\(url)/big",
            ],
            environment: Programs.environment
        )
        // It writes in pieces: the first is enough.
        try Patience.poll(for: "bytes in the partial file", every: 0.01) {
            let part = files.first { $0.hasSuffix(".part") }
            return part.flatMap { bytes($0)?.isEmpty == false ? true : nil }
        }
        child.signal(signal)
        let ended = try child.waitForExit()
        #expect(ended.exitCode == 128 + signal && ended.errors.contains("interrupted"), "\(ended.errors)")
        #expect(files.contains("file.resume") && !files.contains("file"))
    }

    // MARK: Accounts

    @Test("--json is one line with times; --metrics shows them as a picture")
    func accounts() throws {
        let origin = try origin { request in
            request.target == "/first"
                ? OriginResponse.text("", status: "302 Found", fields: ["Location: /second"])
                : OriginResponse.text("hello")
        }
        let response = try fetch(origin.port, "--json", "--metrics", "-o", path("file"), "\(url)/first")
        let object = try JSONSerialization.jsonObject(with: Data(response.output.utf8)) as? [String: Any]
        let account = try #require(object)
        #expect((account["url"] as? String)?.hasSuffix("/second") == true)
        #expect(account["status"] as? Int == 200 && account["file"] as? String == path("file"))
        let transactions = try #require(account["transactions"] as? [[String: Any]])
        #expect(transactions.map { $0["status"] as? Int } == [302, 200])
        #expect(transactions.map { $0["reusedConnection"] as? Bool } == [false, true])
        #expect(transactions[0]["secureConnectionEnd"] is Double && transactions[1]["secureConnectionEnd"] == nil)
        #expect(transactions[1]["responseBodyBytesReceived"] as? Int == 5)
        #expect(response.errors.contains("waiting") && response.errors.contains("5 B received"), "\(response.errors)")
        // Without a file the standard output is the body's.
        let plain = try fetch(origin.port, "--json", "\(url)/second")
        #expect(plain.output == "hello" && plain.errors.hasPrefix("{\"url\":"))
        // A failure has its account too.
        let failed = try fetch(origin.port, "--json", "https://other.example.com/")
        #expect(failed.errors.contains(#""error":"certificate_host_mismatch""#), "\(failed.errors)")
    }

    // MARK: Failures

    @Test("the metrics of a refused server have its address and keys")
    func refusedServer() throws {
        let origin = try origin()
        var settings = ProxySettings(trusting: Stage.pki)
        settings.resolve(host, to: origin.port)
        settings.pin(host, to: .unrelated(9))
        let config = try settings.write(to: folder)
        let response = try pinproxy("fetch", "--json", "--config", config, "\(url)/")
        #expect(response.exitCode == 77, "\(response.errors)")
        let line = try #require(response.errors.split(separator: "\n").compactMap { LogLine(String($0)) }.last)
        let transaction = try #require(line.transactions.first, "\(response.errors)")
        #expect(transaction["remoteAddress"] as? String == "127.0.0.1:\(origin.port)")
        #expect(transaction["tlsVersion"] as? String == "TLSv1.3" && transaction["cipher"] != nil)
        #expect(transaction["verdict"] as? String == "fail")
        #expect((transaction["offeredPins"] as? [String])?.first == "\(server.pin)")
        #expect(transaction["secureConnectionStart"] != nil && transaction["connectEnd"] != nil)
        let words = try pinproxy("fetch", "--metrics", "--config", config, "\(url)/").errors
        #expect(words.contains("127.0.0.1:\(origin.port)") && words.contains("pinning: fail"), "\(words)")
        #expect(words.contains("\(server.pin)") && words.contains("  TLS "), "\(words)")
    }

    @Test("the exit code shows the kind of failure")
    func exitCodes() throws {
        let refusing = try TestSocket.reserveRefusingPort()
        defer { close(refusing.descriptor) }
        #expect(try fetch(refusing.port, "\(url)/").exitCode == 69)
        let silent = try ScriptedOrigin(server) { connection in
            _ = try connection.readRequest()
            connection.readToEnd()
        }
        let late = try fetch(silent.port, "--timeout", "300ms", "\(url)/")
        #expect(late.exitCode == 75 && late.errors.contains("timeouts.total"), "\(late.errors)")
        let broken = try origin { _ in "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n" }
        #expect(try fetch(broken.port, "\(url)/").exitCode == 76)
        let good = try origin()
        #expect(try fetch(good.port, "-o", "/nonexistent/folder/file", "\(url)/").exitCode == 73)
        let full = try Programs.run(
            "sh",
            [
                "-c", #""$0" fetch --anchors "$1" --connect "127.0.0.1:$2" "$3" > /dev/full"#,
                try Programs.built("pinproxy"), path("anchors.pem"), "\(good.port)", "\(url)/",
            ]
        )
        #expect(full.exitCode == 1 && full.errors.contains("standard output"), "\(full.errors)")
    }

    @Test(
        "wrong words are usage errors, with the right ones",
        arguments: [
            (["ftp://host/"], "no http or https URL"),
            (["-d", "a", "-T", "b", "https://host/"], "two bodies"),
            (["-C", "5", "-o", "x", "https://host/"], "takes -"),
            (["-C", "-", "https://host/"], "needs -o"),
            (["-H", "no colon", "https://host/"], "no header field"),
            (["-H", "Host: other", "https://host/"], "Host is the session's own"),
            (["-F", "word", "https://host/"], "no part of a form"),
            (["-X", "A B", "https://host/"], "no method"),
            (["--timeout", "soon", "https://host/"], "takes a time"),
            (["--http2", "--config", "x", "https://host/"], "without --config"),
        ]
    )
    func usage(words: [String], message: String) throws {
        let response = try pinproxy(["fetch"] + words)
        #expect(response.exitCode == 64 && response.errors.contains(message), "\(response.errors)")
    }

    @Test("a missing file is reported as such")
    func missing() throws {
        for words in [["-T", "/none"], ["-d", "@/none"], ["-F", "a=@/none"]] {
            let response = try pinproxy(["fetch"] + words + ["https://host/"])
            #expect(response.exitCode == 66 && response.errors.contains("/none"), "\(response.errors)")
        }
    }
}
