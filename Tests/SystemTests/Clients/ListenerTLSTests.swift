// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

@Suite("A listener that speaks TLS with its clients", .onOwnThreads)
struct ListenerTLSTests {
    private let folder: TemporaryFolder
    private let clients: TestPKI

    init() throws {
        folder = try TemporaryFolder()
        clients = try TestPKI("clients")
        try folder.write(Stage.pki.root.certificate.pem, as: "root.pem")
    }

    /// The signatures of RSA are made on a thread of their own.
    private static let keys: [KeyPair.Kind] = [.p256, .rsa(bits: 2048)]

    /// A stage whose first listener speaks TLS as `localhost`.
    private func stage(
        key: KeyPair.Kind = .p256,
        clientCA: Bool = false,
        _ change: (inout ProxySettings) -> Void = { _ in },
        script: @escaping ScriptedOrigin.Script
    ) throws -> Stage {
        let own = try Stage.pki.server("localhost", key: key)
        return try Stage(
            { settings in
                settings.files["own.pem"] = own.chainPEM
                settings.files["own.key"] = own.privateKeyPEM
                settings.files["clients.pem"] = clients.root.certificate.pem
                var tls = ["certificate": "own.pem", "key": "own.key"]
                if clientCA { tls["clientCA"] = "clients.pem" }
                settings.listeners[0]["tls"] = tls
                change(&settings)
            },
            script: script
        )
    }

    private static let responding: ScriptedOrigin.Script = { connection in
        while let request = try connection.readRequest() {
            let body = request.body.isEmpty ? "hello" : "\(request.body.count)"
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
    }

    private func curl(_ stage: Stage, _ arguments: String..., url: String? = nil) throws -> Programs.Finished {
        try Programs.run(
            "curl",
            ["-sS", "--max-time", "30", "--proxy", "https://localhost:\(stage.proxy.port)"]
                + ["--proxy-cacert", "\(folder.path)/root.pem"] + arguments + [url ?? stage.url()]
        )
    }

    @Test("curl uses an HTTPS proxy, and the origin's pins hold", arguments: keys)
    func curlUsesIt(key: KeyPair.Kind) throws {
        let stage = try stage(key: key, script: Self.responding)
        let finished = try curl(stage)
        #expect(finished.output == "hello", "\(finished.errors)")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.object("pinning")?["verdict"] as? String == "pass")
        #expect(line["user"] == nil)
    }

    @Test("a client that does not trust the proxy's certificate sends it nothing", arguments: keys)
    func clientRefuses(key: KeyPair.Kind) throws {
        let stage = try stage(key: key, script: Self.responding)
        let finished = try Programs.run(
            "curl",
            ["-sS", "--proxy", "https://localhost:\(stage.proxy.port)", stage.url()]
        )
        #expect(finished.exitCode == 60)
        #expect(stage.proxy.taskLines.isEmpty)
        #expect(stage.origin.connections.isEmpty)
    }

    @Test("large bodies go both ways whole, several on one connection", arguments: keys)
    func largeBodies(key: KeyPair.Kind) throws {
        let size = 3 << 20
        let stage = try stage(key: key) { connection in
            while let request = try connection.readRequest() {
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(request.body.count)\r\n\r\n")
                try connection.write(request.body)
            }
        }
        let bytes = patternBytes(size)
        let path = try folder.write(bytes: bytes, as: "body")
        let finished = try curl(
            stage,
            "--data-binary",
            "@\(path)",
            "-o",
            "\(folder.path)/first",
            "-o",
            "\(folder.path)/second",
            stage.url()
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        for name in ["first", "second"] {
            #expect(try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name)")) == Data(bytes))
        }
    }

    @Test("a gateway may speak TLS, too")
    func gateway() throws {
        let stage = try stage(
            { settings in
                settings.listeners[0]["mode"] = "gateway"
                settings.listeners[0]["upstream"] = "https://\(Stage.host)"
            },
            script: Self.responding
        )
        let finished = try Programs.run(
            "curl",
            ["-sS", "--cacert", "\(folder.path)/root.pem", "https://localhost:\(stage.proxy.port)/"]
        )
        #expect(finished.output == "hello", "\(finished.errors)")
    }

    @Test("a client without TLS gets nothing", arguments: keys)
    func plaintextClient(key: KeyPair.Kind) throws {
        let stage = try stage(key: key, script: Self.responding)
        let client = try stage.proxy.connect()
        try client.send("GET \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\n\r\n")
        let response = try client.readToEnd()
        #expect(!String(decoding: response, as: UTF8.self).contains("HTTP/1.1"))
        #expect(stage.origin.connections.isEmpty)
    }

    @Test("a missing handshake times out like a head", arguments: keys)
    func slowHandshake(key: KeyPair.Kind) throws {
        let stage = try stage(key: key, { $0.setTimeouts(["head": "200ms"]) }, script: Self.responding)
        let client = try stage.proxy.connect()
        try client.send("\u{16}\u{3}\u{1}")
        #expect(try client.readToEnd().isEmpty)
    }

    @Test("a client without the CA's certificate is refused, one with it known", arguments: keys)
    func clientCertificates(key: KeyPair.Kind) throws {
        let stage = try stage(key: key, clientCA: true, script: Self.responding)
        #expect(try curl(stage).exitCode != 0)
        var builder = CertificateBuilder.server(hosts: ["build agent 7"], validity: TestPKI.validity)
        builder.names = []
        builder.extendedKeyUsage = ["clientAuth"]
        let agent = try builder.identity(issuer: clients.intermediate)
        let pem = try folder.write(agent.certificate.pem + clients.intermediate.certificate.pem, as: "agent.pem")
        let key = try folder.write(agent.key.privateKeyPEM, as: "agent.key")
        let finished = try curl(stage, "--proxy-cert", pem, "--proxy-key", key)
        #expect(finished.output == "hello", "\(finished.errors)")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("user") == "CN = build agent 7")
        #expect(stage.origin.connections.count == 1)
        builder.names = [.uri("spiffe://example.org/build/7")]
        let workload = try builder.identity(issuer: clients.intermediate)
        try folder.write(workload.certificate.pem + clients.intermediate.certificate.pem, as: "agent.pem")
        try folder.write(workload.key.privateKeyPEM, as: "agent.key")
        let again = try curl(stage, "--proxy-cert", pem, "--proxy-key", key)
        #expect(again.output == "hello", "\(again.errors)")
        let last = try #require(try stage.proxy.waitForTaskLines(2).last)
        #expect(last.string("user") == "spiffe://example.org/build/7")
    }

    @Test("a client whose certificate is revoked, or not covered, is refused")
    func revokedClients() throws {
        let agents = try ["lost", "kept"].map { name in
            var builder = CertificateBuilder.server(hosts: [name], validity: TestPKI.validity)
            builder.names = []
            builder.extendedKeyUsage = ["clientAuth"]
            let agent = try builder.identity(issuer: clients.intermediate)
            try folder.write(agent.certificate.pem + clients.intermediate.certificate.pem, as: "\(name).pem")
            try folder.write(agent.key.privateKeyPEM, as: "\(name).key")
            return agent.certificate
        }
        func list(_ revoked: [Certificate], until end: Int64 = TestPKI.validity.upperBound) throws -> String {
            try RevocationListBuilder(validity: TestPKI.validity.lowerBound..<end, revoked: revoked)
                .pem(issuer: clients.intermediate)
        }
        let first = try list([agents[0]])
        let stage = try stage(
            clientCA: true,
            {
                $0.files["clients.crl"] = first
                $0.members["log"] = ["level": "debug"]
                var tls = $0.listeners[0]["tls"] as? [String: Any]
                tls?["crlFiles"] = ["clients.crl"]
                $0.listeners[0]["tls"] = tls
            },
            script: Self.responding
        )
        func get(_ name: String) throws -> String {
            let files = ["--proxy-cert", "\(folder.path)/\(name).pem", "--proxy-key", "\(folder.path)/\(name).key"]
            return try curl(stage, files[0], files[1], files[2], files[3]).output
        }
        func refusal(_ words: String) throws {
            try stage.proxy.waitForEvent("clientHandshakeFailed") { $0.string("message")?.contains(words) == true }
        }
        #expect(try get("kept") == "hello" && get("lost").isEmpty)
        try refusal("certificate revoked")
        let empty = try list([])
        try stage.reload { $0.files["clients.crl"] = empty }
        #expect(try get("lost") == "hello")
        let stale = try list([], until: TestPKI.validity.lowerBound + 1)
        let reloaded = try stage.reload { $0.files["clients.crl"] = stale }
        #expect(reloaded.string("event") == "reloaded")
        #expect(try get("kept").isEmpty)
        try refusal("CRL has expired")
        let other = try RevocationListBuilder(validity: TestPKI.validity).pem(issuer: clients.root)
        try stage.reload { $0.files["clients.crl"] = other }
        #expect(try get("kept").isEmpty)
        try refusal("unable to get certificate CRL")
        #expect(stage.origin.requests.count == 2)
    }

    @Test("a reload replaces the certificate")
    func renewal() throws {
        let stage = try stage(script: Self.responding)
        #expect(try curl(stage).output == "hello")
        let other = try TestPKI("renewal")
        let renewed = try other.server("localhost")
        try stage.reload {
            $0.files["own.pem"] = renewed.chainPEM
            $0.files["own.key"] = renewed.privateKeyPEM
        }
        #expect(try curl(stage).exitCode == 60)
        try folder.write(other.root.certificate.pem, as: "root.pem")
        #expect(try curl(stage).output == "hello")
    }

    @Test("an upload cut without close_notify is incomplete for the origin", arguments: keys)
    func cutUpload(key: KeyPair.Kind) throws {
        let stage = try stage(key: key) { connection in
            // Chunked, and the last chunk never comes.
            while try connection.readRequest() != nil {}
        }
        let script = """
            import os, socket, ssl
            context = ssl.create_default_context(cafile="\(folder.path)/root.pem")
            raw = socket.create_connection(("127.0.0.1", \(stage.proxy.port)))
            tls = context.wrap_socket(raw, server_hostname="localhost")
            tls.sendall(b"POST \(stage.url()) HTTP/1.1\\r\\nHost: \(Stage.host)\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n5\\r\\nhello\\r\\n")
            os.close(tls.detach())
            """
        let finished = try Programs.run("python3", ["-c", script])
        #expect(finished.exitCode == 0, "\(finished.errors)")
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(["client_closed", "request_invalid"].contains(line.string("error") ?? ""))
        #expect(!stage.origin.connections.contains { !$0.requests.isEmpty })
    }

    @Test(
        "versions and kinds of keys complete handshakes as expected",
        arguments: [KeyPair.Kind.rsa(bits: 2048), .rsa(bits: 4096), .rsaPSS(bits: 2048), .p384],
        ["1_2", "1_3"]
    )
    func versions(key: KeyPair.Kind, version: String) throws {
        let stage = try stage(key: key, script: Self.responding)
        let script = """
            import socket, ssl
            context = ssl.create_default_context(cafile="\(folder.path)/root.pem")
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv\(version)
            raw = socket.create_connection(("127.0.0.1", \(stage.proxy.port)))
            with context.wrap_socket(raw, server_hostname="localhost") as tls:
                tls.sendall(b"GET \(stage.url()) HTTP/1.1\\r\\nHost: \(Stage.host)\\r\\nConnection: close\\r\\n\\r\\n")
                answer = b""
                while piece := tls.recv(65536):
                    answer += piece
                print(tls.version(), answer[-5:].decode(), end="")
            """
        let finished = try Programs.run("python3", ["-c", script])
        #expect(finished.output == "TLSv\(version.replacing("_", with: ".")) hello", "\(finished.errors)")
    }

    @Test("clients that leave during a slow signature leave nothing behind")
    func leaving() throws {
        let stage = try stage(key: .rsa(bits: 4096), script: Self.responding)
        let script = """
            import socket, ssl, struct
            context = ssl.create_default_context(cafile="\(folder.path)/root.pem")
            for number in range(60):
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
                try:
                    tls.do_handshake()
                except ssl.SSLWantReadError:
                    pass
                hello = outgoing.read()
                raw = socket.create_connection(("127.0.0.1", \(stage.proxy.port)))
                if number % 3 == 0:
                    for byte in hello:
                        raw.sendall(bytes([byte]))
                else:
                    raw.sendall(hello)
                if number % 2:
                    # A reset instead of an end.
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raw.close()
            """
        let finished = try Programs.run("python3", ["-c", script])
        #expect(finished.exitCode == 0, "\(finished.errors)")
        #expect(try curl(stage).output == "hello")
        #expect(stage.origin.connections.count == 1)
    }

    @Test("a client that ends with its hello gets no signature")
    func endedHello() throws {
        let stage = try stage(key: .rsa(bits: 4096), script: Self.responding)
        let script = """
            import socket, ssl
            context = ssl.create_default_context(cafile="\(folder.path)/root.pem")
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            hello = outgoing.read()
            for ends in (True, False):
                raw = socket.create_connection(("127.0.0.1", \(stage.proxy.port)))
                # The end is in the packet of the last bytes.
                raw.send(hello, socket.MSG_MORE)
                if ends:
                    raw.shutdown(socket.SHUT_WR)
                else:
                    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                print(len(raw.recv(1)))
                raw.close()
            """
        let finished = try Programs.run("python3", ["-c", script])
        #expect(finished.output == "0\n1\n", "\(finished.errors)")
        #expect(try curl(stage).output == "hello")
    }

    // MARK: The protocol that was agreed on

    /// A client that agrees on a protocol, sends these bytes whatever it is, and reads to the end, or so many bytes.
    private static let speaker = """
        import socket, ssl, sys
        context = ssl.create_default_context(cafile=sys.argv[1])
        if sys.argv[3]: context.set_alpn_protocols([sys.argv[3]])
        client = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[2]))), server_hostname="localhost")
        assert (client.selected_alpn_protocol() or "") == sys.argv[3]
        client.sendall(bytes.fromhex(sys.argv[4]))
        answer = b""
        while len(answer) < int(sys.argv[5]):
            part = client.recv(65536)
            if not part: break
            answer += part
        print(answer.decode("latin-1"), end="")
        """

    private func response(
        _ stage: Stage,
        to bytes: String,
        agreeing name: String,
        upTo count: Int = 65_536
    ) throws -> String {
        let hex = bytes.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let finished = try Programs.run(
            "python3",
            ["-c", Self.speaker, "\(folder.path)/root.pem", "\(stage.proxy.port)", name, hex, "\(count)"]
        )
        #expect(finished.exitCode == 0, "\(finished.errors)")
        return finished.output
    }

    @Test("a client that speaks another protocol than agreed gets no response")
    func agreedProtocol() throws {
        let stage = try stage({ $0.listeners[0]["http2"] = true }, script: Self.responding)
        let old = "GET \(stage.url()) HTTP/1.1\r\nHost: \(Stage.host)\r\nConnection: close\r\n\r\n"
        let new = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0"
        #expect(try response(stage, to: old, agreeing: "http/1.1").hasPrefix("HTTP/1.1 200"))
        #expect(try response(stage, to: old, agreeing: "").hasPrefix("HTTP/1.1 200"))
        #expect(stage.origin.requests.count == 2)
        let refused = try response(stage, to: old, agreeing: "h2")
        #expect(!refused.contains("HTTP/1.1") && !refused.contains("hello"), "\(refused)")
        #expect(stage.origin.requests.count == 2)
        // SETTINGS comes first over HTTP/2.
        #expect(try !response(stage, to: new, agreeing: "h2", upTo: 9).hasPrefix("HTTP/"))
        for name in ["http/1.1", ""] {
            #expect(try response(stage, to: new, agreeing: name).hasPrefix("HTTP/1.1 505"), "\(name)")
        }
    }
}
