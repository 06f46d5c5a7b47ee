// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Redirects of pinned hosts", .onOwnThreads)
struct RedirectTests {
    private static let second = "second.example.com"

    /// A pinned host that leads elsewhere, and the place to which it leads.
    private func stage(
        leadingTo location: String,
        _ change: (inout ProxySettings) -> Void
    ) throws -> Stage {
        try Stage(change) { request in
            request.target == "/start"
                ? OriginResponse.text("", status: "302 Found", fields: ["Location: \(location)"])
                : OriginResponse.text("the end")
        }
    }

    private func follow(_ stage: Stage) throws -> Programs.Finished {
        try Programs.run(
            "curl",
            ["-sS", "-L", "-i", "-x", "http://127.0.0.1:\(stage.proxy.port)", stage.url("/start")]
        )
    }

    @Test("70 a redirect to another host is relayed, under that host's pins")
    func otherHost() throws {
        let server = try Stage.pki.server(Self.second)
        for isRight in [false, true] {
            let origin = try ScriptedOrigin(server) { connection in
                while try connection.readRequest() != nil { try connection.respond("from the second host") }
            }
            let stage = try stage(leadingTo: "https://\(Self.second)/next") {
                $0.resolve(Self.second, to: origin.port)
                $0.pin(Self.second, to: isRight ? server.pin : .unrelated(2))
            }
            let response = try stage.get("/start")
            // pinproxy goes nowhere by itself.
            #expect(response.status == 302 && response["Location"] == "http://\(Self.second)/next")
            #expect(origin.connections.isEmpty)
            let curl = try follow(stage)
            if isRight {
                #expect(curl.output.hasSuffix("from the second host"), "\(curl.output)\(curl.errors)")
            } else {
                #expect(curl.output.contains("\"error\":\"pin_mismatch\""), "\(curl.output)\(curl.errors)")
                #expect(try origin.waitForClosed().allSatisfy { $0.applicationBytes == 0 })
            }
        }
    }

    @Test("70 the first host's pin lets no other host in")
    func firstPinAlone() throws {
        // The second host shows the key that is pinned for the first, and a name that is not its own.
        let stage = try stage(leadingTo: "https://\(Self.second)/next") { settings in
            settings.hosts[Self.second] = settings.hosts[Stage.host]
            settings.pinnedDomains[Self.second] = settings.pinnedDomains[Stage.host]
        }
        let curl = try follow(stage)
        #expect(curl.output.contains("\"error\":\"certificate_host_mismatch\""), "\(curl.output)\(curl.errors)")
        let records = try stage.origin.wait(for: "a second connection") { $0.count > 1 && $0[1].isClosed ? $0 : nil }
        #expect(records[1].applicationBytes == 0)
    }

    @Test("71 a redirect to http on a pinned host keeps TLS")
    func plainOnPinned() throws {
        let plain = try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil { try connection.respond("in the clear") }
        }
        let server = try Stage.pki.server(Self.second)
        for isTLS in [false, true] {
            let secure = try ScriptedOrigin(server) { connection in
                while try connection.readRequest() != nil { try connection.respond("over TLS") }
            }
            let stage = try stage(leadingTo: "http://\(Self.second)/next") {
                $0.resolve(Self.second, to: isTLS ? secure.port : plain.port)
                $0.pin(Self.second, to: server.pin)
            }
            let response = try stage.get("/start")
            #expect(response.status == 302 && response["Location"] == "http://\(Self.second)/next")
            let curl = try follow(stage)
            if isTLS {
                #expect(curl.output.hasSuffix("over TLS"), "\(curl.output)\(curl.errors)")
            } else {
                #expect(curl.output.contains("\"error\":\"tls_handshake_failed\""), "\(curl.output)\(curl.errors)")
                #expect(try plain.waitForClosed().flatMap(\.requests).isEmpty)
            }
        }
    }

    @Test("71 a redirect to http on an unpinned host is relayed or denied")
    func plainOnUnpinned() throws {
        let plain = try ScriptedOrigin(nil) { connection in
            while try connection.readRequest() != nil { try connection.respond("in the clear") }
        }
        for isDenied in [true, false] {
            let stage = try stage(leadingTo: "http://\(Self.second)/next") {
                $0.resolve(Self.second, to: plain.port)
                $0.members["unpinnedHosts"] = isDenied ? "deny" : "allow"
            }
            #expect(try stage.get("/start").status == 302)
            let count = plain.connections.count
            let curl = try follow(stage)
            if isDenied {
                #expect(curl.output.contains("\"error\":\"unpinned_denied\""), "\(curl.output)\(curl.errors)")
                #expect(plain.connections.count == count)
            } else {
                #expect(curl.output.hasSuffix("in the clear"), "\(curl.output)\(curl.errors)")
            }
        }
    }
}
