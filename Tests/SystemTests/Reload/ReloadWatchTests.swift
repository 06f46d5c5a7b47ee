// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import Synchronization
import TestSupport
import Testing

/// Invariant 25: a policy that was read is in force, or an event and a metric say why not.
@Suite("Reload: the watch of files", .serialized, .earlyOnOwnThreads)
struct ReloadWatchTests {
    /// The policy and the files as `GET /policy` shows them.
    private struct Shown {
        var pins: [String: Set<String>] = [:]
        var isCurrent = false
        var digests: [String] = []

        init(_ proxy: ProxyUnderTest) throws {
            let response = try proxy.exchange("GET /policy HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1)
            let document = try #require(try JSONSerialization.jsonObject(with: Data(response.body)) as? [String: Any])
            for domain in document["domains"] as? [[String: Any]] ?? [] {
                guard let name = domain["domain"] as? String else { continue }
                pins[name] = Set((domain["pins"] as? [[String: Any]] ?? []).compactMap { $0["pin"] as? String })
            }
            let files = try #require(document["files"] as? [String: Any])
            isCurrent = try #require(files["current"] as? Bool)
            for side in ["inForce", "onDisk"] {
                digests.append(try #require((files[side] as? [String: Any])?["digest"] as? String))
            }
        }
    }

    private func stage(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> Stage {
        try Stage {
            $0.members["admin"] = ["address": "127.0.0.1:0"]
            change(&$0)
        } responding: {
            OriginResponse.text($0.target)
        }
    }

    private func metric(_ proxy: ProxyUnderTest) throws -> String? {
        let text = try proxy.exchange("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", on: 1).text
        return text.split(separator: "\n").first { $0.hasPrefix("pinproxy_policy_files_current ") }.map(String.init)
    }

    @Test("events without changes do not delay a changed pin file")
    func eventsWithoutChanges() throws {
        let stage = try stage()
        let folder = stage.proxy.folder.path
        let isOver = Atomic(false)
        let hasEnded = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            var mode: mode_t = 0o600
            while !isOver.load(ordering: .relaxed) {
                chmod("\(folder)/config.json", mode)
                mode ^= 0o040
                usleep(500)
            }
            hasEnded.signal()
        }
        defer {
            isOver.store(true, ordering: .relaxed)
            hasEnded.wait()
        }
        try stage.proxy.folder.write(
            PinFileText.pinning(Stage.host, to: .unrelated(2)),
            as: "pins/test.json"
        )
        let event = try stage.proxy.waitForEvent("reloaded")
        #expect(event.string("trigger") == "files")
        #expect(try stage.get("/2").problemCode == "pin_mismatch")
    }

    @Test("digests of loaded and present files differ while a change is refused")
    func digests() throws {
        let stage = try stage { $0.pin("gone.example", to: .unrelated(2)) }
        let first = try Shown(stage.proxy)
        #expect(first.isCurrent && first.digests[0] == first.digests[1])
        #expect(try metric(stage.proxy) == "pinproxy_policy_files_current 1")
        var settings = stage.settings
        settings.pinnedDomains["gone.example"] = nil
        try stage.proxy.rewrite(settings)
        try stage.proxy.waitForEvent("reloadFailed")
        let refused = try Shown(stage.proxy)
        #expect(!refused.isCurrent && refused.digests[0] == first.digests[0] && refused.digests[1] != first.digests[0])
        #expect(try metric(stage.proxy) == "pinproxy_policy_files_current 0")
        try stage.proxy.hangUp()
        let taken = try Shown(stage.proxy)
        #expect(taken.isCurrent && taken.digests[0] == refused.digests[1])
        #expect(taken.pins["gone.example"] == nil)
        #expect(try metric(stage.proxy) == "pinproxy_policy_files_current 1")
    }

    @Test("a policy that could not be applied is tried again")
    func retry() throws {
        let stage = try stage()
        let failure = try stage.reload {
            $0.members["log"] = ["tasks": "missing/task.log"]
            $0.pin(Stage.host, to: .unrelated(2))
        }
        #expect(failure.string("pointer") == "/log/tasks")
        #expect(try stage.get("/1").status == 200)
        #expect(try !Shown(stage.proxy).isCurrent)
        mkdir("\(stage.proxy.folder.path)/missing", 0o700)
        try stage.proxy.waitForEvent("reloaded")
        #expect(try stage.get("/2").problemCode == "pin_mismatch")
        #expect(try Shown(stage.proxy).isCurrent)
    }

    // MARK: By chance

    /// The folder of pin files as tools of all kinds change it. Each domain has one file.
    private struct Deployment {
        let folder: String
        var random: SeededGenerator
        /// The pins that the files have, by domain.
        var pins: [String: [Int]] = [:]
        private var version = 0
        /// Whether the files are links through `..data`, as those of a ConfigMap.
        private var isLinked = false

        init(folder: String, seed: UInt64) {
            self.folder = folder
            random = SeededGenerator(seed: seed)
        }

        private mutating func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

        private func text(_ domain: String) -> String {
            PinFileText.pinning(domain, to: .unrelated(UInt8(truncatingIfNeeded: pins[domain]?[0] ?? 0)))
        }

        private mutating func rotate(_ domain: String) { pins[domain] = [2 + number(200)] }

        private func write(_ text: String, _ path: String) throws {
            try text.write(toFile: path, atomically: false, encoding: .utf8)
        }

        /// Begins with plain files.
        mutating func begin(_ count: Int) throws {
            for index in 0..<count {
                rotate("d\(index).example")
                try write(text("d\(index).example"), "\(folder)/d\(index).json")
            }
        }

        /// A pause between two steps: mostly none, sometimes longer than the quiet period.
        private mutating func pause() { if number(3) == 0 { usleep(UInt32(number(250_000))) } }

        /// One deployment of some of the files.
        mutating func change() throws {
            let domains = pins.keys.sorted().filter { _ in number(2) == 0 }
            for domain in domains { rotate(domain) }
            version += 1
            switch isLinked ? 3 : number(4) {
            case 0:
                for domain in domains {
                    let path = "\(folder)/\(domain.split(separator: ".")[0]).json"
                    try write(text(domain), path)
                    pause()
                }
            case 1:
                for domain in domains {
                    let path = "\(folder)/\(domain.split(separator: ".")[0]).json"
                    try write(text(domain), "\(path).\(version)")
                    pause()
                    #expect(rename("\(path).\(version)", path) == 0)
                    chmod(path, 0o640)
                }
            case 2:
                // The whole folder is exchanged.
                let (next, former) = ("\(folder).\(version)", "\(folder).former")
                mkdir(next, 0o755)
                for domain in pins.keys { try write(text(domain), "\(next)/\(domain.split(separator: ".")[0]).json") }
                #expect(rename(folder, former) == 0)
                if number(2) == 0 { usleep(UInt32(number(20_000))) }
                #expect(rename(next, folder) == 0)
                try FileManager.default.removeItem(atPath: former)
            default:
                let former = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/..data")
                mkdir("\(folder)/..\(version)", 0o755)
                for domain in pins.keys {
                    try write(text(domain), "\(folder)/..\(version)/\(domain.split(separator: ".")[0]).json")
                }
                symlink("..\(version)", "\(folder)/..data_tmp")
                #expect(rename("\(folder)/..data_tmp", "\(folder)/..data") == 0)
                if !isLinked {
                    for domain in pins.keys {
                        let name = "\(domain.split(separator: ".")[0]).json"
                        symlink("..data/\(name)", "\(folder)/.link")
                        #expect(rename("\(folder)/.link", "\(folder)/\(name)") == 0)
                    }
                    isLinked = true
                }
                if let former { try FileManager.default.removeItem(atPath: "\(folder)/\(former)") }
            }
        }
    }

    @Test(
        "after any sequence of changes the policy soon matches the files",
        arguments: 1...4 as ClosedRange<UInt64>
    )
    func anyChanges(seed: UInt64) throws {
        let stage = try stage { $0.members["log"] = ["level": "debug", "tasks": "off"] }
        let proxy = stage.proxy
        var deployment = Deployment(folder: "\(proxy.folder.path)/pins", seed: seed)
        let own = try String(contentsOfFile: "\(deployment.folder)/test.json", encoding: .utf8)
        try deployment.begin(12)
        for round in 1...6 {
            for _ in 0..<Int.random(in: 1...4, using: &deployment.random) { try deployment.change() }
            // The host of the stage stays.
            try own.write(toFile: "\(deployment.folder)/test.json", atomically: true, encoding: .utf8)
            let expected = deployment.pins.mapValues { "\(PublicKeyPin.unrelated(UInt8(truncatingIfNeeded: $0[0])))" }
            do {
                try Patience.poll(for: "the files to be in force") {
                    let shown = try Shown(proxy)
                    let isTaken = expected.allSatisfy { shown.pins[$0.key]?.contains($0.value) == true }
                    return isTaken && shown.isCurrent ? true : nil
                }
            } catch {
                Issue.record("seed \(seed), round \(round): \(error)\n\(proxy.errors.suffix(2000))")
                return
            }
        }
        #expect(try stage.get("/end").status == 200)
    }
}
