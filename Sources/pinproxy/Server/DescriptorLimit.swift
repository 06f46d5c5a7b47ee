import Glibc
import ProxyCore

/// How many files and sockets the system lets this process have open (getrlimit(2)).
enum DescriptorLimit {
    /// Raises the soft limit, which is 1,024 on most systems, to the hard one.
    ///
    /// - Returns: a warning when that is still less than the connections that the configuration allows.
    static func raise(for limits: LimitsConfiguration) -> String? {
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(files, &limit) == 0 else { return nil }
        if limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            guard setrlimit(files, &limit) == 0 else { return nil }
        }
        let needed = UInt64(limits.connections + limits.connectionsPerHost)
        guard limit.rlim_cur < needed else { return nil }
        return "the system allows \(limit.rlim_cur) open files, and limits.connections may need \(needed) "
            + "(raise the hard limit: LimitNOFILE= or ulimit -Hn; or lower limits.connections)"
    }
}
