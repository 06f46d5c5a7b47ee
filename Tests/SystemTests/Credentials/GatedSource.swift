// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport

/// A command whose runs give their values when the test says so.
struct GatedSource {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Each run waits for the file with its number.
    var command: [String] {
        // It ends with the folder: a proxy that was killed kills no command.
        let script =
            "echo x >> $0/runs; n=$(($(wc -l < $0/runs))); while [ -d $0 -a ! -e $0/$n ]; do sleep 0.02; done; cat $0/$n"
        return ["/bin/sh", "-c", script, folder.path]
    }

    /// The number of runs that have begun.
    var runs: Int {
        let text = try? String(contentsOfFile: "\(folder.path)/runs", encoding: .utf8)
        return text?.split(separator: "\n").count ?? 0
    }

    /// Lets a run end with a value; before it begins, too.
    func give(_ value: String, toRun run: Int) throws {
        let path = try folder.write(value + "\n", as: "new-\(run)")
        guard rename(path, "\(folder.path)/\(run)") == 0 else { throw TestSocket.Failure("rename") }
    }

    /// A credential in X-Api-Key for everything below /v1/, and a rule without one for the rest, on one worker: what was sent
    /// before a request that has its response was read before it, too.
    func prepare(_ settings: inout ProxySettings) { Self.prepare(&settings, command: command) }

    /// The same with any command.
    static func prepare(_ settings: inout ProxySettings, command: [String]) {
        settings.members["workers"] = 1
        settings.members["defaults"] = ["timeouts": ["queue": "60s"]]
        settings.members["credentials"] = ["key": ["header": "X-Api-Key", "command": command]]
        settings.members["requests"] = [
            "rules": [
                ["id": "v1", "host": Stage.host, "path": "/v1/*", "then": "allow", "credential": "key"],
                ["id": "rest", "host": Stage.host, "then": "allow"],
            ]
        ]
    }
}
