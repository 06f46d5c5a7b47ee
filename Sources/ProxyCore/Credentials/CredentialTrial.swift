// SPDX-License-Identifier: Apache-2.0
import IOCore
package import ProxyConfiguration
import ServerTrust
package import SessionCore

/// One run of a credential's source, for a command.
package enum CredentialTrial {
    /// Runs the source on the calling thread, which waits for its end.
    ///
    /// - Parameters:
    ///   - snapshot: the rules for requests to token servers.
    ///   - lists: what fetches revocation lists.
    /// - Returns: the end of the value in seconds since 1970, or nil where none is known; never the value.
    package static func run(
        _ definition: CredentialDefinition,
        under snapshot: PolicySnapshot,
        settings: CredentialRunner.Settings = CredentialRunner.Settings(),
        lists: RevocationListSource? = nil
    ) -> Result<Int64?, CredentialFault> {
        guard let loop = try? EventLoop() else {
            return .failure(CredentialFault(.source, "the system has no descriptors left"))
        }
        let runner = CredentialRunner(snapshot, loop: loop, settings: settings, lists: lists)
        var outcome: CredentialRunner.Outcome?
        runner.run(definition) { outcome = $0 }
        loop.run(until: { outcome != nil })
        var isStopped = false
        runner.beginStop { isStopped = true }
        loop.run(until: { isStopped })
        runner.join()
        guard let outcome else { return .failure(CredentialFault(.source, "the source was not run")) }
        return Result { () throws(CredentialFault) in
            var bytes = try outcome.result.get()
            defer { bytes.wipe() }
            return try definition.read(bytes, at: loop.freshWallClock / 1_000_000).end
        }
    }
}
