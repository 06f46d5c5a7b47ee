// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore
import Synchronization

/// One name on its way to its addresses. A class to inherit from; all of it belongs to the loop.
class NameLookup {
    /// Called once, at the end of a turn, with the time to live in seconds.
    fileprivate var completion: ((NameAnswer, _ lifetime: UInt64) -> Void)?
    fileprivate let loop: EventLoop

    fileprivate init(_ loop: EventLoop, _ completion: @escaping (NameAnswer, UInt64) -> Void) {
        self.loop = loop
        self.completion = completion
    }

    /// Gives the lookup up; the completion is not called any more.
    func cancel() { completion = nil }

    fileprivate func finish(_ answer: NameAnswer, lifetime: UInt64) {
        let completion = completion
        self.completion = nil
        completion?(answer, lifetime)
    }
}

/// A lookup by c-ares, which asks the name servers. `NameSearch` decides; this class carries out.
///
/// Each lookup has a channel of its own, so that it can be given up by itself, uses a source port of its own, which
/// makes forged responses harder, and follows changes of `/etc/resolv.conf`.
final class DNSLookup: NameLookup {
    /// nil after the end.
    private var lookup: OpaquePointer?
    /// There before the first query.
    private var search: NameSearch!
    private var sockets: [NameSocket] = []
    private var timer: LoopTimer!
    /// When the search goes on without a response.
    private var searchTime: UInt64?
    /// The addresses of the response that comes in.
    private var addresses: FirstAddresses
    private let isCheck: Bool
    private var lifetime = UInt64.max
    private var isDescriptorMissing = false
    private var hasEnded = false
    /// c-ares is on the stack, and must not be freed.
    private var depth = 0

    /// - Parameters:
    ///   - isCheck: whether an address is looked for among all of the name's.
    ///   - servers: instead of those of `/etc/resolv.conf`.
    init(
        _ name: String,
        isCheck: Bool,
        loop: EventLoop,
        servers: String?,
        _ completion: @escaping (NameAnswer, _ lifetime: UInt64) -> Void
    ) {
        self.isCheck = isCheck
        addresses = FirstAddresses(most: FirstAddresses.most(isCheck: isCheck))
        super.init(loop, completion)
        timer = LoopTimer { [unowned self] in timePassed() }
        carryOut(begin(name, servers))
        armTimer()
    }

    private func begin(_ name: String, _ servers: String?) -> NameSearch.Step {
        var callbacks = pinproxy_name_callbacks(
            may_use: { owner, descriptor in DNSLookup.of(owner).mayUse(descriptor) },
            wait: { owner, descriptor, readable, writable in
                DNSLookup.of(owner).wait(for: descriptor, readable != 0, writable != 0)
            },
            address: { owner, address, length, lifetime in
                DNSLookup.of(owner).note(address!, length, lifetime)
            },
            end: { owner, family, result, words in
                DNSLookup.of(owner).didRespond(family == AF_INET ? .ipv4 : .ipv6, result, words!)
            }
        )
        lookup = pinproxy_name_create(servers, &callbacks, Unmanaged.passUnretained(self).toOpaque())
        guard let lookup else {
            let reason: NameFailure.Reason = canOpenDescriptor ? .failed : .withoutDescriptor
            let failure = NameFailure(reason: reason, words: "c-ares could not be set up")
            return .end(.failure(failure), lifetime: 0)
        }
        var domains: [String] = []
        while let domain = pinproxy_name_domain(lookup, Int32(domains.count)) {
            domains.append(String(cString: domain))
        }
        let dots = Int(pinproxy_name_dots(lookup))
        search = NameSearch(name, domains: domains, dots: dots, isCheck: isCheck, source: SourceAddress.find)
        return search.begin()
    }

    deinit { close() }

    private static func of(_ owner: UnsafeMutableRawPointer?) -> DNSLookup {
        Unmanaged<DNSLookup>.fromOpaque(owner!).takeUnretainedValue()
    }

    override func cancel() {
        super.cancel()
        if depth == 0 { close() }
    }

    private func close() {
        guard let freed = lookup else { return }
        lookup = nil
        depth += 1
        // Closes the descriptors, each with a call of `wait`.
        pinproxy_name_free(freed)
        depth -= 1
        loop.remove(timer)
        for socket in sockets { loop.unregister(socket.descriptor, of: socket) }
        sockets = []
    }

    // MARK: The search

    private func carryOut(_ step: NameSearch.Step) {
        guard !hasEnded else { return }
        switch step {
        case .ask(let name): ask(name)
        case .wait(let time): searchTime = time
        case .end(let answer, let lifetime):
            hasEnded = true
            loop.atEndOfTurn { [self] in
                loop.noteWork(.name)
                close()
                finish(answer, lifetime: lifetime)
            }
        }
    }

    /// Queries may end within this call, and the second one may begin the next ones.
    private func ask(_ name: String) {
        searchTime = nil
        guard let lookup else { return }
        depth += 1
        pinproxy_name_ask(lookup, name)
        depth -= 1
    }

    private func timePassed() {
        if let searchTime, loop.now >= searchTime { carryOut(search.proceed(at: loop.now)) }
        process(-1, -1)
    }

    // MARK: Calls of c-ares

    fileprivate func process(_ readable: Int32, _ writable: Int32) {
        guard let lookup, !hasEnded else { return }
        depth += 1
        pinproxy_name_process(lookup, readable, writable)
        depth -= 1
        // It was cancelled from within c-ares.
        if depth == 0, completion == nil { return close() }
        armTimer()
    }

    private func armTimer() {
        guard let lookup, !hasEnded else { return }
        let wait = pinproxy_name_wait(lookup)
        let time = wait < 0 ? nil : loop.now &+ TimeSpan.milliseconds(max(Int(wait), 1)).nanoseconds
        if let next = [time, searchTime].compactMap({ $0 }).min() {
            loop.arm(timer, at: next)
        } else {
            loop.disarm(timer)
        }
    }

    private func mayUse(_ descriptor: Int32) -> Bool {
        isDescriptorMissing = DescriptorReserve.holds(descriptor)
        return !isDescriptorMissing
    }

    private func wait(for descriptor: Int32, _ isReadable: Bool, _ isWritable: Bool) {
        var readiness: Readiness = []
        if isReadable { readiness.insert(.readable) }
        if isWritable { readiness.insert(.writable) }
        let index = sockets.firstIndex { $0.descriptor == descriptor }
        guard !readiness.isEmpty else {
            guard let index else { return }
            loop.unregister(descriptor, of: sockets.remove(at: index))
            return
        }
        if let index, loop.modify(descriptor, readiness, of: sockets[index]) { return }
        let socket = NameSocket(descriptor, of: self)
        // Without a registration the lookup ends by time.
        guard (try? loop.register(descriptor, readiness, socket)) != nil else { return }
        sockets.append(socket)
    }

    private func note(_ address: UnsafePointer<sockaddr>, _ length: UInt32, _ seconds: Int32) {
        guard let address = SocketAddress(address, length: length) else { return }
        addresses.append(address)
        lifetime = min(lifetime, UInt64(max(seconds, 0)))
    }

    private func didRespond(
        _ family: NameSearch.Family,
        _ result: pinproxy_name_result,
        _ words: UnsafePointer<CChar>
    ) {
        guard !hasEnded else { return }
        let answer: NameAnswer =
            switch result {
            case PINPROXY_NAME_FOUND where !addresses.all.isEmpty: .success(addresses.all)
            default: .failure(NameFailure(reason: reason(result), words: String(cString: words)))
            }
        let isAbsent = result == PINPROXY_NAME_ABSENT
        let response = NameSearch.Response(answer: answer, lifetime: lifetime, isAbsent: isAbsent)
        addresses = FirstAddresses(most: FirstAddresses.most(isCheck: isCheck))
        lifetime = .max
        carryOut(search.note(response, for: family, at: loop.now))
    }

    private func reason(_ result: pinproxy_name_result) -> NameFailure.Reason {
        switch result {
        case PINPROXY_NAME_FOUND, PINPROXY_NAME_UNKNOWN, PINPROXY_NAME_ABSENT: .unknown
        case PINPROXY_NAME_SILENT: .silent
        default: isDescriptorMissing || !canOpenDescriptor ? .withoutDescriptor : .failed
        }
    }

    /// c-ares does not tell that the system has no descriptor for it.
    private var canOpenDescriptor: Bool {
        let descriptor = pinproxy_datagram_socket(AF_INET)
        guard descriptor >= 0 else { return !DialFailure.isOfDescriptors(-descriptor) }
        defer { Glibc.close(descriptor) }
        return !DescriptorReserve.holds(descriptor)
    }
}

/// A descriptor of c-ares on the loop.
private final class NameSocket: EventHandler {
    let descriptor: Int32
    private unowned let lookup: DNSLookup

    init(_ descriptor: Int32, of lookup: DNSLookup) {
        self.descriptor = descriptor
        self.lookup = lookup
    }

    override func ready(_ readiness: Readiness) {
        lookup.loop.noteWork(.name)
        let isWritable = readiness.contains(.writable)
        // c-ares reads a socket's error.
        let isReadable = !isWritable || readiness != .writable
        lookup.process(isReadable ? descriptor : -1, isWritable ? descriptor : -1)
    }
}

/// A lookup by the system's resolver (getaddrinfo(3)), on one of the process's four threads for it.
final class SystemLookup: NameLookup {
    private static let threads = BlockingThreads(name: "names")
    /// Later there may be no descriptors for them.
    static func startThreads() { _ = threads }

    /// getaddrinfo tells no time to live.
    static let lifetime: UInt64 = 30

    /// `@unchecked Sendable`: `lookup` is for the loop's thread alone.
    private final class Order: @unchecked Sendable {
        let isCancelled = Atomic<Bool>(false)
        weak var lookup: SystemLookup?

        func carryOut(_ name: String, isCheck: Bool, for loop: EventLoop) {
            guard !isCancelled.load(ordering: .relaxed) else { return }
            let answer = SystemLookup.find(name, isCheck: isCheck)
            loop.submit { self.lookup?.finish(answer, lifetime: SystemLookup.lifetime) }
        }
    }

    private let order = Order()

    init(
        _ name: String,
        isCheck: Bool,
        loop: EventLoop,
        _ completion: @escaping (NameAnswer, _ lifetime: UInt64) -> Void
    ) {
        super.init(loop, completion)
        order.lookup = self
        let order = order
        Task(executorPreference: Self.threads) { order.carryOut(name, isCheck: isCheck, for: loop) }
    }

    override func cancel() {
        super.cancel()
        order.isCancelled.store(true, ordering: .relaxed)
    }

    fileprivate static func find(_ name: String, isCheck: Bool) -> NameAnswer {
        do {
            let most = FirstAddresses.most(isCheck: isCheck)
            return .success(FirstAddresses(of: try AddressLookup.find(name), most: most).all)
        } catch {
            let reason: NameFailure.Reason = error.isUnknown ? .unknown : .failed
            return .failure(NameFailure(reason: reason, words: error.words))
        }
    }
}
