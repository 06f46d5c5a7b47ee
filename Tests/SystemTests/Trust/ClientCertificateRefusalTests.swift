// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import TestSupport
import Testing

@Suite("Servers that refuse the client's certificate", .onOwnThreads)
struct ClientCertificateRefusalTests {
    private static let server = try! Stage.pki.server(Stage.host)
    private static let clients = try! TestPKI("clients")

    enum Certificate: String, CaseIterable {
        case right, missing, expired, unknown

        fileprivate func identity() throws -> TestServer? {
            let validity: Range<Int64> = self == .expired ? 1_577_836_800..<1_600_000_000 : TestPKI.validity
            var builder = CertificateBuilder.server(hosts: ["\(self) agent"], validity: validity)
            builder.names = []
            builder.extendedKeyUsage = ["clientAuth"]
            switch self {
            case .missing: return nil
            case .right, .expired: return try ClientCertificateRefusalTests.clients.server(builder)
            case .unknown: return try TestPKI("strangers").server(builder)
            }
        }
    }

    /// A pinned host at an OpenSSL server that demands a certificate of `clients`.
    private func ask(
        _ certificate: Certificate,
        arguments: [String],
        httpVersion: String = "1.1",
        fields: [String] = []
    ) throws -> (response: HTTPMessage, line: LogLine) {
        let folder = try TemporaryFolder()
        let authorities = try folder.write(Self.clients.root.certificate.pem, as: "clients.pem")
        let demands = ["-Verify", "5", "-verify_return_error", "-CAfile", authorities]
        let origin = try OpenSSLServer(Self.server, mode: .status, arguments: demands + arguments)
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, Self.server, at: origin.port)
        settings.hosts[Stage.host]?["httpVersion"] = httpVersion
        if let identity = try certificate.identity() {
            settings.files["pins/agent.pem"] = identity.chainPEM
            settings.files["pins/agent.key"] = identity.privateKeyPEM
            settings.pinnedDomains[Stage.host]?["clientCertificate"] = [
                "certificate": "agent.pem", "key": "agent.key",
            ]
        }
        let proxy = try ProxyUnderTest(settings)
        let response = try proxy.get("http://\(Stage.host)/", fields: fields)
        return (response, try #require(try proxy.waitForTaskLines(1).first))
    }

    @Test(
        "the refusal has code, alert, certificate and remedy, without a repetition",
        arguments: ["-tls1_2", "-tls1_3"],
        Certificate.allCases
    )
    func refusal(version: String, certificate: Certificate) throws {
        let (response, line) = try ask(certificate, arguments: [version])
        guard certificate != .right else {
            #expect(response.status == 200, "\(response.text)")
            return
        }
        #expect(response.status == 502 && response.problemCode == "client_certificate_refused", "\(response.text)")
        #expect(response["Proxy-Status"]?.contains("tls_protocol_error") == true, "\(response["Proxy-Status"] ?? "")")
        #expect(line.string("error") == "client_certificate_refused" && line.transactions.count == 1, "\(line.text)")
        let details = line.string("errorDetails") ?? ""
        // TLS 1.2 has no alert of its own for a certificate that is missing (RFC 5246, section 7.2.2).
        let alert =
            switch certificate {
            case .missing: version == "-tls1_3" ? "certificate_required" : "handshake_failure"
            case .expired: "certificate_expired"
            case .right, .unknown: "unknown_ca"
            }
        #expect(details.contains(alert), "\(details)")
        #expect(details.contains("was not processed"), "\(details)")
        if certificate == .missing {
            #expect(details.contains("no certificate was sent") && details.contains("clientCertificate"), "\(details)")
        } else {
            #expect(details.contains("CN = \(certificate) agent") && details.contains("agent.pem"), "\(details)")
        }
        // The server has proved its key where the handshake was over, and only there.
        let verdict = line.object("pinning")?["verdict"] as? String
        #expect(verdict == (version == "-tls1_3" ? "pass" : nil), "\(line.text)")
    }

    @Test(
        "the refusal is the same over HTTP/2, and for an Upgrade",
        arguments: [Certificate.missing, .expired]
    )
    func otherWays(certificate: Certificate) throws {
        let ways: [(arguments: [String], httpVersion: String, fields: [String])] = [
            (["-alpn", "h2"], "2", []), ([], "1.1", ["Connection: upgrade", "Upgrade: websocket"]),
        ]
        for way in ways {
            let (response, line) = try ask(
                certificate,
                arguments: ["-tls1_3"] + way.arguments,
                httpVersion: way.httpVersion,
                fields: way.fields
            )
            #expect(response.status == 502 && response.problemCode == "client_certificate_refused", "\(response.text)")
            #expect(line.transactions.count == 1, "\(line.text)")
        }
    }
}
