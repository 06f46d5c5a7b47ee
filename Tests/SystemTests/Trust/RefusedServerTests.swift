// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// The most important line of the log: it has to say which machine showed which key.
@Suite("The log line of a refused server", .onOwnThreads)
struct RefusedServerTests {
    private static let server = try! Stage.pki.server(Stage.host)

    private func origin(protocols: [String] = []) throws -> ScriptedOrigin {
        try ScriptedOrigin(Self.server, protocols: protocols) { connection in connection.readToEnd() }
    }

    private func settings(_ origin: ScriptedOrigin, pin: PublicKeyPin = .unrelated(9)) -> ProxySettings {
        var settings = ProxySettings(trusting: Stage.pki)
        settings.resolve(Stage.host, to: origin.port)
        settings.pin(Stage.host, to: pin)
        return settings
    }

    /// The one transaction says where the server was, and how far the connection came.
    private func check(_ line: LogLine?, at address: String, _ what: String) throws {
        let line = try #require(line, "\(what)")
        #expect(line.string("error") == "pin_mismatch", "\(what): \(line.text)")
        #expect(line.object("pinning")?["verdict"] as? String == "fail", "\(what): \(line.text)")
        let transaction = try #require(line.transactions.first, "\(what): \(line.text)")
        #expect(transaction["remoteAddress"] as? String == address, "\(what): \(line.text)")
        #expect(transaction["tlsVersion"] as? String == "TLSv1.3", "\(what): \(line.text)")
        #expect((transaction["cipher"] as? String)?.hasPrefix("TLS_") == true, "\(what): \(line.text)")
        #expect((transaction["offeredPins"] as? [String])?.first == "\(Self.server.pin)", "\(what): \(line.text)")
        let times = [
            "fetchStart", "domainLookupStart", "domainLookupEnd", "connectStart", "secureConnectionStart",
            "secureConnectionEnd", "connectEnd",
        ].map { (transaction[$0] as? NSNumber)?.doubleValue ?? -1 }
        #expect(times == times.sorted() && times.allSatisfy { $0 >= 0 }, "\(what): \(line.text)")
        #expect(transaction["requestStart"] == nil && transaction["reusedConnection"] as? Bool == false, "\(what)")
    }

    @Test("the line is complete over all ways in, and for upgrades")
    func waysIn() throws {
        for version in ["1.1", "2"] {
            let folder = try TemporaryFolder()
            let origin = try origin(protocols: version == "2" ? ["h2"] : [])
            var settings = settings(origin)
            settings.hosts[Stage.host]?["httpVersion"] = version
            WayIn.addListeners(to: &settings, host: Stage.host, folder: folder)
            let proxy = try ProxyUnderTest(settings)
            var count = 0
            for way in WayIn.allCases {
                #expect(try way.get("/", of: Stage.host, through: proxy).problemCode == "pin_mismatch")
                count += 1
                let line = try proxy.waitForTaskLines(count).last
                try check(line, at: "127.0.0.1:\(origin.port)", "\(way), HTTP/\(version)")
            }
            guard version == "1.1" else { continue }
            let response = try proxy.get(
                "http://\(Stage.host)/",
                fields: ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
            )
            #expect(response.problemCode == "pin_mismatch")
            let line = try proxy.waitForTaskLines(count + 1).last
            try check(line, at: "127.0.0.1:\(origin.port)", "upgrade")
        }
    }

    @Test("the line is complete for CONNECT, and through another proxy")
    func connectAndProxy() throws {
        let folder = try TemporaryFolder()
        let made = try Programs.run(try Programs.built("pinproxy"), ["ca", "init", "--dir", folder.path, Stage.host])
        try #require(made.exitCode == 0, "\(made.errors)")
        let origin = try origin()
        var settings = settings(origin)
        settings.members["interception"] = [
            "certificate": "\(folder.path)/pinproxy-ca.pem", "key": "\(folder.path)/pinproxy-ca.key",
        ]
        settings.hosts[Stage.host]?["connect"] = "intercept"
        let proxy = try ProxyUnderTest(settings)
        let response = try proxy.exchange("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\n\r\n")
        #expect(response.problemCode == "pin_mismatch")
        try check(try proxy.waitForTaskLines(1).first, at: "127.0.0.1:\(origin.port)", "CONNECT")

        for isSOCKS in [false, true] {
            let upstream = try TunnelProxy(to: origin.port, isSOCKS: isSOCKS)
            var behind = ProxySettings(trusting: Stage.pki)
            behind.pin(Stage.host, to: .unrelated(9))
            behind.members["upstreamProxy"] = "\(isSOCKS ? "socks5h" : "http")://127.0.0.1:\(upstream.port)"
            let second = try ProxyUnderTest(behind)
            #expect(try second.get("http://\(Stage.host)/").problemCode == "pin_mismatch")
            // The address that was dialled is the other proxy's.
            try check(try second.waitForTaskLines(1).first, at: "127.0.0.1:\(upstream.port)", "behind a proxy")
        }
    }
}
