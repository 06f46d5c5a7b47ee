// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// One connection on its way to an endpoint, or to the proxy in front of it. First its name is looked up, then its addresses are
/// dialled: `AddressRace` decides, this class carries out.
///
/// Where there are several addresses, its owner keeps it until the one that has connected has answered, and has it dial the next
/// one otherwise. Belongs to the loop.
final class Dial {
    enum Outcome {
        /// A connected, non-blocking socket, which belongs to the receiver, and the address at its other end; nil when that is
        /// not known any more.
        case connected(Int32, to: SocketAddress?)
        case failed(SessionError)
        /// The process has no descriptor left.
        case failedWithoutDescriptor(SessionError)
    }

    let endpoint: Endpoint
    /// Microseconds from the start to the addresses of the name; absent before.
    private(set) var lookupTime = TransactionMetrics.absent
    private unowned let dialler: Dialler
    private let didEnd: (Outcome) -> Void
    private let isAnswered: () -> Bool
    private let startedAt: UInt64
    /// nil until the name is looked up.
    private var race: AddressRace?
    private var dials: [AddressDial] = []
    private var failures: [DialFailure] = []
    private var nameWait: NameWait?
    /// For the next step of a race; nil for one address.
    private var timer: LoopTimer?
    private var isOver = false

    /// The addresses that are dialled: `DNSLookup` keeps as many of both families.
    private static let addressLimit = 32
    /// A SOCKS proxy answers when it has made its own connection. RFC 8305's largest Connection Attempt Delay.
    private static let proxyDelay = TimeSpan.seconds(2)

    /// - Parameters:
    ///   - didEnd: called from the loop, never from within a call of this object's methods: once, and once more after each
    ///     `leave`; not after `cancel`.
    ///   - isAnswered: asked about the address that has connected, some time after `awaitAnswer`. Where it has not answered, the
    ///     owner has closed its socket by then, and the next one is dialled.
    init(
        _ endpoint: Endpoint,
        dialler: Dialler,
        didEnd: @escaping (Outcome) -> Void,
        isAnswered: @escaping () -> Bool
    ) {
        self.endpoint = endpoint
        self.dialler = dialler
        self.didEnd = didEnd
        self.isAnswered = isAnswered
        startedAt = dialler.loop.freshNow
    }

    /// Whether the name is still being looked up.
    var isLookingUp: Bool { race == nil }

    /// Whether the address that has connected may still be passed over for another one. A SOCKS proxy has answered by then.
    var needsAnswer: Bool { race?.isAlone == false && !endpoint.hasSOCKSProxy }

    // MARK: The name

    /// The place to connect to: the proxy, the fixed place, or the host.
    private var target: (host: Host, port: UInt16) {
        endpoint.proxy.map { ($0.host, $0.port) } ?? endpoint.resolve ?? (endpoint.host, endpoint.port)
    }

    func start() {
        if endpoint.checksResolve { checkPlace() } else { lookUp() }
    }

    /// Looks up whether the fixed address is one of the host's own. A result that is known already may be older than the client's, and
    /// has not all addresses of a name with many: an address that it lacks is looked for in a check.
    private func checkPlace() {
        let name = endpoint.host.authorityText
        if let known = dialler.names.answer(for: name) { return checkPlace(in: known) }
        nameWait = dialler.names.wait(for: name) { [self] answer in
            guard nameWait != nil else { return }
            nameWait = nil
            checkPlace(in: answer)
        }
    }

    private func checkPlace(in known: NameAnswer) {
        if holdsPlace(known) { return lookUp() }
        guard case .success = known else { return refusePlace(known) }
        let name = endpoint.host.authorityText
        if let checked = dialler.names.checkedAnswer(for: name) { return settlePlace(checked) }
        nameWait = dialler.names.wait(for: name, isCheck: true) { [self] answer in
            guard nameWait != nil else { return }
            nameWait = nil
            settlePlace(answer)
        }
    }

    private func settlePlace(_ answer: NameAnswer) {
        if holdsPlace(answer) { lookUp() } else { refusePlace(answer) }
    }

    private func holdsPlace(_ answer: NameAnswer) -> Bool {
        guard case .success(let addresses) = answer, let fixed = endpoint.fixedAddress else { return false }
        return addresses.contains { $0.ipAddress == fixed }
    }

    private func refusePlace(_ answer: NameAnswer) {
        guard case .success(let addresses) = answer else { return didResolve(answer, of: endpoint.host) }
        endLater(.failed(.misdirected(endpoint, found: addresses)))
    }

    private func lookUp() {
        let host = target.host
        if let address = host.address { return connect([SocketAddress(address, port: 0)]) }
        let name = host.authorityText
        if let answer = dialler.names.answer(for: name) { return didResolve(answer, of: host) }
        nameWait = dialler.names.wait(for: name) { [self] answer in
            // It may have been withdrawn in the same turn.
            guard nameWait != nil else { return }
            nameWait = nil
            didResolve(answer, of: host)
        }
    }

    private func didResolve(_ answer: NameAnswer, of host: Host) {
        switch answer {
        case .success(let addresses): connect(addresses)
        case .failure(let failure):
            let error = NameError(failure: failure, name: host.authorityText, endpoint: endpoint).error
            endLater(failure.reason == .withoutDescriptor ? .failedWithoutDescriptor(error) : .failed(error))
        }
    }

    // MARK: The addresses

    private func connect(_ addresses: [SocketAddress]) {
        lookupTime = Int64((dialler.loop.freshNow &- startedAt) / 1000)
        let port = target.port
        race = AddressRace(
            addresses.prefix(Self.addressLimit).map { $0.withPort(port) },
            delay: endpoint.hasSOCKSProxy ? Self.proxyDelay : AddressRace.attemptDelay,
            behind: dialler.failedAddresses,
            at: now
        )
        proceed()
    }

    private var now: UInt64 { dialler.loop.now }

    private func proceed() {
        while !isOver, let step = race?.step(at: now, &dialler.failedAddresses) {
            switch step {
            case .dial(let address): dial(address)
            case .giveUp(let address): giveUp(address)
            case .judge: return judge()
            case .wait(let end): return wait(until: end)
            case .end: return endLater(Outcome(failures))
            }
        }
    }

    private func dial(_ address: SocketAddress) {
        let dial = dialler.makeDial(to: address, for: endpoint) { [self] in addressDidEnd($0, $1) }
        if let failure = dialler.start(dial) { addressDidFail(address, failure) } else { dials.append(dial) }
    }

    private func addressDidFail(_ address: SocketAddress, _ failure: DialFailure) {
        failures.append(failure)
        race?.didFail(address, isItsOwn: failure.isItsOwn, at: now, &dialler.failedAddresses)
    }

    private func giveUp(_ address: SocketAddress) {
        guard let index = dials.firstIndex(where: { $0.address == address }) else { return }
        dialler.cancel(dials.remove(at: index))
    }

    private func wait(until end: UInt64?) {
        guard let end else {
            if let timer { dialler.loop.disarm(timer) }
            return
        }
        let timer = timer ?? LoopTimer { [unowned self] in proceed() }
        self.timer = timer
        dialler.loop.arm(timer, at: end)
    }

    /// The dial of an address has ended.
    private func addressDidEnd(_ dial: AddressDial, _ outcome: AddressDial.Outcome) {
        dialler.forget(dial)
        dials.removeAll { $0 === dial }
        switch outcome {
        case .connected(let descriptor, let peer):
            race?.didConnect(dial.address, at: now, &dialler.failedAddresses)
            proceed()
            didEnd(.connected(descriptor, to: peer))
        case .failed(let failure):
            addressDidFail(dial.address, failure)
            proceed()
        }
    }

    private func endLater(_ outcome: Outcome) {
        dialler.loop.atEndOfTurn { [self] in
            guard !isOver else { return }
            cancel()
            didEnd(outcome)
        }
    }

    // MARK: The answer

    /// The address that has connected has to answer before long.
    func awaitAnswer() {
        race?.awaitAnswer()
        proceed()
    }

    private func judge() {
        if isAnswered() {
            race?.didAnswer(&dialler.failedAddresses)
        } else {
            _ = leave()
        }
    }

    /// The address that has connected has answered.
    func settle() {
        guard !isOver else { return }
        race?.didAnswer(&dialler.failedAddresses)
        cancel()
    }

    /// The address that has connected has failed before it answered: the next one is dialled.
    ///
    /// - Returns: false when there is none.
    func leave() -> Bool {
        guard !isOver, let address = race?.connected else { return false }
        race?.didFail(address, at: now, &dialler.failedAddresses)
        guard race?.hasOthers == true else { return false }
        proceed()
        return true
    }

    /// Gives the dial up.
    func cancel() {
        guard !isOver else { return }
        isOver = true
        race?.giveUp(at: now, &dialler.failedAddresses)
        if let nameWait { dialler.names.withdraw(nameWait) }
        nameWait = nil
        for dial in dials { dialler.cancel(dial) }
        dials = []
        if let timer { dialler.loop.remove(timer) }
    }
}

extension Dial.Outcome {
    /// The end of a dial all of whose addresses have failed.
    init(_ failures: [DialFailure]) {
        guard let failure = DialFailure.sum(of: failures) else {
            self = .failed(SessionError(.internal, "There was no address to dial."))
            return
        }
        self =
            failure.refused == nil && failure.isDescriptorMissing
            ? .failedWithoutDescriptor(failure.error) : .failed(failure.error)
    }
}
