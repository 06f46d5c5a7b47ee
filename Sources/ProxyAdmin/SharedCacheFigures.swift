// SPDX-License-Identifier: Apache-2.0
import SharedCaching
import StrictJSON

extension SharedCacheStatus {
    static let reasonsOfFailure = ["connection", "malformed", "refused", "busy", "closed"]
    static let reasonsAgainstStoring = ["tooLarge", "useless", "busy", "changed", "failed"]

    /// Look-ups by what came of them. Those that timed out or failed are among the misses.
    var lookUps: [(result: String, count: Int)] {
        let failed = failures.values.reduce(0, +)
        return [
            ("hit", hits), ("miss", max(misses - timeouts - failed, 0)), ("timeout", timeouts), ("failed", failed),
        ]
    }

    /// The servers by name, each with the reason why it is of no use.
    var serversInOrder: [(name: String, reason: String?)] {
        servers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// The object in the document of `/cache`.
    var json: JSONLine {
        var line = JSONLine()
        var lookUps = JSONLine()
        for (result, count) in self.lookUps { lookUps.add(result, count) }
        line.add("lookups", lookUps)
        line.add("stored", stored)
        line.add("tampered", tampered)
        line.add("waited", waited)
        line.add("waitedInVain", waitedInVain)
        line.add("invalidationsFailed", invalidationsFailed)
        line.add("purgesPublished", purgesPublished)
        line.add("purgesLearned", purgesLearned)
        line.add("purgesPending", purgesPending)
        line.add(
            "servers",
            array: serversInOrder.map { server in
                var line = JSONLine()
                line.add("server", server.name)
                if let reason = server.reason { line.add("offBecause", reason) }
                return line.object
            }
        )
        return line
    }
}
