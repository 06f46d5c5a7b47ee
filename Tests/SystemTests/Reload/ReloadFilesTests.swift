// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport
import Testing

@Suite("Reload: files", .onOwnThreads)
struct ReloadFilesTests {
    private func stage(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage(change, responding: { OriginResponse.text($0.target) })
    }

    private func reloads(_ proxy: ProxyUnderTest, _ trigger: String = "files") -> Int {
        proxy.events("reloaded").filter { $0.string("trigger") == trigger }.count
    }

    /// Waits for a reload that the files have brought about, after what was there before.
    private func waitForReload(_ proxy: ProxyUnderTest, after count: Int) throws {
        try Patience.poll(for: "the reload") { reloads(proxy) > count ? true : nil }
    }

    @Test("a changed pin file is loaded without a signal")
    func watched() throws {
        let stage = try stage()
        #expect(try stage.get("/1").status == 200)
        var settings = stage.settings
        settings.pin(Stage.host, to: .unrelated(2))
        try stage.proxy.rewrite(settings)
        let event = try stage.proxy.waitForEvent("reloaded")
        #expect(event.string("trigger") == "files")
        #expect(event.integer("generation") == 2)
        #expect(event.integer("pinnedDomains") == 1)
        #expect(event.integer("hosts") == 1)
        #expect(try stage.get("/2").problemCode == "pin_mismatch")
    }

    @Test("74 a broken pin file leaves the pins, and is reported with its place")
    func broken() throws {
        let stage = try stage()
        var settings = stage.settings
        settings.pinnedDomains[Stage.host]?["pins"] = ["sha256/AAAA", "sha256/BBBB"]
        settings.pinnedDomains[Stage.host]?["pinnigMode"] = "none"
        let failure = try stage.proxy.reload(settings)
        #expect(failure.string("event") == "reloadFailed")
        #expect(failure.string("file") == "\(stage.proxy.folder.path)/pins/test.json")
        for member in ["pins/0", "pins/1", "pinnigMode"] {
            try stage.proxy.waitForEvent("reloadFailed") {
                $0.string("pointer") == "/pinnedDomains/\(Stage.host)/\(member)" && $0.string("trigger") == "SIGHUP"
            }
        }
        #expect(failure.string("remedy") != nil)
        #expect(failure.integer("line") != nil)
        #expect(failure.integer("generation") == 1)
        #expect(try stage.get("/old").text == "/old")
        // The mended file is taken in.
        settings = stage.settings
        settings.pin(Stage.host, to: .unrelated(2))
        #expect(try stage.proxy.reload(settings).string("event") == "reloaded")
        #expect(try stage.get("/new").problemCode == "pin_mismatch")
    }

    @Test("74 the pins hold through broken files, and mended files are loaded")
    func breakages() throws {
        let stage = try stage { settings in
            settings.pin(Stage.host, to: .unrelated(2))
        }
        let (proxy, folder) = (stage.proxy, stage.proxy.folder)
        let pins = "pins/test.json"
        let whole = try String(contentsOfFile: "\(folder.path)/\(pins)", encoding: .utf8)
        let breakages: [(what: String, file: String, text: String?)] = [
            ("cut off", pins, String(whole.dropLast(whole.count / 2))),
            ("empty", pins, ""),
            ("no pin file at all", pins, nil),
            ("pins of another length", pins, whole.replacingOccurrences(of: "=\"", with: "A=\"")),
            ("a second file for the domain", "pins/zz.json", whole),
            ("a configuration without a brace", "config.json", "{ \"version\": 1"),
            ("no configuration", "config.json", nil),
        ]
        for breakage in breakages {
            if let text = breakage.text {
                try folder.write(text, as: breakage.file)
            } else {
                try FileManager.default.removeItem(atPath: "\(folder.path)/\(breakage.file)")
            }
            #expect(try proxy.hangUp().string("event") == "reloadFailed", "\(breakage.what)")
            #expect(try stage.get("/").problemCode == "pin_mismatch", "\(breakage.what)")
            if breakage.file == "pins/zz.json" { unlink("\(folder.path)/\(breakage.file)") }
            #expect(try proxy.reload(stage.settings).string("event") == "reloaded", "\(breakage.what)")
        }
        #expect(stage.origin.applicationBytes == 0)
        var settings = stage.settings
        settings.pin(Stage.host, to: stage.server.pin)
        #expect(try proxy.reload(settings).string("event") == "reloaded")
        #expect(try stage.get("/new").text == "/new")
    }

    @Test("dropped pins are warned of by name, once")
    func dropped() throws {
        let others = ["gone.example", "reporting.example", "below.parent.example"]
        let stage = try stage { settings in
            for host in others { settings.pin(host, to: .unrelated(2)) }
        }
        func warnings() -> [LogLine] {
            stage.proxy.events("warning").filter { $0.string("code") == "pins_dropped" }
        }
        var settings = stage.settings
        settings.pinnedDomains["gone.example"] = nil
        settings.pin("reporting.example", to: .unrelated(2), with: ["enforcePinning": false])
        settings.pinnedDomains["below.parent.example"] = nil
        settings.pin("parent.example", to: .unrelated(2), with: ["includeSubdomains": true])
        #expect(try stage.proxy.reload(settings).string("event") == "reloaded")
        let warning = try stage.proxy.waitForEvent("warning") { $0.string("code") == "pins_dropped" }
        #expect(warning.integer("count") == 2)
        #expect((warning["domains"] as? [String])?.sorted() == ["gone.example", "reporting.example"])
        // A pin that changes and a domain that is added drop nothing.
        settings.pin(Stage.host, to: .unrelated(3))
        settings.pin("gone.example", to: .unrelated(2))
        #expect(try stage.proxy.reload(settings).string("event") == "reloaded")
        #expect(try stage.get().problemCode == "pin_mismatch")
        #expect(warnings().count == 1)
    }

    @Test("changed files alone drop no pins; SIGHUP does")
    func dropsNothingUnasked() throws {
        let stage = try stage { settings in
            settings.pin("gone.example", to: .unrelated(2))
            settings.pin("kept.example", to: .unrelated(2))
        }
        func change(_ change: (inout ProxySettings) -> Void) throws -> LogLine {
            var settings = stage.settings
            change(&settings)
            let count = stage.proxy.events("reloadFailed").count
            try stage.proxy.rewrite(settings)
            return try Patience.poll(for: "the refusal") {
                let events = stage.proxy.events("reloadFailed")
                return events.count > count ? events.last : nil
            }
        }
        for (what, edit) in [
            ("gone.example: no policy holds", { $0.pinnedDomains["gone.example"] = nil }),
            ("gone.example: enforcePinning", { $0.pinnedDomains["gone.example"]?["enforcePinning"] = false }),
            ("gone.example: pinningMode", { $0.pinnedDomains["gone.example"] = ["pinningMode": "none"] }),
            ("gone.example: no policy holds", { $0.pinnedDomains = [:] }),
        ] as [(String, (inout ProxySettings) -> Void)] {
            let failure = try change(edit)
            #expect(failure.string("trigger") == "files" && failure.string("code") == "pins_dropped", "\(failure.text)")
            #expect(failure.string("message")?.contains(what) == true, "\(failure.text)")
            #expect(failure.string("remedy")?.contains("SIGHUP") == true, "\(failure.text)")
            #expect(failure.integer("generation") == 1)
            #expect(try stage.get().status == 200)
        }
        // A change that drops nothing is taken in, whatever was refused before.
        var settings = stage.settings
        settings.pin(Stage.host, to: .unrelated(3))
        try stage.proxy.rewrite(settings)
        try waitForReload(stage.proxy, after: 0)
        #expect(try stage.get().problemCode == "pin_mismatch")
        settings.pinnedDomains["gone.example"] = nil
        #expect(try stage.proxy.reload(settings).string("event") == "reloaded")
        let warning = try stage.proxy.waitForEvent("warning") { $0.string("code") == "pins_dropped" }
        #expect(warning["domains"] as? [String] == ["gone.example"])
        #expect((warning["changes"] as? [String])?.first?.hasPrefix("gone.example: no policy") == true)
    }

    @Test("a missing configuration is noticed, and its return too")
    func missing() throws {
        let stage = try stage()
        let path = "\(stage.proxy.folder.path)/config.json"
        try FileManager.default.moveItem(atPath: path, toPath: "\(path).away")
        let failure = try stage.proxy.waitForEvent("reloadFailed")
        #expect(failure.string("file") == path)
        #expect(try stage.get("/1").status == 200)
        var settings = stage.settings
        settings.pin(Stage.host, to: .unrelated(2))
        try stage.proxy.rewrite(settings)
        try waitForReload(stage.proxy, after: 0)
        #expect(try stage.get("/2").problemCode == "pin_mismatch")
    }

    /// Lays the pin files out as Kubernetes does with a ConfigMap: links through `..data`, which is swapped whole.
    private func publish(_ text: [UInt8], as version: String, in folder: TemporaryFolder) throws {
        try folder.write(bytes: text, as: "pins/..\(version)/test.json")
        let pins = "\(folder.path)/pins"
        let former = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(pins)/..data")
        try FileManager.default.createSymbolicLink(
            atPath: "\(pins)/..data_tmp",
            withDestinationPath: "..\(version)"
        )
        #expect(rename("\(pins)/..data_tmp", "\(pins)/..data") == 0)
        if let former {
            try FileManager.default.removeItem(atPath: "\(pins)/\(former)")
        } else {
            unlink("\(pins)/test.json")
            try FileManager.default.createSymbolicLink(
                atPath: "\(pins)/test.json",
                withDestinationPath: "..data/test.json"
            )
        }
    }

    @Test("each swap of a ConfigMap is loaded")
    func configMap() throws {
        let stage = try stage()
        let folder = stage.proxy.folder
        let good = Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/pins/test.json")))
        let other = Array(PinFileText.pinning(Stage.host, to: .unrelated(2)).utf8)
        // The same bytes by another way: nothing to take in, but other folders to watch.
        try publish(good, as: "1", in: folder)
        try stage.proxy.hangUp()
        for version in 2...5 {
            let count = reloads(stage.proxy)
            try publish(version % 2 == 0 ? other : good, as: "\(version)", in: folder)
            try waitForReload(stage.proxy, after: count)
            let response = try stage.get("/\(version)")
            #expect(response.problemCode == (version % 2 == 0 ? "pin_mismatch" : nil))
        }
        #expect(stage.proxy.events("reloadFailed").isEmpty)
    }

    @Test("a replaced folder of pin files is loaded, and watched again")
    func replacedFolder() throws {
        let stage = try stage()
        let folder = stage.proxy.folder
        let good = try String(contentsOfFile: "\(folder.path)/pins/test.json", encoding: .utf8)
        try folder.write(PinFileText.pinning(Stage.host, to: .unrelated(2)), as: "pins.next/test.json")
        #expect(rename("\(folder.path)/pins", "\(folder.path)/pins.old") == 0)
        #expect(rename("\(folder.path)/pins.next", "\(folder.path)/pins") == 0)
        try waitForReload(stage.proxy, after: 0)
        #expect(try stage.get("/1").problemCode == "pin_mismatch")
        let count = reloads(stage.proxy)
        try folder.write(good, as: "pins/test.json")
        try waitForReload(stage.proxy, after: count)
        #expect(try stage.get("/2").status == 200)
    }

    @Test("certificates in other folders are watched, too")
    func elsewhere() throws {
        let elsewhere = try TemporaryFolder()
        let other = try TestPKI("another")
        try elsewhere.write(Stage.pki.root.certificate.pem, as: "anchors.pem")
        let stage = try stage {
            $0.members["trustAnchors"] = ["system": false, "files": ["\(elsewhere.path)/anchors.pem"]]
        }
        #expect(try stage.get("/1").status == 200)
        try elsewhere.write(other.root.certificate.pem, as: "anchors.pem")
        try waitForReload(stage.proxy, after: 0)
        #expect(try stage.get("/2").problemCode == "certificate_untrusted")
    }

    @Test("files rewritten with the same bytes cause no reload")
    func unchanged() throws {
        let stage = try stage { $0.members["log"] = ["level": "debug"] }
        try stage.proxy.rewrite(stage.settings)
        let event = try stage.proxy.waitForEvent("unchanged")
        #expect(event.string("trigger") == "files")
        #expect(stage.proxy.events("reloaded").isEmpty)
    }

    @Test("a reload reports keys that need a restart, and applies all others")
    func restartNeeded() throws {
        let stage = try stage()
        let port = stage.proxy.port
        try stage.reload {
            $0.members["workers"] = 1
            $0.listeners = [["address": "127.0.0.1:0", "mode": "forward", "allowHosts": ["nobody.example.com"]]]
            $0.pin(Stage.host, to: .unrelated(2))
        }
        try stage.proxy.waitForEvent("restartNeeded") { $0.string("key") == "workers" }
        try stage.proxy.waitForEvent("restartNeeded") { $0.string("key") == "listeners" }
        #expect(stage.proxy.port == port)
        // Not host_denied: the listener is the old one, the pins are the new ones.
        #expect(try stage.get("/").problemCode == "pin_mismatch")
        try stage.reload { _ in }
        #expect(stage.proxy.events("restartNeeded").count == 2)
        #expect(try stage.get("/").status == 200)
    }

    @Test("access rules, limits, hosts and a gateway's policy change")
    func everythingElse() throws {
        let stage = try stage { $0.addGateway(to: Stage.host) }
        func gateway() throws -> HTTPMessage {
            try stage.proxy.exchange("GET /g HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
        }
        #expect(try gateway().text == "/g")
        try stage.reload { $0.pin(Stage.host, to: .unrelated(2)) }
        #expect(try gateway().problemCode == "pin_mismatch")
        try stage.reload { $0.members["access"] = ["denyHosts": ["other.example.com"]] }
        #expect(try gateway().text == "/g")
        #expect(try stage.proxy.get("http://other.example.com/").problemCode == "host_denied")
        try stage.reload { $0.members["limits"] = ["headBytes": "4KB", "requestBodyBytes": "1KB"] }
        #expect(try stage.get("/", fields: ["X: \(String(repeating: "x", count: 5000))"]).status == 431)
        let large = String(repeating: "x", count: 2000)
        let post = ProxyUnderTest.request("POST", stage.url("/"), body: large)
        #expect(try stage.proxy.exchange(post, method: "POST").status == 413)
        // Its own listeners are never dialled, though their port is written nowhere.
        try stage.reload {
            $0.members["access"] = ["denyAddresses": ["multicast"]]
            $0.pinnedDomains = [:]
            $0.listeners = [["address": "127.0.0.1:0", "mode": "forward"]]
        }
        #expect(try stage.proxy.get("http://127.0.0.1:\(stage.proxy.port)/").problemCode == "address_denied")
        try stage.reload { $0.members["unpinnedHosts"] = "deny" }
        #expect(try stage.proxy.get("http://elsewhere.example.com/").problemCode == "unpinned_denied")
        #expect(try stage.proxy.exchange(post, method: "POST").status == 200)
    }

    @Test("SIGHUP reopens a moved task log, also with bad files")
    func logRotation() throws {
        let stage = try stage { $0.members["log"] = ["tasks": "task.log"] }
        let folder = stage.proxy.folder.path
        func lines(_ name: String) -> Int {
            let text = (try? String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8)) ?? ""
            return text.split(separator: "\n").count
        }
        for number in 1...3 {
            _ = try stage.get("/\(number)")
            try Patience.poll(for: "the line") { lines("task.log") == 1 ? true : nil }
            #expect(rename("\(folder)/task.log", "\(folder)/task.log.\(number)") == 0)
            if number == 2 { try stage.proxy.folder.write("{", as: "config.json") }
            let event = try stage.proxy.hangUp()
            #expect(event.string("event") == (number == 2 ? "reloadFailed" : "reloaded"))
            #expect(FileManager.default.fileExists(atPath: "\(folder)/task.log"))
            if number == 2 { try stage.proxy.rewrite(stage.settings) }
        }
        #expect((1...3).map { lines("task.log.\($0)") } == [1, 1, 1])
    }

    @Test("a new task log path is applied, or the whole reload fails")
    func logDestination() throws {
        let stage = try stage()
        _ = try stage.get("/stdout")
        _ = try stage.proxy.waitForTaskLines(1)
        try stage.reload { $0.members["log"] = ["tasks": "off"] }
        _ = try stage.get("/off")
        try stage.reload { $0.members["log"] = ["tasks": "task.log", "redact": ["key"]] }
        _ = try stage.get("/file?key=secret")
        let path = "\(stage.proxy.folder.path)/task.log"
        let text = try Patience.poll(for: "the line") {
            (try? String(contentsOfFile: path, encoding: .utf8)).flatMap { $0.contains("\n") ? $0 : nil }
        }
        #expect(text.contains("/file?key=***"))
        let failure = try stage.reload {
            $0.members["log"] = ["tasks": "missing/task.log"]
            $0.pin(Stage.host, to: .unrelated(2))
        }
        #expect(failure.string("event") == "reloadFailed")
        #expect(failure.string("pointer") == "/log/tasks")
        #expect(failure.string("message")?.contains("/missing/task.log cannot be opened") == true)
        #expect(try stage.get("/still").status == 200)
        try stage.reload { _ in }
        _ = try stage.get("/again")
        let lines = try stage.proxy.waitForTaskLines(2)
        #expect(lines.compactMap { $0.string("url") }.map { $0.suffix(6) } == ["stdout", "/again"])
    }

    @Test("the demo's host survives a reload")
    func demoOrigin() throws {
        let folder = try TemporaryFolder()
        let path = try ProxySettings(trusting: Stage.pki).write(to: folder)
        let process = try ChildProcess(
            try Programs.built("pinproxy"),
            ["run", "--demo-origin", "--config", path]
        )
        let port = try process.waitForErrors("the listening line") { errors in
            errors.contains("demoOrigin")
                ? errors.split(separator: "\n").compactMap { LogLine(String($0))?.string("address") }.first?
                    .split(separator: ":").last.flatMap { UInt16($0) } : nil
        }
        process.signal(SIGHUP)
        _ = try process.waitForErrors("the reload") { $0.contains("\"reloaded\"") ? true : nil }
        let client = try TestClient(port: port)
        try client.send(ProxyUnderTest.request("GET", "http://demo.pinproxy.test/"))
        #expect(try client.readResponse().status == 200)
    }

    @Test("changed pins apply to a program behind exec, too")
    func exec() throws {
        let server = try Stage.pki.server(Stage.host)
        let origin = try ScriptedOrigin(server) { OriginResponse.text($0.target) }
        var settings = ProxySettings(trusting: Stage.pki)
        settings.serve(Stage.host, server, at: origin.port)
        let folder = try TemporaryFolder()
        let path = try settings.write(to: folder)
        let script =
            "trap 'curl -s -o /dev/null -w \"%{http_code} \" http://\(Stage.host)/' HUP; "
            + "kill -HUP $$; echo ready; while ! test -e \(folder.path)/end; do sleep 0.05; done; kill -HUP $$; true"
        let process = try ChildProcess(
            try Programs.built("pinproxy"),
            ["exec", "--config", path, "--", "bash", "-c", script]
        )
        _ = try process.waitForOutput("the first answer") { $0.contains("200 ready") ? true : nil }
        settings.pin(Stage.host, to: .unrelated(2))
        _ = try settings.write(to: folder)
        _ = try process.waitForErrors("the reload") { $0.contains("\"reloaded\"") ? true : nil }
        try folder.write("", as: "end")
        let finished = try process.waitForExit()
        #expect(finished.exitCode == 0)
        #expect(finished.output == "200 ready\n502 ")
    }
}
