// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration
import ProxyCore
import ServerTrust
import SessionCore

/// The way to a server by a configuration, for a look at its chain.
struct ConfiguredWay {
    private let snapshot: PolicySnapshot

    /// Loads a configuration. Pin files with errors are left out, since the look may be for mending them.
    ///
    /// - Throws: the errors of the configuration; also those of the pin files where an upstream proxy with TLS may be pinned in them.
    init(_ path: String) throws(CommandFailure) {
        let outcome = try LoadedConfiguration.outcome(path)
        if let snapshot = outcome.makeSnapshot() {
            self.snapshot = snapshot
            return
        }
        guard let snapshot = ConfigurationLoader.load(path: path, readsPins: false).makeSnapshot(),
            !snapshot.configuration.hosts.contains(where: { $0.upstreamProxy?.kind == .https }),
            snapshot.configuration.defaults.upstreamProxy?.kind != .https
        else { throw LoadedConfiguration.refusal(of: outcome) }
        Output.error("pinproxy: the pin files of \(Arguments.shown(path: path)) have errors, and are left out here\n")
        self.snapshot = snapshot
    }

    func way(to server: ServerAddress, _ timeout: Duration) -> ServerProbe.Way {
        let router = Router(snapshot: snapshot, timeouts: TaskTimeouts(connect: timeout))
        let own = snapshot.pinnedDomains.policy(host: server.host, port: server.port)?.configuration.trustAnchors
        return ServerProbe.Way(
            endpoint: { version, profile throws(CommandFailure) in
                switch router.probeEndpoint(
                    host: server.host,
                    port: server.port,
                    httpVersion: version,
                    profile: profile
                ) {
                case .success(let endpoint): return endpoint
                case .failure(let problem): throw CommandFailure(.refused, String(problem.details.dropLast()))
                }
            },
            anchors: own ?? snapshot.trustAnchors,
            resolver: snapshot.configuration.resolver
        )
    }
}
