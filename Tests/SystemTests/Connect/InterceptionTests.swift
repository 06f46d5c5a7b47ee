// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("CONNECT to a host that is intercepted", .onOwnThreads)
struct InterceptionTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        let made = try Programs.run(
            try Programs.built("pinproxy"),
            ["ca", "init", "--dir", folder.path, Stage.host, "other.example.com"]
        )
        try #require(made.exitCode == 0, "\(made.errors)")
        try folder.write(Stage.pki.root.certificate.pem, as: "root.pem")
    }

    private var ca: String { "\(folder.path)/pinproxy-ca.pem" }

    private func intercept(_ settings: inout ProxySettings) {
        settings.members["interception"] = ["certificate": ca, "key": "\(folder.path)/pinproxy-ca.key"]
        settings.hosts[Stage.host, default: [:]]["connect"] = "intercept"
        // The origins of tests have ports of their own; `resolve` leads there.
    }

    private func stage(
        _ change: (inout ProxySettings) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws -> Stage {
        try Stage(
            { settings in
                intercept(&settings)
                change(&settings)
            },
            script: script
        )
    }

    private static let responding: ScriptedOrigin.Script = { connection in
        while let request = try connection.readRequest() {
            let text = request.body.isEmpty ? "\(request.method) \(request.target)" : "\(request.body.count)"
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)")
        }
    }

    private func curl(_ stage: Stage, _ arguments: String..., proxy: String? = nil) throws -> Programs.Finished {
        try Programs.run(
            "curl",
            ["-sS", "--max-time", "30", "--proxy", proxy ?? "http://127.0.0.1:\(stage.proxy.port)", "--cacert", ca]
                + arguments
        )
    }

    // MARK: - Requests go the way of all others

    @Test("curl's https request uses its pin, hooks and log as usual")
    func curlUsesIt() throws {
        let stage = try stage(script: Self.responding)
        let finished = try curl(stage, "https://\(Stage.host)/one", "https://\(Stage.host)/two")
        #expect(finished.output == "GET /oneGET /two", "\(finished.errors)")
        let lines = try stage.proxy.waitForTaskLines(3)
        let connect = try #require(lines.first { $0.string("method") == "CONNECT" })
        #expect(connect.string("url") == "\(Stage.host):443")
        #expect(connect.integer("status") == 200)
        #expect(connect.object("pinning")?["verdict"] as? String == "pass")
        let urls = lines.filter { $0.string("method") == "GET" }
        #expect(urls.map { $0.string("url") } == ["https://\(Stage.host)/one", "https://\(Stage.host)/two"])
        for line in urls { #expect(line.object("pinning")?["verdict"] as? String == "pass") }
    }

    @Test("OPTIONS * reaches the origin")
    func serverOptions() throws {
        let stage = try stage(script: Self.responding)
        let words = ["-X", "OPTIONS", "--request-target", "*"]
        let finished = try curl(stage, words[0], words[1], words[2], words[3], "https://\(Stage.host)/")
        #expect(finished.output == "OPTIONS *", "\(finished.errors)")
    }

    @Test("the client gets a short-lived certificate for the host")
    func showsLeaf() throws {
        let stage = try stage(script: Self.responding)
        let finished = try Programs.run(
            "sh",
            [
                "-c",
                "openssl s_client -proxy 127.0.0.1:\(stage.proxy.port) -connect \(Stage.host):443 -servername \(Stage.host) "
                    + "-CAfile '\(ca)' -verify_return_error -alpn h2,http/1.1 -nameopt RFC2253 </dev/null 2>&1",
            ]
        )
        #expect(finished.output.contains("Verify return code: 0 (ok)"), "\(finished.output)")
        #expect(finished.output.contains("issuer=CN=pinproxy local CA"), "\(finished.output)")
        #expect(finished.output.contains("ALPN protocol: h2"))
    }

    @Test("large bodies go both ways, several on one connection")
    func largeBodies() throws {
        let stage = try stage { connection in
            while let request = try connection.readRequest() {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(request.body.count)\r\n\r\n")
                try connection.write(request.body)
            }
        }
        let bytes = patternBytes(3 << 20)
        let path = try folder.write(bytes: bytes, as: "body")
        let finished = try curl(
            stage,
            "--data-binary",
            "@\(path)",
            "-o",
            "\(folder.path)/1",
            "-o",
            "\(folder.path)/2",
            "https://\(Stage.host)/",
            "https://\(Stage.host)/"
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        for name in ["1", "2"] {
            #expect(try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name)")) == Data(bytes))
        }
        #expect(try stage.proxy.waitForTaskLines(3).filter { $0.string("method") == "CONNECT" }.count == 1)
    }

    @Test("Python trusts the local CA, too")
    func python() throws {
        let stage = try stage(script: Self.responding)
        let script = """
            import urllib.request
            print(urllib.request.urlopen("https://\(Stage.host)/python", timeout=30).read().decode())
            """
        let finished = try Programs.run(
            "python3",
            ["-c", script],
            environment: Programs.environment.merging([
                "https_proxy": "http://127.0.0.1:\(stage.proxy.port)", "SSL_CERT_FILE": ca,
            ]) { $1 }
        )
        #expect(finished.output == "GET /python\n", "\(finished.errors)")
    }

    @Test("interception works within an HTTPS proxy: TLS in TLS")
    func nested() throws {
        let own = try Stage.pki.server("localhost")
        let stage = try stage(
            { settings in
                settings.files["own.pem"] = own.chainPEM
                settings.files["own.key"] = own.privateKeyPEM
                settings.listeners[0]["tls"] = ["certificate": "own.pem", "key": "own.key"]
            },
            script: Self.responding
        )
        let path = try folder.write(bytes: patternBytes(1 << 20), as: "body")
        let finished = try curl(
            stage,
            "--proxy-cacert",
            "\(folder.path)/root.pem",
            "--data-binary",
            "@\(path)",
            "https://\(Stage.host)/",
            proxy: "https://localhost:\(stage.proxy.port)"
        )
        #expect(finished.output == "\(1 << 20)", "\(finished.errors)")
    }

    // MARK: - Pins hold

    @Test("with a wrong pin CONNECT is refused with 502, and nothing is sent")
    func wrongPin() throws {
        let stage = try stage({ $0.pin(Stage.host, to: .unrelated(7)) }, script: Self.responding)
        let client = try stage.proxy.connect()
        try client.send("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\n\r\n")
        let response = try client.readResponse(to: "CONNECT")
        #expect(response.status == 502)
        #expect(response.problemCode == "pin_mismatch")
        #expect(stage.origin.applicationBytes == 0)
        #expect(try stage.proxy.waitForTaskLines(1)[0].string("error") == "pin_mismatch")
    }

    @Test("a pin that changes during the tunnel refuses its next request")
    func reloadedPin() throws {
        let stage = try stage(script: Self.responding)
        let script = """
            import http.client, ssl, sys
            context = ssl.create_default_context(cafile="\(ca)")
            c = http.client.HTTPSConnection("127.0.0.1", \(stage.proxy.port), context=context)
            c.set_tunnel("\(Stage.host)", 443)
            c.request("GET", "/1")
            print(c.getresponse().read().decode(), flush=True)
            sys.stdin.readline()
            c.request("GET", "/2")
            print(c.getresponse().status, flush=True)
            """
        let file = try folder.write(script, as: "client.py")
        let pipe = "\(folder.path)/go"
        _ = try Programs.run("mkfifo", [pipe])
        let client = try ChildProcess(try Programs.path(of: "sh"), ["-c", "exec python3 '\(file)' < '\(pipe)'"])
        let go = FileHandle(forUpdatingAtPath: pipe)
        _ = try client.waitForOutput("the first answer") { $0.contains("GET /1") ? true : nil }
        try stage.reload { $0.pin(Stage.host, to: .unrelated(7)) }
        try go?.write(contentsOf: Data("\n".utf8))
        #expect(try client.waitForExit().output.contains("502"))
    }

    // MARK: - What does not belong in it

    /// Sends text inside an intercepted connection, and gives back what came, or why TLS did not.
    private func said(_ stage: Stage, _ text: String, name: String = Stage.host, protocols: String = "") throws
        -> String
    {
        let file = try folder.write(text, as: "said")
        let script = """
            import socket, ssl
            s = socket.create_connection(("127.0.0.1", \(stage.proxy.port)), timeout=30)
            s.sendall(b"CONNECT \(Stage.host):443 HTTP/1.1\\r\\nHost: \(Stage.host):443\\r\\n\\r\\n")
            head = b""
            while not head.endswith(b"\\r\\n\\r\\n"): head += s.recv(1)
            context = ssl.create_default_context(cafile="\(ca)")
            if "\(protocols)": context.set_alpn_protocols(["\(protocols)"])
            try:
                tls = context.wrap_socket(s, server_hostname="\(name)")
                tls.sendall(open("\(file)", "rb").read())
                answer = b""
                while True:
                    piece = tls.recv(65536)
                    if not piece: break
                    answer += piece
                print(answer.decode())
            except ssl.SSLError as error:
                print(error)
            """
        return try Programs.run("python3", ["-c", script]).output
    }

    @Test(
        "a request for another host, a CONNECT and plain http are refused",
        arguments: [
            ("GET / HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n", "421"),
            ("GET / HTTP/1.1\r\nHost: \(Stage.host):8443\r\nConnection: close\r\n\r\n", "421"),
            ("GET http://\(Stage.host)/ HTTP/1.1\r\nHost: \(Stage.host)\r\nConnection: close\r\n\r\n", "421"),
            ("GET https://other.example.com/ HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n", "421"),
            ("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\nConnection: close\r\n\r\n", "403"),
            ("GET / HTTP/1.1\r\nHost: \(Stage.host):443\r\nConnection: close\r\n\r\n", "200"),
            ("GET / HTTP/1.0\r\n\r\n", "200"), ("GET / HTTP/1.0\r\nHost: other.example.com\r\n\r\n", "421"),
            ("GET https://\(Stage.host)/ HTTP/1.1\r\nHost: \(Stage.host)\r\nConnection: close\r\n\r\n", "200"),
        ]
    )
    func belongs(request: String, status: String) throws {
        let stage = try stage(script: Self.responding)
        let response = try said(stage, request)
        #expect(response.contains("HTTP/1.1 \(status)"), "\(response)")
    }

    @Test("a hello for another host gets an alert, and nothing else")
    func wrongName() throws {
        let stage = try stage(script: Self.responding)
        #expect(try said(stage, "GET / HTTP/1.1\r\n\r\n", name: "other.example.com").contains("unrecognized name"))
        #expect(try handshakeProblem(of: stage).contains("names another server (SNI)"))
    }

    // MARK: - Clients that do not get as far as a request

    private func handshakeProblem(of stage: Stage) throws -> String {
        let line = try stage.proxy.waitForTaskLines(1)[0]
        #expect(line.string("method") == "CONNECT" && line.integer("status") == 200)
        #expect(line.string("error") == "client_handshake_failed", "\(line.text)")
        return line.string("errorDetails") ?? line.text
    }

    @Test("a client without HTTP's protocols gets TLS's alert, and is logged")
    func otherProtocols() throws {
        let stage = try stage(script: Self.responding)
        #expect(try said(stage, "", protocols: "spdy/1").contains("no application protocol"))
        #expect(try handshakeProblem(of: stage).contains("ALPN"))
    }

    @Test("a client that does not trust the local CA is logged with the remedy")
    func untrustedCA() throws {
        let stage = try stage(script: Self.responding)
        let finished = try Programs.run(
            "curl",
            ["-sS", "--max-time", "30", "--proxy", "http://127.0.0.1:\(stage.proxy.port)", "https://\(Stage.host)/"]
        )
        #expect(finished.exitCode == 60)
        let details = try handshakeProblem(of: stage)
        #expect(details.contains("alert unknown_ca") && details.contains("pinproxy ca show"), "\(details)")
    }

    @Test("an alert before a reset of the client is logged")
    func alertAndReset() throws {
        let stage = try stage(script: Self.responding)
        let script = """
            import socket, ssl, struct
            for _ in range(20):
                s = socket.create_connection(("127.0.0.1", \(stage.proxy.port)), timeout=30)
                s.sendall(b"CONNECT \(Stage.host):443 HTTP/1.1\\r\\nHost: \(Stage.host):443\\r\\n\\r\\n")
                head = b""
                while not head.endswith(b"\\r\\n\\r\\n"): head += s.recv(1)
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="\(Stage.host)")
                while True:
                    try:
                        tls.do_handshake()
                    except ssl.SSLWantReadError:
                        s.sendall(outgoing.read())
                        incoming.write(s.recv(65536))
                    except ssl.SSLCertVerificationError:
                        break
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.sendall(outgoing.read())
                s.close()
            """
        let finished = try Programs.run("python3", ["-c", script])
        try #require(finished.exitCode == 0, "\(finished.errors)")
        for line in try stage.proxy.waitForTaskLines(20) {
            let details = line.string("errorDetails") ?? ""
            #expect(details.contains("alert unknown_ca"), "\(line.text)")
        }
    }

    @Test(
        "bytes that are not modern TLS inside a CONNECT are logged",
        arguments: [
            ("GET / HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n", "plain HTTP"),
            ("SSH-2.0-OpenSSH_9.2\r\n", "no TLS"), ("", "without an alert"),
        ]
    )
    func noTLS(first: String, expected: String) throws {
        let stage = try stage(script: Self.responding)
        let client = try stage.proxy.connect()
        try client.send("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\n\r\n")
        #expect(try client.readResponseHead(to: "CONNECT").status == 200)
        if first.isEmpty { client.finishSending() } else { try client.send(first) }
        #expect(try handshakeProblem(of: stage).contains(expected))
    }

    @Test("a client of TLS 1.1 is logged as too old")
    func oldTLS() throws {
        let stage = try stage(script: Self.responding)
        let finished = try curl(
            stage,
            "--tls-max",
            "1.1",
            "--tlsv1.0",
            "--ciphers",
            "DEFAULT:@SECLEVEL=0",
            "https://\(Stage.host)/"
        )
        #expect(finished.exitCode == 35, "\(finished.errors)")
        #expect(try handshakeProblem(of: stage).contains("no TLS from 1.2 on"))
    }

    @Test("a client that never completes its handshake ends after timeouts.head")
    func lateHandshake() throws {
        let stage = try stage({ $0.members["defaults"] = ["timeouts": ["head": "100ms"]] }, script: Self.responding)
        let client = try stage.proxy.connect()
        try client.send("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\n\r\n")
        #expect(try client.readResponseHead(to: "CONNECT").status == 200)
        #expect(try handshakeProblem(of: stage).contains("timeouts.head"))
    }

    // MARK: - HTTP/2 inside

    @Test("HTTP/2 inside the CONNECT has many streams, each with its pin")
    func http2() throws {
        let stage = try stage(script: Self.responding)
        let urls = (0..<10).map { "https://\(Stage.host)/\($0)" }
        let finished = try Programs.run(
            "curl",
            ["-sS", "--http2", "--parallel", "--max-time", "30", "-w", " %{http_version}\n"]
                + ["--proxy", "http://127.0.0.1:\(stage.proxy.port)", "--cacert", ca] + urls
        )
        // curl writes what comes in the order in which it comes.
        #expect(finished.output.split(separator: " 2\n", omittingEmptySubsequences: false).count == 11)
        for number in 0..<10 { #expect(finished.output.contains("GET /\(number)"), "\(finished.errors)") }
        let requests = try stage.proxy.waitForTaskLines(11).filter { $0.string("method") == "GET" }
        #expect(requests.count == 10)
        for line in requests { #expect(line.object("pinning")?["verdict"] as? String == "pass") }
    }

    @Test("a stream of HTTP/2 for another host than the CONNECT's is refused")
    func http2Elsewhere() throws {
        let stage = try stage(script: Self.responding)
        let finished = try curl(
            stage,
            "--http2",
            "-H",
            "Host: other.example.com",
            "-w",
            "%{http_code} %{http_version}",
            "-o",
            "\(folder.path)/body",
            "https://\(Stage.host)/"
        )
        #expect(finished.output == "421 2", "\(finished.errors)")
        #expect(stage.origin.requests.isEmpty)
    }

    // MARK: - Port 80

    @Test("requests inside a CONNECT to port 80 behave as with http URLs")
    func plain() throws {
        let stage = try stage(script: Self.responding)
        let finished = try curl(stage, "--proxytunnel", "http://\(Stage.host)/one", "http://\(Stage.host)/two")
        #expect(finished.output == "GET /oneGET /two", "\(finished.errors)")
        let lines = try stage.proxy.waitForTaskLines(3)
        #expect(lines[0].string("method") == "CONNECT" && lines[0].string("url") == "\(Stage.host):80")
        #expect(lines[0].integer("status") == 200)
        for line in lines[1...] {
            #expect(line.string("url")?.hasPrefix("https://\(Stage.host)/") == true)
            #expect(line.object("pinning")?["verdict"] as? String == "pass")
        }
    }

    @Test("with a wrong pin a request inside a CONNECT to port 80 gets 502")
    func plainWrongPin() throws {
        let stage = try stage({ $0.pin(Stage.host, to: .unrelated(7)) }, script: Self.responding)
        let finished = try curl(stage, "--proxytunnel", "-w", "%{http_code}", "http://\(Stage.host)/")
        #expect(finished.output.hasSuffix("502") && finished.output.contains("pin_mismatch"), "\(finished.output)")
        #expect(stage.origin.applicationBytes == 0)
    }

    @Test("HTTP/2 with prior knowledge works inside a CONNECT to port 80")
    func plainHTTP2() throws {
        let stage = try stage({ $0.listeners[0]["http2"] = true }, script: Self.responding)
        let words = ["--proxytunnel", "--http2-prior-knowledge", "-w", " %{http_version}"]
        let finished = try curl(stage, words[0], words[1], words[2], words[3], "http://\(Stage.host)/one")
        #expect(finished.output == "GET /one 2", "\(finished.errors)")
    }

    @Test("TLS and other hosts inside a CONNECT to port 80 are refused")
    func plainRefused() throws {
        let stage = try stage(script: Self.responding)
        func say(_ text: String) throws -> HTTPMessage {
            let client = try stage.proxy.connect()
            try client.send("CONNECT \(Stage.host):80 HTTP/1.1\r\nHost: \(Stage.host):80\r\n\r\n")
            #expect(try client.readResponseHead(to: "CONNECT").status == 200)
            try client.send(text)
            return try client.readResponse()
        }
        #expect(try say("GET / HTTP/1.1\r\nHost: other.example.com\r\n\r\n").status == 421)
        #expect(try say("GET https://\(Stage.host)/ HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n").status == 421)
        #expect(try say("CONNECT \(Stage.host):80 HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n").status == 403)
        #expect(try say("GET http://\(Stage.host)/ HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n").text == "GET /")
        #expect(try say("\u{16}\u{3}\u{1}\u{2}").text.contains("CONNECT to port 80"))
    }

    @Test("without interception a CONNECT to port 80 of a pinned host is refused")
    func plainDenied() throws {
        let stage = try Stage(script: Self.responding)
        let response = try stage.proxy.exchange(
            "CONNECT \(Stage.host):80 HTTP/1.1\r\nHost: \(Stage.host):80\r\n\r\n",
            method: "CONNECT"
        )
        #expect(response.status == 403 && response.problemCode == "connect_denied")
        #expect(stage.origin.connections.isEmpty)
    }

    // MARK: - Clients and rules

    @Test("authentication precedes the CONNECT, and covers its requests")
    func authentication() throws {
        let hash = try Programs.passwordHash("x")
        let stage = try stage(
            {
                $0.files["users"] = "alice:" + hash
                $0.members["authentication"] = ["basic": ["file": "users"]]
            },
            script: Self.responding
        )
        #expect(try curl(stage, "https://\(Stage.host)/").exitCode == 56)
        #expect(stage.origin.connections.isEmpty)
        let proven = try curl(stage, "--proxy-user", "alice:x", "https://\(Stage.host)/")
        #expect(proven.output == "GET /", "\(proven.errors)")
        let line = try stage.proxy.waitForTaskLines(3).first { $0.string("method") == "GET" }
        #expect(line?.string("user") == "alice")
    }

    @Test("denied hosts and ports outside connectPorts are denied")
    func access() throws {
        let stage = try stage(
            { $0.members["access"] = ["denyHosts": [Stage.host], "denyAddresses": []] },
            script: Self.responding
        )
        func connect(_ authority: String) throws -> HTTPMessage {
            try stage.proxy.exchange("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n\r\n", method: "CONNECT")
        }
        #expect(try connect("\(Stage.host):443").problemCode == "host_denied")
        try stage.reload { $0.members["access"] = ["denyAddresses": []] }
        #expect(try connect("\(Stage.host):8443").problemCode == "connect_denied")
    }

    @Test("a CA that is missing or for other hosts fails the configuration")
    func loadErrors() throws {
        func check(_ interception: String, host: String) throws -> Programs.Finished {
            let text = """
                { "version": 1, \(interception) "hosts": { "\(host)": { "connect": "intercept" } } }
                """
            let path = try folder.write(text, as: "config.json")
            return try Programs.run(try Programs.built("pinproxy"), ["check", "--config", path])
        }
        let files = #""interception": { "certificate": "pinproxy-ca.pem", "key": "pinproxy-ca.key" },"#
        let none = try check("", host: Stage.host)
        #expect(none.exitCode == 78)
        #expect(none.errors.contains("/hosts/\(Stage.host)") && none.errors.contains("ca init"))
        let foreign = try check(files, host: "elsewhere.test")
        #expect(foreign.exitCode == 78)
        #expect(foreign.errors.contains("permitted subtree violation"), "\(foreign.errors)")
        let good = try check(files, host: "v1.\(Stage.host)")
        #expect(good.exitCode == 0, "\(good.errors)")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o644],
            ofItemAtPath: "\(folder.path)/pinproxy-ca.key"
        )
        let loose = try check(files, host: Stage.host)
        #expect(loose.exitCode == 78)
        #expect(loose.errors.contains("chmod 600"))
    }
}
