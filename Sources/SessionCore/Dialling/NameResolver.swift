// SPDX-License-Identifier: Apache-2.0
import IOCore

/// A place among those that wait for a name.
struct NameWait {
    /// Of the lookup.
    fileprivate let key: String
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
    /// The results of checks. Each is kept for a second, so that a name is checked at most once in a second.
    private var checks = NameCache()
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
        if let fixed = fixedAnswer(for: name) { return fixed }
        if let hosts, !hosts.isCurrent { return nil }
        return cache.answer(for: name, at: loop.now)
    }

    /// All addresses of a name, as a check has found them within the last second, or as no lookup would change them.
    ///
    /// - Returns: nil when the name has to be looked up for that.
    func checkedAnswer(for name: String) -> NameAnswer? {
        fixedAnswer(for: name) ?? checks.answer(for: name, at: loop.now)
    }

    /// The addresses of a name that no name server is asked for: one of the loopback interface (RFC 6761, section 6.3), or of
    /// `/etc/hosts`.
    private func fixedAnswer(for name: String) -> NameAnswer? {
        if name == "localhost" || name.hasSuffix(".localhost") { return .success(Self.loopback) }
        guard let hosts, hosts.isCurrent else { return nil }
        let addresses = hosts.addresses(of: name)
        return addresses.isEmpty ? nil : .success(addresses)
    }

    private static let loopback: [SocketAddress] = [
        .loopback(port: 0), SocketAddress(ipv6Upper: 0, lower: 1, port: 0),
    ]

    /// A check has a lookup of its own, under a key that no name has: those that want the known addresses do not wait for it.
    private static let checkMark = "\n"

    /// The name of a lookup, and whether it is a check.
    private static func parts(of key: String) -> (name: String, isCheck: Bool) {
        key.hasSuffix(checkMark) ? (String(key.dropLast()), true) : (key, false)
    }

    /// Waits for a lookup of the name, and begins with it when there is none.
    ///
    /// - Parameters:
    ///   - isCheck: whether all addresses are wanted, as they are now and whatever is known of them. A failure of such a lookup
    ///     leaves the known result as it is.
    ///   - completion: called once, at the end of a turn; not after `withdraw`.
    func wait(for name: String, isCheck: Bool = false, _ completion: @escaping (NameAnswer) -> Void) -> NameWait {
        let key = isCheck ? name + Self.checkMark : name
        lastNumber += 1
        let isFirst = pending[key] == nil
        pending[key, default: PendingName()].waiters[lastNumber] = completion
        if isFirst { begin(key) }
        return NameWait(key: key, number: lastNumber)
    }

    private func begin(_ key: String) {
        guard let hosts, !hosts.isCurrent else { return enqueue(key) }
        unqueued.append(key)
        guard unqueued.count == 1 else { return }
        hosts.update { [unowned self] failure in
            let keys = unqueued
            unqueued = []
            for key in keys { didUpdateHosts(key, failure) }
        }
    }

    private func enqueue(_ key: String) {
        pending[key]?.isQueued = true
        carryOut(queue.add(key, at: loop.now))
    }

    private func didUpdateHosts(_ key: String, _ failure: NameFailure?) {
        // It may have been withdrawn and wanted again meanwhile.
        guard pending[key]?.isQueued == false else { return }
        if let failure { return complete(key, .failure(failure)) }
        let (name, isCheck) = Self.parts(of: key)
        if let answer = isCheck ? checkedAnswer(for: name) : answer(for: name) {
            complete(key, answer)
        } else {
            enqueue(key)
        }
    }

    /// A lookup that nothing waits for any more is given up.
    func withdraw(_ wait: NameWait) {
        guard pending[wait.key]?.waiters.removeValue(forKey: wait.number) != nil,
            let name = pending[wait.key], name.waiters.isEmpty
        else { return }
        pending[wait.key] = nil
        name.lookup?.cancel()
        carryOut(queue.remove(wait.key, at: loop.now))
    }

    private func carryOut(_ actions: [NameQueue.Action]) {
        for action in actions {
            switch action {
            case .start(let key): pending[key]?.lookup = makeLookup(key)
            case .stop(let key):
                pending[key]?.lookup?.cancel()
                pending[key]?.lookup = nil
            }
        }
        if let next = queue.nextStep() { loop.arm(timer, at: next) } else { loop.disarm(timer) }
    }

    private func makeLookup(_ key: String) -> NameLookup {
        let (name, isCheck) = Self.parts(of: key)
        let completion = { [unowned self] (answer: NameAnswer, lifetime: UInt64) in
            // The want of a descriptor is this process's own: the request makes room for one, and asks again at once.
            if answer.isWorthKeeping { keep(answer, for: name, isCheck: isCheck, lifetime: lifetime) }
            complete(key, answer)
        }
        return switch resolution {
        case .dns: DNSLookup(name, isCheck: isCheck, loop: loop, servers: servers, completion)
        case .system: SystemLookup(name, isCheck: isCheck, loop: loop, completion)
        }
    }

    private func keep(_ answer: NameAnswer, for name: String, isCheck: Bool, lifetime: UInt64) {
        guard isCheck else { return cache.keep(answer, for: name, lifetime: lifetime, at: loop.now) }
        checks.keep(answer, for: name, lifetime: NameCache.lifetimes.lowerBound, at: loop.now)
        guard case .success(let addresses) = answer else { return }
        cache.keep(.success(FirstAddresses(of: addresses).all), for: name, lifetime: lifetime, at: loop.now)
    }

    private func complete(_ key: String, _ answer: NameAnswer) {
        let ended = pending.removeValue(forKey: key)
        carryOut(queue.remove(key, at: loop.now))
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
