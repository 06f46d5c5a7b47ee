// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

/// What an operator reads when no TLS connection to a server comes about: the reason in plain words, and what its owner can do.
@Suite("Servers whose TLS handshake always fails", .onOwnThreads)
struct HandshakeWordsTests {
    /// A server that answers the client's hello with these bytes.
    struct Server: Sendable, CustomTestStringConvertible {
        let name: String
        let response: [UInt8]
        let words: [String]
        var testDescription: String { name }

        init(_ name: String, _ response: [UInt8], _ words: [String]) {
            self.name = name
            self.response = response
            self.words = words
        }

        /// A fatal alert (RFC 8446, section 6).
        static func alert(_ number: UInt8, _ words: String...) -> Server {
            Server("alert \(number)", [21, 3, 3, 0, 2, 2, number], words)
        }
    }

    /// A ServerHello without extensions (RFC 5246, section 7.4.1.3): ECDHE-RSA-AES128-GCM-SHA256.
    private static func hello(minor: UInt8) -> [UInt8] {
        [22, 3, minor, 0, 42, 2, 0, 0, 38, 3, minor] + [UInt8](repeating: 7, count: 32) + [0, 0xC0, 0x2F, 0]
    }

    private static let servers = [
        Server("HTTP", Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), ["what it sends is no TLS", "check the port"]),
        Server("mail", Array("220 mail.example.com ESMTP\r\n".utf8), ["what it sends is no TLS", "STARTTLS"]),
        Server("TLS 1.1", hello(minor: 2), ["no version of TLS in common", "TLS 1.2 is the lowest"]),
        Server(
            "no secure renegotiation",
            hello(minor: 3),
            ["secure renegotiation (RFC 5746)", "TLS software updated"]
        ),
        Server.alert(40, "accepts nothing of what is offered", "ECDHE"),
        Server.alert(70, "no version of TLS in common"), Server.alert(71, "too weak for it"),
        Server.alert(80, "it has failed itself", "its log"),
        Server.alert(112, "does not know the name \(Stage.host)", "Check the name"),
        Server("the end", [], ["ended the connection within the handshake", "firewall or load balancer"]),
    ]

    @Test("the refusal says why, and what the server's owner can do", arguments: servers)
    func words(server: Server) throws {
        let identity = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(nil) { connection in
            _ = connection.read()
            if !server.response.isEmpty { try connection.write(server.response) }
            connection.finishWriting()
            connection.readToEnd()
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, identity, at: origin.port)
        let proxy = try ProxyUnderTest(settings)
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "tls_handshake_failed", "\(response.text)")
        for words in server.words { #expect(response.text.contains(words), "\(response.text)") }
        #expect(response.text.contains("(OpenSSL: "), "\(response.text)")
    }

    @Test("a server with weak Diffie-Hellman is described, also with tlsProfile legacy")
    func weakDiffieHellman() throws {
        let identity = try Stage.pki.server(Stage.host, key: .rsa(bits: 2048))
        let folder = try TemporaryFolder()
        let parameters = "\(folder.path)/weak.pem"
        let made = try Programs.run(
            "openssl",
            ["genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:modp_1536", "-out", parameters]
        )
        #expect(made.exitCode == 0, "\(made.errors)")
        let server = try OpenSSLServer(
            identity,
            mode: .status,
            arguments: ["-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256:@SECLEVEL=0", "-dhparam", parameters]
        )
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, identity, at: server.port)
        settings.hosts[Stage.host]?["tlsProfile"] = "legacy"
        let proxy = try ProxyUnderTest(settings)
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "tls_handshake_failed", "\(response.text)")
        #expect(response.text.contains("its group for Diffie-Hellman is too small"), "\(response.text)")
        #expect(response.text.contains("2,048 bits or more"), "\(response.text)")
    }

    // MARK: Renegotiation

    /// A server of TLS 1.2 that asks for another handshake when it has read a request.
    private func stage(
        _ change: (inout ProxySettings) -> Void = { _ in },
        then script: @escaping ScriptedOrigin.Script
    ) throws -> (ProxyUnderTest, ScriptedOrigin) {
        let identity = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(identity, maximum: .tls12) { connection in
            while let request = try connection.readRequest() {
                guard request.target.hasSuffix("private") else {
                    try connection.respond("public")
                    continue
                }
                connection.requestRenegotiation()
                return try script(connection)
            }
        }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, identity, at: origin.port)
        change(&settings)
        return (try ProxyUnderTest(settings), origin)
    }

    private func check(_ response: HTTPMessage, _ proxy: ProxyUnderTest) throws {
        #expect(response.status == 502 && response.problemCode == "tls_handshake_failed", "\(response.text)")
        #expect(response.text.contains("renegotiation of TLS 1.2"), "\(response.text)")
        #expect(response.text.contains("have it ask in the first handshake"), "\(response.text)")
        #expect(try proxy.waitForTaskLines(1).last?.string("error") == "tls_handshake_failed")
    }

    @Test("a server that demands renegotiation and ends is recognised")
    func renegotiation() throws {
        // OpenSSL ends the connection with an alert when the client declines.
        let (proxy, origin) = try stage { connection in
            _ = connection.read()
            connection.close(.cut)
        }
        try check(try proxy.get("http://\(Stage.host)/private"), proxy)
        // Nothing was found out about the server: its other paths are asked for as ever.
        #expect(try proxy.get("http://\(Stage.host)/").text == "public")
        #expect(origin.connections.count > 1)
    }

    @Test("a server that waits for renegotiation is recognised")
    func waitingServer() throws {
        let gate = Gate()
        defer { gate.open() }
        let (proxy, origin) = try stage({ $0.setTimeouts(["firstByte": "500ms"]) }) { _ in try gate.pass() }
        try check(try proxy.get("http://\(Stage.host)/private"), proxy)
        #expect(origin.connections.count == 1)
    }

    @Test("renegotiation is recognised for an offer of WebSocket", arguments: [true, false])
    func upgrade(waits: Bool) throws {
        let gate = Gate()
        defer { gate.open() }
        let (proxy, origin) = try stage({ $0.setTimeouts(["firstByte": waits ? "500ms" : "60s"]) }) { connection in
            if waits { return try gate.pass() }
            _ = connection.read()
            connection.close(.cut)
        }
        let offer = [
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
        ]
        try check(try proxy.get("http://\(Stage.host)/private", fields: offer), proxy)
        #expect(origin.connections.count == 1)
    }

    @Test("a server that responds without renegotiation is served")
    func respondingServer() throws {
        let (proxy, origin) = try stage { try $0.respond("as it is") }
        #expect(try proxy.get("http://\(Stage.host)/private").text == "as it is")
        #expect(origin.connections.count == 1)
    }

    // MARK: Names

    @Test("a certificate without alternative names is described so")
    func commonName() throws {
        var builder = CertificateBuilder.server(hosts: [], validity: TestPKI.validity)
        builder.subject = [("CN", Stage.host)]
        let identity = try Stage.pki.server(builder)
        let origin = try ScriptedOrigin(identity) { OriginResponse.text($0.target) }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, identity, at: origin.port)
        let proxy = try ProxyUnderTest(settings)
        let response = try proxy.get("http://\(Stage.host)/")
        #expect(response.status == 502 && response.problemCode == "certificate_host_mismatch", "\(response.text)")
        #expect(
            response.text.contains("a common name (CN = \(Stage.host)) and no subject alternative name"),
            "\(response.text)"
        )
        #expect(response.text.contains("subjectAltName=DNS:\(Stage.host)"), "\(response.text)")
    }
}
