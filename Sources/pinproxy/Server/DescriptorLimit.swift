// SPDX-License-Identifier: Apache-2.0
import Glibc
import IOCore
import ProxyConfiguration
import ProxyCore

/// The limit of open files and sockets of this process (getrlimit(2)).
enum DescriptorLimit {
    /// Raises the soft limit, which is 1,024 on most systems, to the hard one.
    static func raise() {
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(files, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(files, &limit)
    }

    /// Warns when the limit is too low for the connections that the configuration allows.
    static func warnIfTooLow(_ server: ProxyServer) {
        let configuration = server.snapshot.configuration
        guard let (connections, shares) = server.descriptorShortage else { return }
        EventLine(event: "warning")
            .with(
                "message",
                "the system allows \(shares.limit) open files: \(connections) client connections are let in, and not the "
                    + "\(configuration.limits.connections) of limits.connections. Each may need one to its origin, and "
                    + "\(shares.reserve) files are kept for the admin listener and logs (raise the hard limit: LimitNOFILE= or "
                    + "ulimit -Hn; or lower limits.connections)"
            )
            .write(.warning, at: configuration.log.level)
    }
}
