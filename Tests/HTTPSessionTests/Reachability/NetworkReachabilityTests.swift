// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import HTTPSession
import HTTPSessionFoundation
import TestSupport
import Testing

/// These tests run in a network namespace of their own, where links really go up and down.
@Suite("Reachability", .onOwnThreads)
struct NetworkReachabilityTests {
    /// A probe in a namespace, and the network's commands there.
    private struct Network {
        let probe: ChildProcess

        init(host: String? = nil) throws {
            let arguments = ["--map-root-user", "--net", try Programs.built("ReachabilityProbe")]
            probe = try ChildProcess(try Programs.path(of: "unshare"), arguments + (host.map { [$0] } ?? []))
        }

        /// Waits for the statuses that have been told since the start, repeated ones included.
        func expect(_ statuses: [String]) throws {
            let told = try probe.waitForOutput("\(statuses)") { output in
                let lines = output.split(separator: "\n").map(String.init)
                return lines.count >= statuses.count ? lines : nil
            }
            #expect(told == statuses)
        }

        func ip(_ commands: String...) throws {
            for command in commands {
                let result = try Programs.run(
                    "nsenter",
                    ["--target", "\(probe.identifier)", "--user", "--net", "--preserve-credentials"]
                        + [try Programs.path(of: "ip")] + command.split(separator: " ").map(String.init)
                )
                try #require(result.exitCode == 0, "ip \(command): \(result.errors)")
            }
        }

        /// A link whose carrier is the state of its peer.
        func addLink() throws {
            try ip(
                "link add eth7 type veth peer name peer7",
                "address add 192.0.2.2/24 dev eth7",
                "link set eth7 up",
                "link set peer7 up"
            )
        }
    }

    @Test("a default route and its link's carrier decide whether the network is reachable")
    func wholeNetwork() throws {
        let network = try Network()
        let up = "reachable(HTTPSessionCore.NetworkReachabilityStatus.ConnectionType.ethernet)"
        try network.expect(["notReachable"])
        try network.addLink()
        try network.ip("route add default via 192.0.2.1")
        try network.expect(["notReachable", up])
        try network.ip("link set peer7 down")
        try network.expect(["notReachable", up, "notReachable"])
        try network.ip("link set peer7 up")
        try network.expect(["notReachable", up, "notReachable", up])
        try network.ip("route replace blackhole default")
        try network.expect(["notReachable", up, "notReachable", up, "notReachable"])
    }

    @Test("a host is reachable when a route leads to it, whatever other routes do")
    func oneHost() throws {
        let network = try Network(host: "198.51.100.7")
        let up = "reachable(HTTPSessionCore.NetworkReachabilityStatus.ConnectionType.ethernet)"
        try network.expect(["notReachable"])
        try network.addLink()
        try network.ip("route add 198.51.100.0/24 via 192.0.2.1")
        try network.expect(["notReachable", up])
        try network.ip("route add unreachable 198.51.100.7/32")
        try network.expect(["notReachable", up, "notReachable"])
    }

    @Test("a name is looked up anew when the network changes")
    func oneName() throws {
        let network = try Network(host: "localhost")
        try network.expect(["notReachable"])
        try network.ip("link set lo up")
        try network.expect(
            ["notReachable", "reachable(HTTPSessionCore.NetworkReachabilityStatus.ConnectionType.other)"]
        )
    }

    @Test("loopback is reachable from here, and its status is unknown when nobody listens")
    func listening() throws {
        let manager = NetworkReachabilityManager(host: try Host("127.0.0.1"))
        #expect(manager.status == .unknown && !manager.isListening)
        let told = Monitor<[NetworkReachabilityManager.NetworkReachabilityStatus]>([])
        try manager.startListening { status in told.with { $0.append(status) } }
        #expect(try told.wait(for: "a status") { $0.first } == .reachable(.other))
        #expect(manager.isListening && manager.isReachable)
        #expect(!manager.isReachableOnCellular && !manager.isReachableOnEthernetOrWiFi)
        manager.stopListening()
        #expect(manager.status == .unknown && !manager.isListening)
    }

    @Test("a stream of statuses ends when listening does")
    func streams() async throws {
        let manager = NetworkReachabilityManager(host: try Host("127.0.0.1"))
        var seen: [NetworkReachabilityManager.NetworkReachabilityStatus] = []
        for await status in try manager.statuses() {
            seen.append(status)
            manager.stopListening()
        }
        #expect(seen == [.reachable(.other)])
    }

    @Test("a listener may stop, and start another")
    func stopInTheListener() throws {
        let manager = NetworkReachabilityManager(host: try Host("127.0.0.1"))
        let calls = Monitor<[String]>([])
        try manager.startListening { [manager] _ in
            calls.with { $0.append("first") }
            try? manager.startListening { _ in
                calls.with { $0.append("second") }
                manager.stopListening()
                calls.with { $0.append("stopped") }
            }
        }
        let all = try calls.wait(for: "three calls") { $0.count == 3 ? $0 : nil }
        #expect(all == ["first", "second", "stopped"])
        #expect(!manager.isListening)
    }

    @Test("a manager of a name listens again after it has stopped")
    func listeningAgain() throws {
        let manager = NetworkReachabilityManager(host: try Host("localhost"))
        for round in 1...3 {
            let told = Monitor<[NetworkReachabilityManager.NetworkReachabilityStatus]>([])
            try manager.startListening { status in told.with { $0.append(status) } }
            #expect(try told.wait(for: "a status in round \(round)") { $0.first } == .reachable(.other))
            manager.stopListening()
            #expect(manager.status == .unknown && !manager.isListening)
        }
    }

    /// Something that a listener holds.
    private final class Held: Sendable {
        private let gone: Monitor<Bool>
        init(_ gone: Monitor<Bool>) { self.gone = gone }
        deinit { gone.with { $0 = true } }
    }

    @Test("a manager that is released listens no more, and lets go of its listener")
    func released() throws {
        let gone = Monitor(false)
        let told = Monitor(0)
        var manager: NetworkReachabilityManager? = NetworkReachabilityManager(host: try Host("127.0.0.1"))
        weak let watched = manager
        do {
            let held = Held(gone)
            try manager?.startListening { _ in withExtendedLifetime(held) { told.with { $0 += 1 } } }
        }
        _ = try told.wait(for: "a status") { $0 > 0 ? true : nil }
        manager = nil
        #expect(watched == nil)
        _ = try gone.wait(for: "the listener's end") { $0 ? true : nil }
    }

    @Test("a stream of a manager that is released ends")
    func releasedStream() async throws {
        var manager: NetworkReachabilityManager? = NetworkReachabilityManager(host: try Host("127.0.0.1"))
        let statuses = try #require(try manager?.statuses())
        var seen: [NetworkReachabilityManager.NetworkReachabilityStatus] = []
        for await status in statuses {
            seen.append(status)
            manager = nil
        }
        #expect(seen == [.reachable(.other)] && manager == nil)
    }

    @Test("the whole network's manager posts notifications too")
    func notificationOfTheNetwork() throws {
        let manager = NetworkReachabilityManager()
        let told = Monitor<[NetworkReachabilityManager.NetworkReachabilityStatus]>([])
        let center = NotificationCenter()
        let observer = center.addObserver(
            forName: NetworkReachabilityManager.statusDidChangeNotification,
            object: manager,
            queue: nil
        ) { notification in
            let status = notification.userInfo?[NetworkReachabilityManager.statusKey]
            guard let status = status as? NetworkReachabilityManager.NetworkReachabilityStatus else { return }
            told.with { $0.append(status) }
        }
        defer { center.removeObserver(observer) }
        try manager.startPostingNotifications(to: center)
        // Whether there is a network is not this test's matter.
        #expect(try told.wait(for: "a notification") { $0.first } != .unknown)
        manager.stopListening()
    }

    @Test("a change is posted as a notification")
    func notification() throws {
        let manager = NetworkReachabilityManager(host: try Host("127.0.0.1"))
        let told = Monitor<[NetworkReachabilityManager.NetworkReachabilityStatus]>([])
        let center = NotificationCenter()
        let observer = center.addObserver(
            forName: NetworkReachabilityManager.statusDidChangeNotification,
            object: manager,
            queue: nil
        ) { notification in
            let status = notification.userInfo?[NetworkReachabilityManager.statusKey]
            guard let status = status as? NetworkReachabilityManager.NetworkReachabilityStatus else { return }
            told.with { $0.append(status) }
        }
        defer { center.removeObserver(observer) }
        try manager.startPostingNotifications(to: center)
        #expect(try told.wait(for: "a notification") { $0.first } == .reachable(.other))
        manager.stopListening()
    }

    @Test("many threads start and stop one manager")
    func manyThreads() async throws {
        let manager = NetworkReachabilityManager(host: try Host("127.0.0.1"))
        let failures = Monitor(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<20 {
                        if (try? manager.startListening { _ in }) == nil { failures.with { $0 += 1 } }
                        _ = manager.isReachable
                        manager.stopListening()
                    }
                }
            }
        }
        #expect(failures.with { $0 } == 0)
        #expect(!manager.isListening)
    }
}
