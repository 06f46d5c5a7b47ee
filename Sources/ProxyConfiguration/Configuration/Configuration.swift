// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
package import SessionCore

/// The contents of `config.json`, with all defaults filled in, all paths absolute, and all names in normal form
/// (`docs/configuration.md` explains each key).
///
/// A value: `ConfigurationLoader` makes it from a file; tests and the demo make it themselves.
package struct Configuration: Sendable {
    /// The number of event loops, each on a thread of its own; 0 means one for each core.
    package var workers = 0
    package var listeners: [ListenerConfiguration] = [.standard]
    /// Nil: there is no admin listener.
    package var admin: AdminConfiguration?
    /// The folder of pin files as an absolute path; nil when the configuration names none.
    package var pins: String?
    package var trustAnchors = TrustAnchorsConfiguration()
    package var unpinnedHosts = UnpinnedHosts.allow
    /// How the names of origins, `resolve` targets and proxies are looked up.
    package var resolver = NameResolution.dns
    /// The authentication for listeners without a setting of their own; nil lets every client in.
    package var authentication: AuthenticationConfiguration?
    /// The local CA for hosts whose `connect` is `intercept`.
    package var interception: InterceptionConfiguration?
    package var log = LogConfiguration()
    package var reports = ReportsConfiguration()
    package var revocationLists = RevocationListsConfiguration()
    package var access = AccessConfiguration()
    /// Which requests may be sent; nil when `access` alone decides.
    package var requests: RequestsConfiguration?
    /// The credentials that rules of `requests` may have written into requests, in the order of the file.
    package var credentials: [CredentialDefinition] = []
    /// Nil: trace contexts are fields like any other.
    package var tracing: TracingConfiguration?
    /// Nil: requests have no ids.
    package var requestID: RequestIDConfiguration?
    package var limits = LimitsConfiguration()
    /// Nil: nothing is cached.
    package var cache: CacheConfiguration?
    /// The settings of hosts without an entry.
    package var defaults = HostConfiguration()
    /// One entry for each host, in the order of the file.
    package var hosts: [HostConfiguration] = []
    /// The names of the variables of the environment that values come from.
    package var variables: Set<String> = []

    package init() {}

    /// The addresses of the listeners, as far as their ports are known before they listen.
    var fixedAddresses: [AddressAndPort] {
        (listeners.map(\.endpoint) + [admin?.endpoint].compactMap { $0 }).compactMap { endpoint in
            guard case .address(let address) = endpoint, address.port != 0 else { return nil }
            return address
        }
    }
}

/// The treatment of a host that no pin file names.
package enum UnpinnedHosts: String, CaseIterable, Sendable {
    /// Requests are allowed; over TLS, chain and host are checked.
    case allow
    /// Requests are refused with `unpinned_denied`.
    case deny
}

/// The certificates that a chain may end in, unless a pin file has anchors for its domain.
package struct TrustAnchorsConfiguration: Hashable, Sendable {
    /// Whether the anchors of the operating system are trusted.
    package var system = true
    /// Further PEM or DER files, as absolute paths.
    package var files: [String] = []

    package init() {}
}

package struct LogConfiguration: Hashable, Sendable {
    /// The destination of the task log.
    package enum Destination: Hashable, Sendable {
        case stdout
        case stderr
        case off
        case file(path: String)

        package var isFile: Bool {
            if case .file = self { true } else { false }
        }
    }

    /// The least severe events that are written.
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

    /// How lines are written.
    package enum Format: String, CaseIterable, Sendable {
        /// One JSON object a line.
        case json
        /// Columns for people.
        case text
    }

    package var tasks = Destination.stdout
    /// Nil: text on a terminal, JSON elsewhere.
    package var format: Format?
    package var level = Level.info
    /// The parameters of URLs whose values are masked wherever a URL is shown.
    package var redact = SecretParameters.usual

    package init() {}
}

/// The destinations of reports, besides the `reportUris` of the pin files.
package struct ReportsConfiguration: Hashable, Sendable {
    /// A file that each report is appended to as one line; an absolute path.
    package var file: String?

    package init() {}
}

/// What becomes of the revocation lists that pin files have fetched (`crls`).
package struct RevocationListsConfiguration: Hashable, Sendable {
    /// An absolute path; nil keeps lists in memory alone.
    package var folder: String?
    /// The time between two fetches of a list.
    package var every = Milliseconds(6 * 3_600_000)

    package init() {}
}

package struct LimitsConfiguration: Hashable, Sendable {
    /// Bytes of a request head, request line and fields together.
    package var headBytes = 64 * 1024
    /// Fields of a request head.
    package var headFields = 100
    /// Bytes of a request target.
    package var targetBytes = 8192
    /// Whether a Host that differs from an absolute target is refused.
    package var strictHost = false
    /// Bytes of a response head, status line and fields together.
    package var responseHeadBytes = 256 << 10
    /// Fields of a response head.
    package var responseHeadFields = 500
    /// Client connections open at once, over all listeners.
    package var connections = 10_000
    /// Connections to one origin open at once, over all workers.
    package var connectionsPerHost = 256
    /// The limit of a request body in bytes; nil means no limit.
    package var requestBodyBytes: Int?
    /// The limit of request body bytes that are kept for a redirect.
    package var redirectBodyBytes = 10 << 20
    /// Bytes of heads and bodies that clients and origins make the process hold, over all connections.
    package var heldBytes = LimitsConfiguration.usualHeldBytes

    /// A quarter of the memory that the process may use, in whole megabytes, from 64 MB to 1 GB.
    package static let usualHeldBytes = max(64 << 20, min(1 << 30, (SystemMemory.available / 4) & ~0xF_FFFF))

    package init() {}
}
