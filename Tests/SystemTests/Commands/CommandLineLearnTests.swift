// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import ServerTrust
import TestSupport
import Testing

@Suite("Command line: pins learn", .onOwnThreads)
struct CommandLineLearnTests {
    private let folder: TemporaryFolder
    private let pki: TestPKI
    private let log: String

    init() throws {
        folder = try TemporaryFolder()
        pki = try TestPKI()
        log = "\(folder.path)/tasks.log"
    }

    private func learn(
        _ settings: ProxySettings? = nil,
        _ words: String...,
        input: String? = nil
    ) throws -> Programs.Finished {
        var settings = settings ?? ProxySettings(trusting: pki)
        settings.members["log"] = ["tasks": log]
        let path = try settings.write(to: folder)
        let arguments = ["pins", "learn", "--config", path] + words
        guard let input else { return try pinproxy(arguments) }
        let file = try folder.write(input, as: "input")
        let binary = try Programs.built("pinproxy")
        return try Programs.run("/bin/sh", ["-c", "exec \"$@\" < \"$0\"", file, binary] + arguments)
    }

    /// A line as the task log has it.
    private func line(
        _ url: String = "https://api.test/v1",
        time: String = "2026-11-21T06:00:00.123Z",
        verdict: String? = "notPinned",
        error: String? = nil,
        pins: [PublicKeyPin]? = nil
    ) -> String {
        let pinning = verdict.map { ",\"pinning\":{\"mode\":\"none\",\"verdict\":\"\($0)\"}" } ?? ""
        let failure = error.map { ",\"error\":\"\($0)\",\"errorDetails\":\"words\"" } ?? ""
        let offered =
            pins.map { ",\"offeredPins\":[" + $0.map { "\"\($0)\"" }.joined(separator: ",") + "]" } ?? ""
        return """
            {"time":"\(time)","event":"task","taskIdentifier":1,"client":"127.0.0.1:5","method":"GET","url":"\(url)",\
            "status":200\(failure)\(pinning),"transactions":[{"url":"\(url)","fetchStart":0,\
            "reusedConnection":\(pins == nil)\(offered)}]}

            """
    }

    private func domains(_ text: String) throws -> [PinnedDomains.Domain] {
        try PinFile.load(text: text, file: "\(folder.path)/learned.json", at: 1_800_000_000).domains.domains
    }

    @Test("traffic to an unpinned host becomes a pin file that its server passes")
    func realTraffic() throws {
        let server = try pki.server("open.test", "pinned.test")
        let origin = try ScriptedOrigin(server) { connection in
            while let request = try connection.readRequest() {
                try connection.write(OriginResponse.text(request.target))
            }
        }
        var settings = ProxySettings(trusting: pki)
        settings.members["workers"] = 1
        settings.members["log"] = ["tasks": log]
        settings.resolve("open.test", to: origin.port)
        settings.serve("pinned.test", server, at: origin.port)
        let proxy = try ProxyUnderTest(settings)
        for _ in 0..<3 { #expect(try proxy.get("https://open.test/").status == 200) }
        #expect(try proxy.get("http://pinned.test/").status == 200)
        try proxy.terminate()

        let learned = try learn(settings)
        #expect(learned.exitCode == 0, "\(learned.errors)")
        let found = try domains(learned.output)
        #expect(found.map(\.host.description) == ["open.test"])
        #expect(found.first?.ports == nil)
        let policy = try #require(found.first?.policy)
        #expect(policy.configuration.pins.map(\.key) == [server.pin, server.chain[1].publicKeyPin])
        #expect(policy.configuration.pins.map(\.isBackup) == [false, true])
        #expect(policy.configuration.pins.map(\.scope) == [.leaf, .ca])
        let anchors = TrustAnchors(certificates: [pki.root.certificate])
        let host = try #require(found.first?.host)
        #expect(policy.evaluate(chain: server.chain, host: host, anchors: anchors).verdict == .pass)
        // Three requests, one connection: that is what is said.
        #expect(learned.errors.contains("read 4 lines: 4 requests, 1 of them to pinned hosts"))
        #expect(learned.errors.contains("open.test on port 443: 3 requests"))
        #expect(learned.errors.contains("\(server.pin)  the server's own, 1 connection, on "))
        #expect(learned.errors.contains("Nothing is pinned by this."))
        #expect(!learned.errors.contains("\u{1b}"))
        // The folder of pin files is as it was.
        #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/pins") == ["test.json"])
    }

    @Test("keys of refused, unverified or pinned connections are not proposed")
    func untrusted() throws {
        let (good, bad) = (PublicKeyPin.unrelated(2), PublicKeyPin.unrelated(3))
        let text =
            line(pins: [good])
            + line(verdict: "fail", error: "certificate_untrusted", pins: [bad])
            + line(verdict: "unverified", pins: [bad]) + line(verdict: "reportOnly", pins: [bad])
            + line(verdict: "expired", pins: [bad]) + line(verdict: "pass", pins: [bad])
            + line(verdict: nil, error: "connect_failed")
            + line("https://other.test/", verdict: "fail", error: "certificate_expired", pins: [bad])
            + line("http://plain.test/", verdict: nil)
        let learned = try learn(nil, "-", input: text)
        #expect(learned.exitCode == 0, "\(learned.errors)")
        #expect(!learned.output.contains(bad.base64))
        let found = try domains(learned.output)
        #expect(found.map(\.host.description) == ["api.test"])
        // One key, and no authority: the file says that this is meant.
        #expect(found.first?.policy?.configuration.pins.map(\.key) == [good])
        #expect(found.first?.policy?.configuration.allowSinglePin == true)
        #expect(learned.errors.contains("1 request refused or failed: certificate_untrusted"))
        #expect(learned.errors.contains("not proposed: no new connection in the log"))
        #expect(learned.errors.contains("asked without TLS, so that there was no key to see: plain.test"))
    }

    @Test("undocumented lines of a log are counted, reported and ignored")
    func hostile() throws {
        let (good, bad) = (PublicKeyPin.unrelated(2), PublicKeyPin.unrelated(3))
        let long = "{\"event\":\"task\",\"x\":\"" + String(repeating: "a", count: 1 << 20) + "\"}\n"
        let foreign = [
            line("https://api.test@evil.test/", pins: [bad]), line("https://evil.test:99999/", pins: [bad]),
            line("https://2130706433/", pins: [bad]), line("ftp://evil.test/", pins: [bad]),
            line("https:///", pins: [bad]), line("https://evil..test/", pins: [bad]),
            line("https://evil.test/", time: "yesterday", pins: [bad]),
            line("https://evil.test/", verdict: "passed", pins: [bad]),
            line("https://evil.test/", error: "\\u001b[31m", pins: [bad]),
            line("https://evil.test/", pins: []), line("https://evil.test/", pins: Array(repeating: bad, count: 33)),
            line("https://evil.test/", pins: [bad]).replacingOccurrences(of: "\"sha256/", with: "\""),
            line("https://evil.test/", pins: [bad]).replacingOccurrences(of: bad.base64, with: "AAAA"),
            "[1,2]\n", "{\"a\":1}\n",
        ]
        let notJSON = [
            "gibberish\n", "\n", "{\"event\":\"task\"\n", "\u{1b}[31m\n",
            // A second verdict, for a reader that takes the last.
            line("https://evil.test/", verdict: "fail", pins: [bad])
                .replacingOccurrences(
                    of: "\"transactions\"",
                    with: "\"pinning\":{\"verdict\":\"notPinned\"},\"transactions\""
                ),
        ]
        let text =
            foreign.joined() + notJSON.joined() + long
            + line("https://API.Test.:443/x?y=https://evil.test/", pins: [good])
            + "{\"event\":\"listening\",\"address\":\"127.0.0.1:1\"}\n"
            // Not whole: it may be under way.
            + line("https://evil.test/", pins: [bad]).dropLast()
        let learned = try learn(nil, "-", input: text)
        #expect(learned.exitCode == 0, "\(learned.errors)")
        #expect(try domains(learned.output).map(\.host.description) == ["api.test"])
        #expect(!learned.output.contains(bad.base64) && !learned.output.contains("evil"))
        #expect(learned.errors.contains("\(foreign.count) of the lines are no lines of a task log: left out"))
        #expect(learned.errors.contains("\(notJSON.count) of the lines are not JSON: left out"))
        #expect(learned.errors.contains("1 of the lines are longer than 1 MB: left out"))
        #expect(!learned.errors.contains("\u{1b}"))
    }

    @Test("of many rotated keys the latest are proposed; JSON has all")
    func manyKeys() throws {
        var text = ""
        for number in 1...12 {
            let time = "2026-11-\(number + 10)T00:00:00.000Z"
            text += line(time: time, pins: [.unrelated(UInt8(number)), .unrelated(100)])
        }
        text += line(
            "https://api.test:8443/",
            time: "2026-11-30T00:00:00.000Z",
            pins: [.unrelated(12), .unrelated(100)]
        )
        let learned = try learn(nil, "-", input: text)
        let domain = try #require(try domains(learned.output).first)
        #expect(domain.ports == [443, 8443])
        let keys = domain.policy?.configuration.pins.map(\.key) ?? []
        #expect(keys == (5...12).reversed().map { .unrelated(UInt8($0)) } + [.unrelated(100)])
        #expect(learned.output.contains("the server's key, 2 connections, 2026-11-22 to 2026-11-30"))
        #expect(learned.errors.contains("it shows many keys: 4 not proposed"))

        let json = try learn(nil, "-", "--json", input: text)
        #expect(json.exitCode == 0)
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(json.output.utf8)) as? [String: Any]
        )
        #expect(object["host"] as? String == "api.test")
        #expect(object["ports"] as? [Int] == [443, 8443])
        #expect(object["requests"] as? Int == 13)
        #expect(object["connections"] as? Int == 13)
        #expect(object["firstSeen"] as? String == "2026-11-11T00:00:00.000Z")
        let evidence = try #require(object["keys"] as? [[String: Any]])
        #expect(evidence.count == 13)
        #expect(evidence.filter { $0["proposed"] as? Bool == true }.count == 9)
        #expect(evidence.last?["of"] as? String == "authority")
        #expect(evidence.last?["connections"] as? Int == 13)
    }

    @Test("a server of a public CA is proposed with that CA's root set")
    func publicAuthority() throws {
        // ISRG Root X1, as pinproxy pins authorities letsencrypt prints it.
        let root = try PublicKeyPin("C5+lpZ7tcVwmwQIMcRtPbsQtWLABXhQzejna0wHFr8M=")
        let learned = try learn(nil, "-", input: line(pins: [.unrelated(1), .unrelated(2), root]))
        #expect(learned.exitCode == 0, "\(learned.errors)")
        #expect(
            learned.output.contains("\"authorities\": [\"letsencrypt\"]") && !learned.output.contains("allowSinglePin")
        )
        #expect(learned.errors.contains("its authority is Let's Encrypt"))
        let pins = try domains(learned.output).first?.policy?.configuration.pins ?? []
        #expect(pins.first == Pin(.unrelated(1), scope: .leaf, comment: pins.first?.comment ?? ""))
        #expect(pins.contains { $0.key == root && $0.scope == .ca } && !pins.contains { $0.key == .unrelated(2) })
        let json = try learn(nil, "-", "--json", input: line(pins: [.unrelated(1), .unrelated(2), root]))
        #expect(json.output.contains("\"authorities\":[\"letsencrypt\"]"), "\(json.output)")
    }

    @Test("hosts in pin files are left out, with exclusions and subdomains")
    func pinnedHosts() throws {
        var settings = ProxySettings(trusting: pki)
        settings.pin("api.test", to: .unrelated(5), with: ["includeSubdomains": true, "ports": [443]])
        settings.pinnedDomains["free.api.test"] = ["excludeFromParentPolicy": true]
        let pins: [PublicKeyPin] = [.unrelated(2)]
        let text =
            line("https://api.test/", pins: pins) + line("https://www.api.test/", pins: pins)
            + line("https://api.test:8443/", pins: pins) + line("https://free.api.test/", pins: pins)
        let learned = try learn(settings, "-", input: text)
        #expect(learned.exitCode == 1)
        #expect(learned.output.isEmpty)
        #expect(learned.errors.contains("there is nothing to propose"))
    }

    @Test("missing, absent and compressed logs end with 66, 64 and 1")
    func badLogs() throws {
        #expect(try learn().exitCode == 66)
        let folder = try TemporaryFolder()
        let config = try ProxySettings(trusting: pki).write(to: folder)
        let finished = try pinproxy("pins", "learn", "--config", config)
        #expect(finished.exitCode == 64)
        #expect(finished.errors.contains("log.tasks of the configuration names no file"))
        let packed = try folder.write(bytes: [0x1f, 0x8b, 8, 0], as: "tasks.log.gz")
        let compressed = try pinproxy("pins", "learn", "--config", config, packed)
        #expect(compressed.exitCode == 1)
        #expect(compressed.errors.contains("zcat"))
    }
}
