// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// A resumed TLS session shows no certificate: none may be resumed, least of all under a policy that is stricter than
/// the one that let its first handshake pass (Envoy CVE-2022-21654, Go CVE-2025-68121).
@Suite("Reload: TLS sessions", .onOwnThreads)
struct ReloadResumptionTests {
    /// How a server lets sessions be resumed.
    enum Resumption: CaseIterable {
        case ticketsOfTLS12
        case sessionIdentifiersOfTLS12
        case ticketsOfTLS13

        var isTLS13: Bool { self == .ticketsOfTLS13 }

        var nginx: [String] {
            switch self {
            case .ticketsOfTLS12: ["ssl_protocols TLSv1.2", "ssl_session_tickets on", "ssl_session_cache none"]
            case .sessionIdentifiersOfTLS12:
                ["ssl_protocols TLSv1.2", "ssl_session_tickets off", "ssl_session_cache shared:sessions:1m"]
            case .ticketsOfTLS13: ["ssl_protocols TLSv1.3", "ssl_session_tickets on", "ssl_session_cache none"]
            }
        }

        var openSSL: [String] {
            switch self {
            case .ticketsOfTLS12: ["-tls1_2", "-no_cache"]
            case .sessionIdentifiersOfTLS12: ["-tls1_2", "-no_ticket"]
            case .ticketsOfTLS13: ["-tls1_3"]
            }
        }
    }

    /// The mended twin: a client that does resume is resumed by that server.
    private func isResumable(_ port: UInt16, _ path: String) throws -> Bool {
        let folder = try TemporaryFolder()
        try folder.write("GET \(path) HTTP/1.0\r\nHost: \(Stage.host)\r\n\r\n", as: "request")
        // The request is in a file, and the client stays until the server ends: the ticket of TLS 1.3 comes late.
        func connect(_ option: String) throws -> String {
            let client = "openssl s_client -connect 127.0.0.1:\(port) -ign_eof \(option) session < request"
            return try Programs.run("sh", ["-c", client], folder: folder.path).output
        }
        #expect(try connect("-sess_out").contains("New, "))
        return try connect("-sess_in").contains("Reused, ")
    }

    @Test("66 and 67 nginx would resume, and is not asked to", arguments: Resumption.allCases)
    func nginx(resumption: Resumption) throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try NginxOrigin(server, directives: resumption.nginx + ["keepalive_timeout 0"])
        #expect(try isResumable(origin.port, "/session"))
        try check(server, origin.port, resumption, path: "/session") { $0.contains(" . ") }
    }

    @Test("66 and 67 openssl s_server would resume, and is not asked to", arguments: Resumption.allCases)
    func openSSL(resumption: Resumption) throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try OpenSSLServer(server, mode: .status, arguments: resumption.openSSL)
        #expect(try isResumable(origin.port, "/"))
        try check(server, origin.port, resumption, path: "/") { $0.contains("New, ") && !$0.contains("Reused, ") }
    }

    private func check(
        _ server: TestServer,
        _ port: UInt16,
        _ resumption: Resumption,
        path: String,
        isNew: (String) -> Bool
    ) throws {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: port)
        settings.members["workers"] = 1
        let proxy = try ProxyUnderTest(settings)
        let url = "http://\(Stage.host)\(path)"
        for _ in 0..<3 {
            let response = try proxy.get(url)
            #expect(response.status == 200)
            #expect(response.text.contains(resumption.isTLS13 ? "TLSv1.3" : "TLSv1.2"))
            #expect(isNew(response.text), "\(response.text)")
        }
        var tightened = settings
        tightened.pin(Stage.host, to: .unrelated(2))
        try proxy.reload(tightened)
        #expect(try proxy.get(url).problemCode == "pin_mismatch")
        try proxy.reload(settings)
        let response = try proxy.get(url)
        #expect(response.status == 200)
        #expect(isNew(response.text), "\(response.text)")
    }
}
