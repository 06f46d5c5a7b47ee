// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

@Suite("First errors of a new user", .onOwnThreads)
struct FirstMinuteTests {
    @Test("a refused CONNECT names its cause in the reason phrase")
    func reasonPhrase() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send("CONNECT \(Stage.host):443 HTTP/1.1\r\nHost: \(Stage.host):443\r\nConnection: close\r\n\r\n")
        let response = String(decoding: try client.readToEnd(), as: UTF8.self)
        #expect(response.hasPrefix("HTTP/1.1 403 Forbidden (connect_denied: CONNECT is not allowed)\r\n"))
    }

    @Test("a TLS hello on a plain listener gets the remedy")
    func unexpectedTLS() throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03])
        let response = String(decoding: try client.readToEnd(), as: UTF8.self)
        #expect(response.contains("The client speaks TLS to this listener, which has none."))
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("error") == "request_invalid")
        #expect(line.string("errorDetails")?.contains("http://ADDRESS:PORT") == true)
        // Another byte that begins no method is not taken for TLS.
        let other = try stage.proxy.connect()
        try other.send([0x16, 0x04, 0x01])
        #expect(String(decoding: try other.readToEnd(), as: UTF8.self).contains("The method is no token"))
    }

    @Test(
        "a SOCKS client learns what pinproxy is",
        arguments: [[5, 1, 0], [5, 2, 0, 2], [4, 1, 0, 80]]
    )
    func unexpectedSOCKS(hello: [UInt8]) throws {
        let stage = try Stage { OriginResponse.text($0.target) }
        let client = try stage.proxy.connect()
        try client.send(hello)
        #expect(String(decoding: try client.readToEnd(), as: UTF8.self).contains("The client speaks SOCKS"))
        let line = try #require(try stage.proxy.waitForTaskLines(1).first)
        #expect(line.string("errorDetails")?.contains("http://ADDRESS:PORT") == true)
    }

    @Test("a browser gets a page, and a program the problem document")
    func page() throws {
        let stage = try Stage({ $0.members["access"] = ["denyHosts": ["denied.test"]] }) {
            OriginResponse.text($0.target)
        }
        let url = "http://denied.test/"
        let page = try stage.proxy.get(url, fields: ["Accept: text/html,*/*;q=0.8"])
        #expect(page.status == 403)
        #expect(page["Content-Type"] == "text/html; charset=utf-8")
        #expect(page.text.hasPrefix("<!DOCTYPE html>") && page.text.contains("denied.test"))
        let document = try stage.proxy.get(url, fields: ["Accept: */*"])
        #expect(document["Content-Type"] == "application/problem+json")
        #expect(document.problemCode == "host_denied")
    }

    private func exec(_ log: String, inTerminal: Bool, _ environment: [String: String] = [:]) throws
        -> Programs.Finished
    {
        let folder = try TemporaryFolder()
        let path = try folder.write(
            #"{ "version": 1, "access": { "denyHosts": ["denied.test"] }, "log": { \#(log) } }"#,
            as: "config.json"
        )
        let words = ["exec", "--config", path, "--", "curl", "-s", "-o", "/dev/null", "http://denied.test/"]
        let environment = Programs.environment.merging(["TERM": "xterm", "NO_COLOR": ""].merging(environment) { $1 }) {
            $1
        }
        guard inTerminal else {
            return try Programs.run(try Programs.built("pinproxy"), words, environment: environment)
        }
        let command = (["'\(try Programs.built("pinproxy"))'"] + words).joined(separator: " ")
        return try Programs.run(
            try Programs.path(of: "script"),
            ["-qec", command, "/dev/null"],
            environment: environment
        )
    }

    @Test("the task log is text with colours on a terminal, and JSON elsewhere")
    func automaticFormat() throws {
        let shown = try exec("", inTerminal: true)
        #expect(shown.exitCode == 0, "\(shown.output)")
        #expect(shown.output.contains("\u{1b}[31mrefused   \u{1b}[0m"), "\(shown.output)")
        #expect(shown.output.contains("GET http://denied.test/"))
        #expect(!shown.output.contains("{"))
        let plain = try exec("", inTerminal: true, ["NO_COLOR": "1"])
        #expect(plain.output.contains("refused    ") && !plain.output.contains("\u{1b}"))
        let piped = try exec("", inTerminal: false)
        #expect(piped.errors.contains("\n{\"time\":") && piped.errors.contains(#""event":"task""#), "\(piped.errors)")
    }

    @Test("log.format decides, whatever stderr is")
    func chosenFormat() throws {
        #expect(try exec(#""format": "json""#, inTerminal: true).output.contains(#""event":"task""#))
        let text = try exec(#""format": "text""#, inTerminal: false)
        #expect(text.errors.contains("\nrefused    ") && text.errors.contains("host_denied"), "\(text.errors)")
        let wrong = try exec(#""format": "xml""#, inTerminal: false)
        #expect(wrong.exitCode == 78 && wrong.errors.contains("/log/format"))
    }

    @Test("run writes its events in the same format")
    func events() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(
            #"{ "version": 1, "listeners": [{ "address": "127.0.0.1:0" }], "admin": { "unixSocket": "admin" } }"#,
            as: "config.json"
        )
        let program = "'\(try Programs.built("pinproxy"))'"
        let command = """
            \(program) run --config \(path) & process=$!
            until \(program) health --admin \(folder.path)/admin >/dev/null 2>&1; do sleep 0.05; done
            kill $process; wait $process
            """
        let shown = try Programs.run(
            try Programs.path(of: "script"),
            ["-qec", command, "/dev/null"],
            environment: Programs.environment.merging(["TERM": "xterm", "NO_COLOR": "1"]) { $1 }
        )
        #expect(shown.output.contains("listening  forward 127.0.0.1:"), "\(shown.output)")
        #expect(shown.output.contains("stopping   signal=SIGTERM"))
        #expect(!shown.output.contains("{"))
    }
}
