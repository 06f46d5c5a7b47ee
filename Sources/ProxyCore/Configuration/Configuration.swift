/// What `config.json` says, with every default filled in, every path made absolute to the file's folder, and every
/// name in its normal form (`docs/configuration.md` explains each key).
///
/// A value: `ConfigurationLoader` makes it from a file, tests and the demo make it by hand.
package struct Configuration: Sendable {
    /// Event loops, one a thread; 0 is one a core.
    package var workers = 0
    package var listeners: [ListenerConfiguration] = [.standard]
    /// Nil: nobody can ask how the proxy is.
    package var admin: AdminConfiguration?
    /// The folder of pin files, ready to open; nil when the configuration names none.
    package var pins: String?
    package var trustAnchors = TrustAnchorsConfiguration()
    package var unpinnedHosts = UnpinnedHosts.allow
    /// Who may use listeners that say nothing of it themselves; nil lets everyone.
    package var authentication: AuthenticationConfiguration?
    /// The local CA for hosts whose `connect` is `intercept`.
    package var interception: InterceptionConfiguration?
    package var log = LogConfiguration()
    package var reports = ReportsConfiguration()
    package var access = AccessConfiguration()
    package var limits = LimitsConfiguration()
    /// Nil: nothing is cached.
    package var cache: CacheConfiguration?
    /// What holds for a host without an entry of its own.
    package var defaults = HostConfiguration()
    /// One entry a host, in the order of the file.
    package var hosts: [HostConfiguration] = []

    package init() {}

    /// Where it will listen for clients and operators, as far as the ports are known before it does.
    package var fixedAddresses: [AddressAndPort] {
        (listeners.map(\.endpoint) + [admin?.endpoint].compactMap { $0 }).compactMap { endpoint in
            guard case .address(let address) = endpoint, address.port != 0 else { return nil }
            return address
        }
    }
}

/// What happens to a host that no pin file names.
package enum UnpinnedHosts: String, CaseIterable, Sendable {
    /// It is reached; over TLS, chain and host are checked.
    case allow
    /// It is refused with `unpinned_denied`.
    case deny
}

/// Which certificates a chain may end in, where a pin file does not say otherwise for its domain.
package struct TrustAnchorsConfiguration: Hashable, Sendable {
    /// The anchors of the operating system.
    package var system = true
    /// PEM or DER files beside them, ready to open.
    package var files: [String] = []

    package init() {}
}

package struct LogConfiguration: Hashable, Sendable {
    /// Where the task log goes.
    package enum Destination: Hashable, Sendable {
        case stdout
        case stderr
        case off
        case file(path: String)

        package var isFile: Bool {
            if case .file = self { true } else { false }
        }
    }

    /// The least severe event that is still written.
    package enum Level: String, CaseIterable, Comparable, Sendable {
        case debug
        case info
        case warning
        case error

        package static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }

        private var rank: Int {
            switch self {
            case .debug: 0
            case .info: 1
            case .warning: 2
            case .error: 3
            }
        }
    }

    package var tasks = Destination.stdout
    package var level = Level.info
    /// Query parameters whose values never reach the log.
    package var redact: [String] = []

    package init() {}
}

/// Where reports of failed pins go beside the `reportUris` of the pin files.
package struct ReportsConfiguration: Hashable, Sendable {
    /// A file to which each report is appended as one line, ready to open.
    package var file: String?

    package init() {}
}

/// The `access` rules as written; `AccessRules` is what the request path asks.
package struct AccessConfiguration: Hashable, Sendable {
    package var denyAddresses: [AddressRule] = AddressGroup.deniedByDefault.map(AddressRule.group)
    package var denyHosts: [HostPattern] = []
    package var allowHosts: [HostPattern] = [.any]
    /// The ports that tunnels may lead to.
    package var connectPorts: [UInt16] = [443]

    package init() {}
}

package struct LimitsConfiguration: Hashable, Sendable {
    /// Bytes of a request head, request line and fields together.
    package var headBytes = 64 * 1024
    /// Fields of a request head.
    package var headFields = 100
    /// Client connections open at once, over all listeners.
    package var connections = 10_000
    /// Connections to one origin open at once, over all workers.
    package var connectionsPerHost = 256
    /// Bytes of a request body; nil is no bound.
    package var requestBodyBytes: Int?
    /// Bytes of a request body that are kept, so that a redirect can be followed with it.
    package var redirectBodyBytes = 10 << 20

    package init() {}
}
