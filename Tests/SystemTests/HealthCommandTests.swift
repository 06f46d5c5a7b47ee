import TestSupport
import Testing

@Suite("Command line: health")
struct HealthCommandTests {
    @Test(
        "what cannot be asked for is wrong usage",
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
        "a configuration that does not tell where to ask is a wrong one",
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

    @Test("a configuration that is not there ends with 66")
    func missing() throws {
        #expect(try pinproxy("health", "--config", "/nonexistent/config.json").exitCode == 66)
    }

    @Test("a server that says nothing is given up in time")
    func silence() throws {
        let silent = try ScriptedOrigin(nil) { connection in connection.readToEnd() }
        let finished = try pinproxy("health", "--admin", "127.0.0.1:\(silent.port)", "--timeout", "200ms")
        #expect(finished.exitCode == 69)
        #expect(finished.output.isEmpty && finished.errors.contains("nothing answers"))
    }

    @Test("an answer that is none of an admin listener's is not ready")
    func otherServer() throws {
        let origin = try ScriptedOrigin(nil) { connection in
            _ = try connection.readRequest()
            try connection.write("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        let finished = try pinproxy("health", "--admin", "127.0.0.1:\(origin.port)")
        #expect(finished.exitCode == 1)
        #expect(finished.errors == "pinproxy: not ready: HTTP/1.1 404 Not Found\n")
    }
}
