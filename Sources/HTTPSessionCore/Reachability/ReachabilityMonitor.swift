// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore

/// Watches the network on one loop, and carries out the machine's actions.
///
/// All members except `init` are for the loop's thread. `@unchecked Sendable`: it is passed to that thread before the
/// thread starts, and other threads reach it only through `EventLoop.submit`.
final class ReachabilityMonitor: @unchecked Sendable {
    private let loop: EventLoop
    private let changes: NetlinkSocket
    private let questions: NetlinkSocket
    private var machine: ReachabilityMachine
    private let report: (NetworkReachabilityStatus) -> Void
    private var isStopped = false

    /// The sockets belong to the network namespace of the calling thread.
    init(
        _ target: ReachabilityMachine.Target,
        loop: EventLoop,
        _ report: @escaping (NetworkReachabilityStatus) -> Void
    ) throws(IOFailure) {
        self.loop = loop
        self.report = report
        changes = try NetlinkSocket(watching: true)
        questions = try NetlinkSocket(watching: false)
        machine = ReachabilityMachine(target, isWireless: Self.isWireless)
    }

    func start() throws(IOFailure) {
        try loop.register(changes.descriptor, .readable, SocketHandler { [unowned self] in readChanges() })
        try loop.register(questions.descriptor, .readable, SocketHandler { [unowned self] in readReplies() })
        // Only now, since from here on a change is reported.
        perform(machine.networkChanged())
    }

    func stop() {
        guard !isStopped else { return }
        isStopped = true
        loop.unregister(changes.descriptor)
        loop.unregister(questions.descriptor)
    }

    private func readChanges() {
        while true {
            switch changes.receive({ _ in }) {
            case .messages, .lost: continue
            case .wouldBlock, .failed: return perform(machine.networkChanged())
            }
        }
    }

    private func readReplies() {
        while !isStopped {
            var messages: [NetlinkMessage]? = []
            switch questions.receive({ messages = NetlinkMessage.messages(in: $0, sequence: machine.sequence) }) {
            case .messages:
                guard let messages else {
                    perform(machine.repliesLost())
                    continue
                }
                for message in messages { perform(machine.received(message)) }
            case .lost:
                perform(machine.repliesLost())
            case .wouldBlock, .failed:
                return
            }
        }
    }

    private func perform(_ actions: [ReachabilityMachine.Action]) {
        for action in actions {
            guard !isStopped else { return }
            switch action {
            case .askLinks(let sequence): ask(.links, sequence)
            case .askRoutes(let sequence): ask(.routes, sequence)
            case .askRoute(let address, let sequence): ask(.route(to: address.networkOrder), sequence)
            case .resolve(let name, let sequence): resolve(name, sequence)
            case .report(let status): report(status)
            }
        }
    }

    private func ask(_ question: NetlinkSocket.Question, _ sequence: UInt32) {
        do {
            try questions.ask(question, sequence: sequence)
        } catch {
            // Handled as an error reply of the kernel: no buffers, or no route to that family of addresses.
            loop.atEndOfTurn { [weak self] in
                guard let self, machine.sequence == sequence else { return }
                perform(machine.received(.error(error.code)))
            }
        }
    }

    /// getaddrinfo(3) blocks, and runs on a thread of its own.
    private func resolve(_ name: String, _ sequence: UInt32) {
        weak let monitor = self
        let deliver: @Sendable ([IPAddress]) -> Void = { [loop] addresses in
            loop.submit { monitor?.resolved(addresses, sequence) }
        }
        do {
            try LoopThread(name: "reachability") { deliver(Self.addresses(of: name)) }.detach()
        } catch {
            deliver([])
        }
    }

    private func resolved(_ addresses: [IPAddress], _ sequence: UInt32) {
        perform(machine.resolved(addresses, sequence: sequence))
    }

    private static func addresses(of name: String) -> [IPAddress] {
        AddressLookup.addresses(of: name).compactMap { address in
            switch address.family {
            case .ipv4: IPAddress(ipv4: address.ipv4)
            case .ipv6: IPAddress(ipv6High: address.upper, low: address.lower)
            case .unix: nil
            }
        }
    }

    private static func isWireless(_ name: String) -> Bool {
        // The name of an interface contains no slash.
        access("/sys/class/net/\(name)/phy80211", F_OK) == 0 || access("/sys/class/net/\(name)/wireless", F_OK) == 0
    }
}

private final class SocketHandler: EventHandler {
    private let action: () -> Void

    init(_ action: @escaping () -> Void) {
        self.action = action
        super.init()
    }

    override func ready(_ readiness: Readiness) { action() }
}
