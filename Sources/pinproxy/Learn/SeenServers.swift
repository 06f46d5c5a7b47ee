// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

/// The servers in a task log that no pin file names: the keys they presented on connections with valid chain and host,
/// how often, and since when.
struct SeenServers {
    /// The number of sightings, with the first and the last time.
    struct Sightings {
        private(set) var count = 0
        private(set) var first = ""
        private(set) var last = ""

        mutating func add(_ time: String) {
            count += 1
            first = first.isEmpty ? time : min(first, time)
            last = max(last, time)
        }
    }

    struct Key {
        var pin: PublicKeyPin
        var seen = Sightings()
    }

    struct Server {
        var host: Host
        var ports: Set<UInt16> = []
        /// Requests over TLS, on new and kept connections.
        var requests = 0
        /// New connections whose chain and host were valid.
        var connections = Sightings()
        /// Keys of server certificates.
        var keys = KeyTable()
        /// Public CAs of the table that issued those.
        var authorities: Set<PublicAuthority> = []
        /// Keys of the certificates of other CAs that issued those.
        var authorityKeys = KeyTable()
        /// Failed connections, by the code of the failure.
        var failures: [String: Int] = [:]
    }

    /// A bounded table of keys by their pins: a server that presents a new key on each connection does not fill the
    /// memory.
    struct KeyTable {
        static let bound = 64
        private(set) var keys: [PublicKeyPin: Key] = [:]
        /// Sightings of keys beyond the limit.
        private(set) var surplus = 0

        mutating func add(_ pin: PublicKeyPin, _ time: String) {
            guard keys.count < Self.bound || keys[pin] != nil else {
                surplus += 1
                return
            }
            keys[pin, default: Key(pin: pin)].seen.add(time)
        }

        /// The keys with the latest sighting first; if it is the same, the more frequent key comes first.
        var latest: [Key] {
            keys.values.sorted {
                ($0.seen.last, $0.seen.count, $0.pin.base64) > ($1.seen.last, $1.seen.count, $1.pin.base64)
            }
        }
    }

    /// The limit of hosts: names invented by clients do not fill the memory.
    static let bound = 20_000

    private let pinned: PinnedDomains
    private let named: Set<Host>
    private var table: [Host: Server] = [:]
    /// Requests to hosts beyond the limit.
    private(set) var surplus = 0
    private(set) var tasks = 0
    /// Requests to hosts that a pin file names.
    private(set) var pinnedTasks = 0
    /// Hosts that were requested without TLS, with the number of requests.
    private(set) var plainHosts: [Host: Int] = [:]
    private(set) var foreign = 0
    private(set) var notJSON = 0

    init(besides pinned: PinnedDomains) {
        self.pinned = pinned
        // An excluded domain has an entry without a policy.
        named = Set(pinned.domains.map(\.host))
    }

    mutating func add(_ line: [UInt8]) {
        switch TaskLogEntry.read(line) {
        case .task(let entry): add(entry)
        case .irrelevant: break
        case .foreign: foreign += 1
        case .notJSON: notJSON += 1
        }
    }

    private mutating func add(_ entry: TaskLogEntry) {
        tasks += 1
        let host = entry.server.host
        guard !named.contains(host), pinned.policy(host: host, port: entry.server.port) == nil else {
            pinnedTasks += 1
            return
        }
        guard entry.isSecure else {
            if plainHosts.count < Self.bound || plainHosts[host] != nil { plainHosts[host, default: 0] += 1 }
            return
        }
        guard table.count < Self.bound || table[host] != nil else {
            surplus += 1
            return
        }
        var server = table.removeValue(forKey: host) ?? Server(host: host)
        defer { table[host] = server }
        server.requests += 1
        // Only a key from a valid chain for the right host, without any pins involved, is proposed.
        guard entry.verdict == .notPinned else {
            server.failures[entry.error ?? entry.verdict?.rawValue ?? "no connection", default: 0] += 1
            return
        }
        guard let pins = entry.offeredPins else { return }
        server.ports.insert(entry.server.port)
        server.connections.add(entry.time)
        server.keys.add(pins[0], entry.time)
        if let authority = PublicAuthority(ofChain: pins) {
            server.authorities.insert(authority)
        } else if let issuer = pins.dropFirst().first, issuer != pins[0] {
            server.authorityKeys.add(issuer, entry.time)
        }
    }

    /// Those with a new connection whose chain and host were valid.
    var unpinned: [Server] { servers.filter { $0.connections.count > 0 } }

    /// The servers, sorted by name.
    var servers: [Server] { table.values.sorted { $0.host.description < $1.host.description } }
}
