// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A place among those that wait for a name.
struct NameWait {
    fileprivate let name: String
    fileprivate let number: UInt64
}

/// The names of a session: one lookup a name at a time, however many dials wait for it. `NameCache` and `NameQueue` decide;
/// this class carries out. Belongs to the loop.
final class NameResolver {
    /// A name that dials wait for.
    private struct PendingName {
        /// Whether it is in the queue: until then it waits for `/etc/hosts`.
        var isQueued = false
        /// nil while it has no place.
        var lookup: NameLookup?
        var waiters: [UInt64: (NameAnswer) -> Void] = [:]
    }

    private let loop: EventLoop
    private let resolution: NameResolution
    private let servers: String?
    /// nil with the system's resolver, which reads the file itself.
    private let hosts: SystemHosts?
    private var cache = NameCache()
    private var queue: NameQueue
    private var pending: [String: PendingName] = [:]
    /// Those that wait for `/etc/hosts`, in their order.
    private var unqueued: [String] = []
    private var lastNumber: UInt64 = 0
    private var timer: LoopTimer!

    init(loop: EventLoop, _ configuration: SessionConfiguration, hosts: HostsReader = .system) {
        self.loop = loop
        resolution = configuration.resolver
        // A lookup by getaddrinfo cannot be cancelled, so that it is never stopped for another name: its patience is a year.
        queue = resolution == .system ? NameQueue(patience: .seconds(31_536_000)) : NameQueue()
        self.hosts = resolution == .system ? nil : SystemHosts(hosts, loop: loop)
        // As long as the process has descriptors for it.
        if resolution == .system { SystemLookup.startThreads() }
        servers = configuration.nameServers
        timer = LoopTimer { [unowned self] in carryOut(queue.proceed(at: self.loop.now)) }
    }

    /// Gives all lookups up.
    func close() {
        for name in pending.values { name.lookup?.cancel() }
        pending = [:]
        hosts?.close()
        loop.remove(timer)
    }

    /// - Returns: nil when the name has to be looked up.
    func answer(for name: String) -> NameAnswer? {
        // The loopback interface without a lookup (RFC 6761, section 6.3).
        if name == "localhost" || name.hasSuffix(".localhost") { return .success(Self.loopback) }
        if let hosts {
            guard hosts.isCurrent else { return nil }
            let addresses = hosts.addresses(of: name)
            if !addresses.isEmpty { return .success(addresses) }
        }
        return cache.answer(for: name, at: loop.now)
    }

    /// Whether another lookup would find the same: the name is one of the loopback interface, or `/etc/hosts` has it.
    func isFixed(_ name: String) -> Bool {
        if name == "localhost" || name.hasSuffix(".localhost") { return true }
        return hosts.map { $0.isCurrent && !$0.addresses(of: name).isEmpty } ?? false
    }

    private static let loopback: [SocketAddress] = [
        .loopback(port: 0), SocketAddress(ipv6Upper: 0, lower: 1, port: 0),
    ]

    /// Waits for a lookup of the name, and begins with it when there is none.
    ///
    /// - Parameter completion: called once, at the end of a turn; not after `withdraw`.
    func wait(for name: String, _ completion: @escaping (NameAnswer) -> Void) -> NameWait {
        lastNumber += 1
        let isFirst = pending[name] == nil
        pending[name, default: PendingName()].waiters[lastNumber] = completion
        if isFirst { begin(name) }
        return NameWait(name: name, number: lastNumber)
    }

    private func begin(_ name: String) {
        guard let hosts, !hosts.isCurrent else { return enqueue(name) }
        unqueued.append(name)
        guard unqueued.count == 1 else { return }
        hosts.update { [unowned self] failure in
            let names = unqueued
            unqueued = []
            for name in names { didUpdateHosts(name, failure) }
        }
    }

    private func enqueue(_ name: String) {
        pending[name]?.isQueued = true
        carryOut(queue.add(name, at: loop.now))
    }

    private func didUpdateHosts(_ name: String, _ failure: NameFailure?) {
        // It may have been withdrawn and wanted again meanwhile.
        guard pending[name]?.isQueued == false else { return }
        if let failure { return complete(name, .failure(failure)) }
        if let answer = answer(for: name) { complete(name, answer) } else { enqueue(name) }
    }

    /// A lookup that nothing waits for any more is given up.
    func withdraw(_ wait: NameWait) {
        guard pending[wait.name]?.waiters.removeValue(forKey: wait.number) != nil,
            let name = pending[wait.name], name.waiters.isEmpty
        else { return }
        pending[wait.name] = nil
        name.lookup?.cancel()
        carryOut(queue.remove(wait.name, at: loop.now))
    }

    private func carryOut(_ actions: [NameQueue.Action]) {
        for action in actions {
            switch action {
            case .start(let name): pending[name]?.lookup = makeLookup(name)
            case .stop(let name):
                pending[name]?.lookup?.cancel()
                pending[name]?.lookup = nil
            }
        }
        if let next = queue.nextStep() { loop.arm(timer, at: next) } else { loop.disarm(timer) }
    }

    private func makeLookup(_ name: String) -> NameLookup {
        let completion = { [unowned self] (answer: NameAnswer, lifetime: UInt64) in
            didEnd(name, answer, lifetime: lifetime)
        }
        return switch resolution {
        case .dns: DNSLookup(name, loop: loop, servers: servers, completion)
        case .system: SystemLookup(name, loop: loop, completion)
        }
    }

    private func didEnd(_ name: String, _ answer: NameAnswer, lifetime: UInt64) {
        // The want of a descriptor is this process's own: the request makes room for one, and asks again at once.
        if answer.isWorthKeeping { cache.keep(answer, for: name, lifetime: lifetime, at: loop.now) }
        complete(name, answer)
    }

    private func complete(_ name: String, _ answer: NameAnswer) {
        let ended = pending.removeValue(forKey: name)
        carryOut(queue.remove(name, at: loop.now))
        // In the order in which they came. A completion may withdraw other waiters. These are called nevertheless; `Dialler`
        // ignores them, because their dials are gone.
        for (_, complete) in (ended?.waiters ?? [:]).sorted(by: { $0.key < $1.key }) { complete(answer) }
    }
}

extension NameAnswer {
    fileprivate var isWorthKeeping: Bool {
        if case .failure(let failure) = self { failure.reason != .withoutDescriptor } else { true }
    }
}
