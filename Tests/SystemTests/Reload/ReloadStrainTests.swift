// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import TestSupport
import Testing

/// Reloads without a pause, half of them of broken files, under clients of every kind.
@Suite("Reload: under strain", .serialized, .earlyOnOwnThreads)
struct ReloadStrainTests {
    private typealias Way = ReloadPutOffTests.Way

    /// The hash of the password "x".
    private static let hash =
        "$6$rounds=1000$saltsalt$w9KQdgZ0Ki6LoC1UHsgXGBQaO4XJhW7upynW4LSaoTX6YuFX0KIqzhQcvdJFwTJS.I2sYmby8LApILDV7m1xF/"
    private static let credentials = "Proxy-Authorization: Basic " + Data("alice:x".utf8).base64EncodedString()

    /// The requests of the clients: two clients at a time make each kind, so that requests for one URL meet.
    private static let kinds: [(way: Way, path: String)] = [
        (.get, "/get"), (.get, "/private"), (.get, "/validated"), (.get, "/refreshed"), (.post, ""), (.tunnel, ""),
        (.intercept, ""), (.upgrade, ""), (.http2, ""),
    ]

    private struct Account {
        var isOver = false
        var counts: [String: Int] = [:]
        var failures: [String] = []
        var running = 0
    }

    @Test("reloads in a row, half of them broken, fail no request")
    func strain() throws {
        let stage = try WayStage(always: { settings in
            settings.members["workers"] = 2
            settings.members["cache"] = ["shared": true]
            settings.files["users"] = "alice:\(Self.hash)\n"
            settings.members["authentication"] = ["basic": ["file": "users"]]
            settings.hosts[Stage.host]?["connectionsPerHost"] = 4
        })
        let client = WayClient(port: stage.proxy.port)
        for kind in Self.kinds { #expect(try Self.ask(client, kind) == "200") }
        try stage.proxy.reload(stage.settings)
        let descriptors = try stage.proxy.descriptorCount()
        let account = Monitor(Account())
        for kind in Self.kinds + Self.kinds {
            account.with { $0.running += 1 }
            Thread.detachNewThread {
                while !account.with({ $0.isOver }) {
                    let outcome = Result { try Self.ask(client, kind) }
                    account.with { account in
                        account.counts["\(kind.way) \(kind.path)", default: 0] += 1
                        guard case .success("200") = outcome else {
                            account.failures.append("\(kind): \(outcome)")
                            return
                        }
                    }
                }
                account.with { $0.running -= 1 }
            }
        }
        // A request that waits begins again at each of these reloads, and on a busy machine one may wait for all: no more than 16 times.
        for number in 1...32 {
            var settings = stage.settings
            // A pin more or less, so that nothing stored before answers.
            settings.pin(Stage.host, to: stage.server.pin, with: ["includeSubdomains": number % 4 < 2])
            if number % 2 == 0 { settings.pinnedDomains[Stage.host]?["pins"] = ["sha256/AAAA"] }
            let event = try stage.proxy.reload(settings)
            #expect(event.string("event") == (number % 2 == 0 ? "reloadFailed" : "reloaded"))
        }
        account.with { $0.isOver = true }
        let result = try account.wait(for: "the clients", seconds: 2 * Patience.seconds) { $0.running == 0 ? $0 : nil }
        let errors = stage.proxy.taskLines.filter { $0["error"] != nil }.map(\.text)
        #expect(result.failures.isEmpty, "\(result.failures.prefix(5)) of \(result.counts): \(errors.prefix(5))")
        #expect(result.counts.count == Self.kinds.count)
        try stage.proxy.reload(stage.settings)
        try Patience.poll(for: "the descriptors to be closed") {
            try stage.proxy.descriptorCount() <= descriptors ? true : nil
        }
    }

    private static func ask(_ client: WayClient, _ kind: (way: Way, path: String)) throws -> String {
        try client.start(kind.way, path: kind.path, fields: [credentials]).outcome()
    }
}
