// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// One look-up: carries out what its flow decides. For its loop's thread.
final class RedisLookUp: SharedLookUp {
    private let loop: EventLoop
    private let nodes: RedisNodes
    private let state: SharedState
    private let exchange: PurgeExchange
    private let room: BodyRoom
    private let question: SharedQuestion
    private let names: SharedNames
    /// Nil when it has ended: whoever gets the result may hold this look-up.
    private var completion: ((SharedFinding) -> Void)?
    /// Is called once, when it ends or is cancelled.
    private let whenEnded: (RedisLookUp) -> Void

    private var flow: SharedLookUpFlow
    private let timer = LoopTimer()
    private let began: UInt64
    private var isMeasured = false
    private var hasEnded = false
    /// Whether it ended without a ticket that could give a lease back.
    private var isAbandoned = false
    /// Replies to earlier questions are ignored.
    private var round = 0

    // What was read.
    private var count = 0
    private var generation: [UInt8] = []
    private var field: [UInt8]
    private var record: [UInt8]?
    private var vary: [[UInt8]] = []
    private var head: SharedRecord.Response?
    private var chunks: [[UInt8]] = []
    private var missingChunks = 0
    /// The room that the body has.
    private var taken = 0
    private var found: CachedEntry?

    private let token: [UInt8] = .random(16)
    private static let unwanted: [UInt8] = [UInt8(ascii: "-")]
    private static let generationMilliseconds = RedisScript.number((RedisTicket.validity + 60) * 1000)

    init(
        _ question: SharedQuestion,
        _ names: SharedNames,
        _ exchange: PurgeExchange,
        _ room: BodyRoom,
        _ nodes: RedisNodes,
        _ state: SharedState,
        _ loop: EventLoop,
        whenEnded: @escaping (RedisLookUp) -> Void,
        _ completion: @escaping (SharedFinding) -> Void
    ) {
        self.question = question
        self.names = names
        self.exchange = exchange
        self.room = room
        self.nodes = nodes
        self.state = state
        self.loop = loop
        self.whenEnded = whenEnded
        self.completion = completion
        field = names.field
        began = loop.freshNow
        flow = SharedLookUpFlow(
            timeout: state.settings.timeout.nanoseconds,
            patience: state.settings.patience.nanoseconds,
            waits: question.waits,
            now: loop.now
        )
        timer.whenDue { [weak self] in self?.proceed(.time) }
    }

    func start() { perform(.ask(lease: false)) }

    func cancel() {
        guard !hasEnded else { return }
        isAbandoned = true
        _ = end()
    }

    /// Ends it without a result.
    func close() {
        guard !hasEnded else { return }
        isAbandoned = true
        end()?(.nothing(nil))
    }

    private func proceed(_ event: SharedLookUpFlow.Event) {
        guard !hasEnded else { return }
        let action = flow.handle(event, now: loop.now)
        if flow.isFirstOver { measure() }
        perform(action)
    }

    private func measure() {
        guard !isMeasured else { return }
        isMeasured = true
        state.counters.countLookUp(microseconds: Int(clamping: (loop.freshNow &- began) / 1000))
    }

    private func perform(_ action: SharedLookUpFlow.Action) {
        switch action {
        case .none: loop.arm(timer, at: flow.wakesAt)
        case .ask(let lease): ask(lease: lease)
        case .catchUp:
            let round = round
            exchange.catchUp(to: count, by: flow.wakesAt) { [self] result in
                guard round == self.round else { return }
                switch result {
                case .done: proceed(.caughtUp)
                case .failed(let reason): proceed(.failed(reason))
                }
            }
        case .judge: judge()
        case .askVariant:
            field = names.field(for: question.request.fields, names: vary, state.secret)
            round += 1
            askRecord()
        case .askBody: askBody()
        case .takeLease: takeLease()
        case .end(let isFound, let grant): finish(isFound, grant)
        }
    }

    // MARK: - Questions

    /// Sends a command of this round.
    ///
    /// - Parameter use: gets the reply's value, unless the round is over.
    private func send<Value>(
        _ command: RedisCommand,
        key: [UInt8],
        _ read: @escaping (RedisResult) -> Result<Value, RedisFailure>,
        _ use: @escaping (Value) -> Void
    ) {
        let round = round
        loop.arm(timer, at: flow.wakesAt)
        nodes.send(command, key: key, by: flow.wakesAt) { [self] result in
            guard !hasEnded, round == self.round else { return }
            switch read(result) {
            case .success(let value): use(value)
            case .failure(let failure): proceed(.failed(failure))
            }
        }
    }

    private func ask(lease: Bool) {
        round += 1
        field = names.field
        let asked = state.known
        let name = state.secret.countName
        send(RedisCommand("GET", name), key: name) { [exchange] in
            exchange.read($0.value, askedKnowing: asked)
        } _: { [self] count, reading in
            self.count = count
            proceed(reading == .lost ? .failed(nil) : .count(isBehind: reading == .behind))
        }
        askRecord()
        guard lease else { return }
        send(RedisCommand("GET", names.lease), key: names.key) {
            $0.value
        } _: { [self] owner in
            proceed(.lease(read(owner)))
        }
    }

    private func askRecord() {
        send(RedisCommand("HMGET", names.key, SharedNames.generation, field), key: names.key) {
            $0.values(2)
        } _: { [self] values in
            generation = values[0] ?? []
            record = values[1]
            proceed(.hash)
        }
    }

    private func read(_ owner: [UInt8]?) -> SharedLookUpFlow.Lease {
        switch owner {
        case nil: .nobody
        case token: .own
        case Self.unwanted: .notForOthers
        default: .others
        }
    }

    private func takeLease() {
        round += 1
        loop.arm(timer, at: flow.wakesAt)
        let milliseconds = RedisScript.number(max(1, state.settings.lease.milliseconds))
        let command = RedisScript.lease.command(
            [names.lease, names.key],
            [token, milliseconds, .random(SharedRecord.generationLength), Self.generationMilliseconds]
        )
        let round = round
        nodes.send(command, key: names.key, by: flow.wakesAt) { [self] result in
            guard !hasEnded, round == self.round else {
                // It may have been taken.
                if isAbandoned { release() }
                return
            }
            switch result.values(2) {
            case .success(let values):
                generation = values[1] ?? []
                proceed(.lease(read(values[0])))
            case .failure(let failure): proceed(.failed(failure))
            }
        }
    }

    private func release() {
        let deadline = loop.now &+ state.settings.patientTimeout.nanoseconds
        nodes.send(RedisScript.release.command([names.lease], [token, [], []]), key: names.key, by: deadline) { _ in }
    }

    // MARK: - Judgements

    private func judge() {
        let judgement = judgement()
        proceed(.judged(judgement))
    }

    private func judgement() -> SharedLookUpFlow.Judgement {
        guard let sealed = record else { return .useless }
        record = nil
        let now = Int(loop.wallClock / 1_000_000)
        switch state.judge.judge(sealed, names.key, field, generation, for: question, now: now) {
        case .useless: return .useless
        case .tampered:
            state.counters.count { $0.tampered += 1 }
            return .useless
        case .variants(let names):
            vary = names
            return .variants
        case .response(let response):
            head = response
            if case .inline(let body) = response.body { return isUsable(response, body) ? .found : .useless }
            return isUsable(response, []) ? .foundHead : .useless
        }
    }

    /// Asks the purges.
    private func isUsable(_ response: SharedRecord.Response, _ body: [UInt8]) -> Bool {
        let entry = state.judge.entry(response, body, question.key)
        switch state.verdict(entry, number: response.purgeNumber, names.key) {
        case .usable:
            found = entry
            return true
        case .purged: return false
        case .ahead:
            // Another machine may have published since the count was read; then this does nothing.
            exchange.repair(response.purgeNumber, below: response.purgeNumber)
            return false
        }
    }

    private func askBody() {
        found = nil
        guard let head, case .chunks(_, let count, let length) = head.body, room.take(length) else {
            return proceed(.body(isWhole: false))
        }
        taken += length
        chunks = Array(repeating: [], count: count)
        missingChunks = count
        round += 1
        for index in 0..<count {
            let command = RedisCommand("HGET", names.key, SharedNames.chunk(field, index))
            send(command, key: names.key) {
                $0.value
            } _: { [self] sealed in
                didReceive(sealed, index, of: head)
            }
        }
    }

    private func didReceive(_ sealed: [UInt8]?, _ index: Int, of head: SharedRecord.Response) {
        guard let sealed, let chunk = state.judge.chunk(sealed, index, of: head.body, names.key, field) else {
            // Evicted, or of a response that another machine has stored meanwhile, or forged.
            round += 1
            leaveRoom()
            return proceed(.body(isWhole: false))
        }
        chunks[index] = chunk
        missingChunks -= 1
        guard missingChunks == 0 else { return }
        var body: [UInt8] = []
        body.reserveCapacity(taken)
        for chunk in chunks { body.append(contentsOf: chunk) }
        // Purges may have come meanwhile.
        let isWhole = isUsable(head, body)
        leaveRoom()
        proceed(.body(isWhole: isWhole))
    }

    private func leaveRoom() {
        room.giveBack(taken)
        taken = 0
        chunks = []
    }

    // MARK: - The end

    private func finish(_ isFound: Bool, _ grant: SharedLookUpFlow.Grant) {
        let entry = isFound ? found : nil
        let completion = end()
        if entry != nil { state.counters.countHit() } else { state.counters.countMiss(flow.failure) }
        if flow.hasWaited {
            state.counters.count {
                $0.waited += 1
                if entry == nil { $0.waitedInVain += 1 }
            }
        }
        guard let entry else {
            // Without a generation nothing is stored. A lease that may have been taken is given back with the ticket.
            let isOfUse = grant == .leased || grant == .plain && !generation.isEmpty
            completion?(.nothing(isOfUse ? ticket(grant == .leased) : nil))
            return
        }
        completion?(.found(entry, ticket(false)))
    }

    private func ticket(_ hasLease: Bool) -> RedisTicket {
        RedisTicket(
            question,
            names,
            generation: generation,
            number: state.known,
            madeAt: loop.now,
            token: hasLease ? token : nil
        )
    }

    /// - Returns: what gets the result.
    private func end() -> ((SharedFinding) -> Void)? {
        hasEnded = true
        round += 1
        measure()
        loop.remove(timer)
        leaveRoom()
        whenEnded(self)
        return completion.take()
    }
}

/// The room for the bodies that one loop reads at the same time, or writes.
final class BodyRoom {
    private let limit: Int
    private var used = 0

    init(_ limit: Int) { self.limit = limit }

    func take(_ bytes: Int) -> Bool {
        guard bytes <= limit - used else { return false }
        used += bytes
        return true
    }

    func giveBack(_ bytes: Int) { used -= bytes }
}
