// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import ServerTrust
import TestSupport

/// A server of Redis (`Programs.redis`) of a test, on loopback, with a folder of its own and without persistence. It is killed with this object.
final class RedisProcess: Sendable {
    /// Whether the machine has Redis; where real peers are required, one that has not fails.
    static let isThere = RealPeers.areRequired || (try? Programs.path(of: Programs.redis)) != nil

    let port: UInt16
    /// The port for TLS, if it has one.
    let tlsPort: UInt16?
    /// The port of the nodes of a cluster among each other.
    let busPort: UInt16
    private let folder: TemporaryFolder
    private let arguments: [String]
    private let password: String?
    private let reserved: [Int32]
    private let process = Monitor<ChildProcess?>(nil)

    /// Starts it, and waits until it responds.
    ///
    /// - Parameters:
    ///   - more: further options, as `["--maxmemory", "3mb"]`.
    ///   - tls: the identity for a second port, with TLS.
    ///   - sentinel: the lines of a Sentinel's configuration; nil for a server.
    init(
        _ more: [String] = [],
        tls: TestServer? = nil,
        password: String? = nil,
        isNode: Bool = false,
        sentinel: [String]? = nil
    ) throws {
        folder = try TemporaryFolder()
        self.password = password
        let ports = try (0..<3).map { _ in try TestSocket.reserveRefusingPort() }
        reserved = ports.map(\.descriptor)
        port = ports[0].port
        tlsPort = tls == nil ? nil : ports[1].port
        busPort = ports[2].port
        var settings = [
            ("port", "\(port)"), ("bind", "127.0.0.1"), ("dir", folder.path), ("daemonize", "no"),
            ("loglevel", "warning"),
        ]
        if let password { settings.append(("requirepass", password)) }
        if let tls, let tlsPort {
            let files = try tls.write(to: folder, name: "server")
            let roots = try folder.write(Stage.pki.root.certificate.pem, as: "roots.pem")
            settings += [
                ("tls-port", "\(tlsPort)"), ("tls-cert-file", files.certificate), ("tls-key-file", files.key),
                ("tls-ca-cert-file", roots), ("tls-auth-clients", "no"),
            ]
        }
        if let sentinel {
            let lines = settings.map { "\($0) \($1)" } + sentinel
            let file = try folder.write(lines.joined(separator: "\n") + "\n", as: "sentinel.conf")
            arguments = [file, "--sentinel"]
        } else {
            settings += [("save", ""), ("appendonly", "no")]
            if let password { settings.append(("masterauth", password)) }
            if isNode {
                settings += [
                    ("cluster-enabled", "yes"), ("cluster-config-file", "nodes.conf"),
                    ("cluster-node-timeout", "1000"), ("cluster-port", "\(busPort)"),
                ]
            }
            arguments = settings.flatMap { ["--\($0)", $1] } + more
        }
        try start()
    }

    deinit {
        process.with { $0 = nil }
        for descriptor in reserved { close(descriptor) }
    }

    /// Starts it on the same port; what it had is gone, except for a node's knowledge of its cluster.
    func start() throws {
        let child = try ChildProcess(try Programs.path(of: Programs.redis), arguments)
        process.with { $0 = child }
        try Patience.poll(for: "Redis to start") {
            if let code = child.exitCode {
                throw ChildProcess.Failure(
                    description: "\(Programs.redis) ended with \(code): \(child.output) \(child.errors)"
                )
            }
            return try? client().reply(to: [Array("PING".utf8)]).string == "PONG" ? true : nil
        }
    }

    /// Ends it as a crash does.
    func kill() throws {
        let child = process.read { $0 }
        child?.signal(SIGKILL)
        try child?.waitForExit()
        process.with { $0 = nil }
    }

    /// From now on it is silent; the system still takes connections for it.
    func pause() { process.read { $0 }?.signal(SIGSTOP) }

    func resume() { process.read { $0 }?.signal(SIGCONT) }

    func client() throws -> RedisClient { try RedisClient(port: port, password: password) }

    var address: String { "127.0.0.1:\(port)" }

    /// What it has written.
    var log: String { process.read { $0.map { $0.output + $0.errors } } ?? "" }
}

/// A primary with one replica, and three Sentinels that watch them. Servers and Sentinels want a password each.
final class RedisSentinels: Sendable {
    static let name = "mymaster"
    static let password = "password-of-the-servers"
    static let sentinelPassword = "password-of-the-sentinels"

    let primary: RedisProcess
    let replica: RedisProcess
    let sentinels: [RedisProcess]

    /// - Parameter tls: the identity of all, which then speak TLS with each other and with clients.
    init(tls: TestServer? = nil) throws {
        let more = tls == nil ? [] : ["--tls-replication", "yes"]
        let primary = try RedisProcess(more, tls: tls, password: Self.password)
        self.primary = primary
        let port = primary.tlsPort ?? primary.port
        replica = try RedisProcess(["--replicaof", "127.0.0.1", "\(port)"] + more, tls: tls, password: Self.password)
        // A Sentinel that does not see a replica at once looks again after ten seconds.
        try Patience.poll(for: "the replica to be complete", every: 0.05) { [replica] in
            try replica.client().command("INFO", "replication").string?.contains("master_link_status:up") == true
                ? true : nil
        }
        sentinels = try (0..<3).map { _ in
            try RedisProcess(
                tls: tls,
                password: Self.sentinelPassword,
                sentinel: (tls == nil ? [] : ["tls-replication yes"]) + [
                    "sentinel monitor \(Self.name) 127.0.0.1 \(port) 2",
                    "sentinel auth-pass \(Self.name) \(Self.password)",
                    "sentinel down-after-milliseconds \(Self.name) 500",
                    "sentinel failover-timeout \(Self.name) 3000",
                ]
            )
        }
        for sentinel in sentinels {
            try Patience.poll(for: "the Sentinels to know each other", every: 0.1) {
                let state = try Self.state(of: sentinel)
                return state["num-slaves"] == "1" && state["num-other-sentinels"] == "2" ? true : nil
            }
        }
    }

    private static func state(of sentinel: RedisProcess) throws -> [String: String] {
        let words = try sentinel.client().command("SENTINEL", "MASTER", name).elements.compactMap(\.string)
        return Dictionary(stride(from: 0, to: words.count - 1, by: 2).map { (words[$0], words[$0 + 1]) }) { $1 }
    }

    /// `cache.redis` for a proxy.
    var settings: [String: Any] {
        let isTLS = primary.tlsPort != nil
        let places = sentinels.map { "127.0.0.1:\($0.tlsPort ?? $0.port)" }.joined(separator: ",")
        return SharedStage.redis(sentinels).merging([
            "url": "redis\(isTLS ? "s" : "")://\(places)", "sentinel": Self.name, "passwordFile": "redis.password",
            "sentinelPasswordFile": "sentinel.password",
        ]) { $1 }
    }

    /// The files that the settings name.
    static let files = ["redis.password": password + "\n", "sentinel.password": sentinelPassword + "\n"]

    /// Waits until the replica is the primary.
    func waitForFailover() throws {
        try Patience.poll(for: "the failover", seconds: 60, every: 0.1) {
            // Sentinel ends the connections of clients to the server that it makes the primary.
            (try? replica.client().command("ROLE"))?.elements.first?.string == "master" ? true : nil
        }
    }
}

/// A cluster of three primaries.
final class RedisCluster: Sendable {
    static let slots = 16_384

    let nodes: [RedisProcess]

    init() throws {
        nodes = try (0..<3).map { _ in try RedisProcess(isNode: true) }
        let share = Self.slots / nodes.count
        for (number, node) in nodes.enumerated() {
            let client = try node.client()
            try client.command("CLUSTER", "SET-CONFIG-EPOCH", "\(number + 1)")
            let last = number == nodes.count - 1 ? Self.slots - 1 : (number + 1) * share - 1
            try client.command("CLUSTER", "ADDSLOTSRANGE", "\(number * share)", "\(last)")
        }
        for other in nodes.dropFirst() {
            try nodes[0].client().command("CLUSTER", "MEET", "127.0.0.1", "\(other.port)", "\(other.busPort)")
        }
        try waitUntilWhole()
    }

    /// Waits until each node serves all slots.
    func waitUntilWhole() throws {
        for node in nodes {
            try Patience.poll(for: "the cluster to be whole", seconds: 60, every: 0.05) {
                let text = try node.client().command("CLUSTER", "INFO").string ?? ""
                return text.contains("cluster_state:ok") && text.contains("cluster_known_nodes:3") ? true : nil
            }
        }
    }

    /// Moves a slot with its keys from one node to another, as `redis-cli --cluster reshard` does.
    func move(slot: Int, from source: Int, to target: Int) throws {
        let (old, new) = (try nodes[source].client(), try nodes[target].client())
        let names = try [old, new].map { try $0.command("CLUSTER", "MYID").string ?? "" }
        try new.command("CLUSTER", "SETSLOT", "\(slot)", "IMPORTING", names[0])
        try old.command("CLUSTER", "SETSLOT", "\(slot)", "MIGRATING", names[1])
        while true {
            let keys = try old.command("CLUSTER", "GETKEYSINSLOT", "\(slot)", "100").elements.compactMap(\.bytes)
            if keys.isEmpty { break }
            let words = ["MIGRATE", "127.0.0.1", "\(nodes[target].port)", "", "0", "5000", "KEYS"].map {
                Array($0.utf8)
            }
            try old.command(words + keys)
        }
        for client in [new, old] { try client.command("CLUSTER", "SETSLOT", "\(slot)", "NODE", names[1]) }
    }

    /// The slots of the keys that a node has.
    func slots(of node: Int) throws -> Set<Int> {
        let client = try nodes[node].client()
        return Set(
            try client.hashes().compactMap { key in
                guard case .integer(let slot) = try client.command([Array("CLUSTER".utf8), Array("KEYSLOT".utf8), key])
                else { return nil }
                return slot
            }
        )
    }
}

/// A relay to a server whose bytes arrive late.
final class SlowRelay: Sendable {
    private let delay: Monitor<Double>
    private let relay: RecordRelay

    init(to port: UInt16, seconds: Double) throws {
        let delay = Monitor(seconds)
        self.delay = delay
        relay = try RecordRelay(to: port) { stream in
            while let bytes = stream.nextBytes() {
                Thread.sleep(forTimeInterval: delay.read { $0 })
                try stream.deliver(bytes)
            }
        }
    }

    var address: String { "127.0.0.1:\(relay.port)" }

    func setDelay(seconds: Double) { delay.with { $0 = seconds } }
}
