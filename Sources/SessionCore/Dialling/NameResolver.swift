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
    private struct Wanted {
        /// nil while it has no place.
        var lookup: NameLookup?
        var waiters: [UInt64: (NameAnswer) -> Void] = [:]
    }

    private let loop: EventLoop
    private let resolution: NameResolution
    private let servers: String?
    private var hosts = SystemHosts()
    private var cache = NameCache()
    private var queue: NameQueue
    private var wanted: [String: Wanted] = [:]
    private var lastNumber: UInt64 = 0
    private var timer: LoopTimer!

    init(loop: EventLoop, _ configuration: SessionConfiguration) {
        self.loop = loop
        resolution = configuration.resolver
        // getaddrinfo cannot be given up, so that a name of it keeps its place (a year is as good as for ever).
        queue = resolution == .system ? NameQueue(patience: .seconds(31_536_000)) : NameQueue()
        servers = configuration.nameServers
        timer = LoopTimer { [unowned self] in carryOut(queue.proceed(at: self.loop.now)) }
    }

    /// Gives all lookups up.
    func close() {
        for name in wanted.values { name.lookup?.cancel() }
        wanted = [:]
        loop.remove(timer)
    }

    /// - Returns: nil when the name has to be looked up.
    func answer(for name: String) -> NameAnswer? {
        // The loopback interface without a lookup (RFC 6761, section 6.3).
        if name == "localhost" || name.hasSuffix(".localhost") { return .success(Self.loopback) }
        if resolution == .dns {
            let addresses = hosts.addresses(of: name)
            if !addresses.isEmpty { return .success(addresses) }
        }
        return cache.answer(for: name, at: loop.now)
    }

    private static let loopback: [SocketAddress] = [
        .loopback(port: 0), SocketAddress(ipv6Upper: 0, lower: 1, port: 0),
    ]

    /// Waits for a lookup of the name, and begins with it when there is none.
    ///
    /// - Parameter completion: called once, at the end of a turn; not after `withdraw`.
    func wait(for name: String, _ completion: @escaping (NameAnswer) -> Void) -> NameWait {
        lastNumber += 1
        let isFirst = wanted[name] == nil
        wanted[name, default: Wanted()].waiters[lastNumber] = completion
        if isFirst { carryOut(queue.add(name, at: loop.now)) }
        return NameWait(name: name, number: lastNumber)
    }

    /// A lookup that nothing waits for any more is given up.
    func withdraw(_ wait: NameWait) {
        guard wanted[wait.name]?.waiters.removeValue(forKey: wait.number) != nil,
            let name = wanted[wait.name], name.waiters.isEmpty
        else { return }
        wanted[wait.name] = nil
        name.lookup?.cancel()
        carryOut(queue.remove(wait.name, at: loop.now))
    }

    private func carryOut(_ actions: [NameQueue.Action]) {
        for action in actions {
            switch action {
            case .start(let name): wanted[name]?.lookup = makeLookup(name)
            case .stop(let name):
                wanted[name]?.lookup?.cancel()
                wanted[name]?.lookup = nil
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
        let ended = wanted.removeValue(forKey: name)
        carryOut(queue.remove(name, at: loop.now))
        // In the order in which they came. One of them may end others by withdrawing them: these are called all the same,
        // and their dials are not there any more.
        for (_, complete) in (ended?.waiters ?? [:]).sorted(by: { $0.key < $1.key }) { complete(answer) }
    }
}

extension NameAnswer {
    fileprivate var isWorthKeeping: Bool {
        if case .failure(let failure) = self { failure.reason != .withoutDescriptor } else { true }
    }
}
