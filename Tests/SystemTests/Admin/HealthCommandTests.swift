// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

@Suite("Command line: health", .onOwnThreads)
struct HealthCommandTests {
    @Test(
        "a listener that cannot be asked is wrong usage",
        arguments: [
            (["--admin", "localhost:8081"], "takes an address"), (["--admin", "127.0.0.1"], "takes an address"),
            (["--admin", "127.0.0.1:0"], "takes an address"),
            (["--admin", "127.0.0.1:1", "--config", "a"], "say the same"), (["--timeout", "soon"], "takes a time"),
            (["more"], "one argument too many"),
        ]
    )
    func usage(words: [String], message: String) throws {
        let finished = try pinproxy(["health"] + words)
        #expect(finished.exitCode == 64)
        #expect(finished.errors.contains(message), "\(finished.errors)")
    }

    @Test(
        "a configuration without an admin listener is wrong",
        arguments: [
            (#"{ "version": 1 }"#, "has no admin listener"),
            (#"{ "version": 1, "admin": { "address": "127.0.0.1:0" } }"#, "chosen at the start"),
            (#"{ "version": 1, "admin": { "address": "127.0.0.1" } }"#, "/admin/address"),
            (#"{ "version": 1"#, "does not tell"),
        ]
    )
    func configuration(text: String, message: String) throws {
        let folder = try TemporaryFolder()
        let finished = try pinproxy("health", "--config", try folder.write(text, as: "config.json"))
        #expect(finished.exitCode == 78)
        #expect(finished.errors.contains(message), "\(finished.errors)")
    }

    @Test("a missing configuration ends with 66")
    func missing() throws {
        #expect(try pinproxy("health", "--config", "/nonexistent/config.json").exitCode == 66)
    }

    /// One answer to each connection, and the words of the command about it.
    private func health(_ response: String) throws -> Programs.Finished {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            try connection.write(response)
        }
        return try pinproxy("health", "--admin", "127.0.0.1:\(origin.port)", "--timeout", "10s")
    }

    private static let end = "Content-Length: 6\r\nConnection: close\r\n\r\nready\n"

    @Test("another server is never taken for a healthy pinproxy")
    func otherServer() throws {
        for response in [
            "HTTP/1.1 200 OK\r\n\(Self.end)", "HTTP/1.1 404 Not Found\r\n\(Self.end)",
            "HTTP/1.1 200 OK\r\nServer: nginx\r\n\(Self.end)", "220 mail.example.com ESMTP\r\n",
        ] {
            let finished = try health(response)
            #expect(finished.exitCode == 69, "\(response)")
            #expect(finished.output.isEmpty)
            #expect(finished.errors.contains("is not the admin listener of a pinproxy"), "\(finished.errors)")
            #expect(finished.errors.contains("--admin"))
        }
        // The same with the one thing that an admin listener says.
        let finished = try health("HTTP/1.1 200 OK\r\nPinproxy-Admin: 0.1.0\r\n\(Self.end)")
        #expect(finished.exitCode == 0 && finished.output == "ready\n", "\(finished.errors)")
    }

    @Test("ports that speak TLS, hang up or stay silent have different messages")
    func noResponse() throws {
        let own = try Stage.pki.server("localhost")
        let stage = try Stage({ settings in
            settings.files["own.pem"] = own.chainPEM
            settings.files["own.key"] = own.privateKeyPEM
            settings.listeners[0]["tls"] = ["certificate": "own.pem", "key": "own.key"]
        }) { _ in OriginResponse.text("") }
        let tls = try pinproxy("health", "--admin", "127.0.0.1:\(stage.proxy.port)", "--timeout", "10s")
        #expect(tls.exitCode == 69)
        #expect(tls.errors.contains("TLS"), "\(tls.errors)")
        let empty = try health("")
        #expect(empty.exitCode == 69)
        #expect(empty.errors.contains("closed the connection without a response"), "\(empty.errors)")
        let silent = try ScriptedOrigin(nil) { connection in connection.readToEnd() }
        let mute = try pinproxy("health", "--admin", "127.0.0.1:\(silent.port)", "--timeout", "200ms")
        #expect(mute.exitCode == 69)
        #expect(mute.errors.contains("no response") && mute.errors.contains("200ms"), "\(mute.errors)")
    }

    @Test("a client listener is recognised, and a refusal has its own words")
    func otherListener() throws {
        let stage = try Stage({ $0.members["admin"] = ["address": "127.0.0.1:0"] }) { OriginResponse.text($0.target) }
        let clients = try pinproxy("health", "--admin", "127.0.0.1:\(stage.proxy.port)")
        #expect(clients.exitCode == 69)
        #expect(clients.errors.contains("a listener of pinproxy for clients"), "\(clients.errors)")
        let admin = try pinproxy("health", "--admin", "127.0.0.1:\(stage.proxy.port(of: 1))")
        #expect(admin.exitCode == 0 && admin.output == "ready\n", "\(admin.errors)")
        // Every answer of an admin listener bears the field, refusals too.
        let refusal = try stage.proxy.exchange("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        #expect(refusal.status == 404 && refusal["Pinproxy-Admin"] != nil)
        let misdirected = try stage.proxy.exchange("GET /ready HTTP/1.1\r\nHost: evil.test\r\n\r\n", on: 1)
        #expect(misdirected.status == 421 && misdirected["Pinproxy-Admin"] != nil)
    }

    @Test("the commands of the cache do not take another server for pinproxy either")
    func cache() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            try connection.respond(#"{"removed":3}"#, fields: ["Connection: close"])
        }
        let finished = try pinproxy("cache", "purge", "--all", "--admin", "127.0.0.1:\(origin.port)")
        #expect(finished.exitCode == 69 && finished.output.isEmpty)
        #expect(finished.errors.contains("is not the admin listener of a pinproxy"), "\(finished.errors)")
    }
}
