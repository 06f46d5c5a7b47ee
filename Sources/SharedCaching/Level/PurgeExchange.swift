// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore

/// One loop's part in the purges of all machines: reads the count and the records, publishes, repairs, and repeats invalidations.
final class PurgeExchange {
    private let loop: EventLoop
    private let nodes: RedisNodes
    private let state: SharedState
    private let timer = LoopTimer()
    private var isClosed = false
    private var isReadingCount = false

    /// Whether this loop publishes for the process.
    private var isPublishing = false

    // A reading of records, which all look-ups that need it share.
    private var target = 0
    private var isCatchingUp = false
    private var waiting: [(CatchUp) -> Void] = []

    /// Publications of this process, with the time when there is no more to wait for. Another loop may be about to publish them.
    private var watched: [(publication: Publication, until: UInt64)] = []
    private let watch = LoopTimer()

    enum CatchUp {
        case done
        /// - Parameter reason: nil when Redis has other purges than before.
        case failed(_ reason: RedisFailure?)
    }

    private static let purgeMilliseconds = RedisScript.number(PurgeLog.lifetime * 1000)
    static let generationMilliseconds = RedisScript.number(3_600_000)
    private static let recordAtMost = 128 << 10
    private static let triesAtMost = 5

    init(_ loop: EventLoop, _ nodes: RedisNodes, _ state: SharedState) {
        self.loop = loop
        self.nodes = nodes
        self.state = state
        timer.whenDue { [weak self] in self?.tick() }
        watch.whenDue { [weak self] in self?.endWatch() }
        // The first turn makes the connections, before there are requests.
        loop.arm(timer, after: .milliseconds(0))
    }

    func close() {
        isClosed = true
        loop.remove(timer)
        loop.remove(watch)
        watched = []
        finishCatchUp(.failed(.closed))
        if isPublishing { publishedNothing() }
    }

    private func tick() {
        loop.arm(timer, after: .seconds(1))
        readCount()
        publishPending()
        repeatInvalidations()
    }

    private var patientDeadline: UInt64 { loop.now &+ state.settings.patientTimeout.nanoseconds }

    // MARK: - Learning

    private func readCount() {
        guard !isReadingCount else { return }
        isReadingCount = true
        let asked = state.known
        let name = state.secret.countName
        // With the latest known purge: Redis may have lost it, and have got another one of the same number.
        let command = RedisCommand("MGET", name, state.secret.purgeName(asked))
        nodes.send(command, key: name, by: patientDeadline) { [self] result in
            isReadingCount = false
            guard !isClosed else { return }
            let values = result.values(2)
            if case .success(let values) = values { state.compare(values[1], with: asked) }
            let count = values.map { $0[0] }
            if case .success((let count, .behind)) = read(count, askedKnowing: asked) {
                catchUp(to: count, by: patientDeadline) { _ in }
            }
        }
    }

    /// Judges the reply to a question for the count. A lost count is repaired.
    func read(_ count: Result<[UInt8]?, RedisFailure>, askedKnowing asked: Int)
        -> Result<(Int, PurgeLog.Reading), RedisFailure>
    {
        switch count {
        case .failure(let failure):
            if case .connection = failure { state.doubtPurges() }
            return .failure(failure)
        case .success(let text):
            let count = text.map(Self.count) ?? 0
            let reading = state.read(count, askedKnowing: asked)
            if reading == .lost { repair(state.known, below: count == nil ? .max : state.known) }
            return .success((count ?? 0, reading))
        }
    }

    private static func count(_ text: [UInt8]) -> Int? {
        guard text.count <= 16, let count = DecimalNumber.parse(text.span), count < PurgeLog.most else { return nil }
        return count
    }

    /// Reads the records up to a number. The completion may be called within this call.
    func catchUp(to count: Int, by deadline: UInt64, _ completion: @escaping (CatchUp) -> Void) {
        guard state.missing(upTo: count) != nil else { return completion(.done) }
        waiting.append(completion)
        target = max(target, count)
        guard !isCatchingUp else { return }
        isCatchingUp = true
        readRecords(by: deadline)
    }

    private func readRecords(by deadline: UInt64) {
        guard let numbers = state.missing(upTo: target) else { return finishCatchUp(.done) }
        let names = numbers.map { state.secret.purgeName($0) }
        let command = RedisCommand([Array("MGET".utf8)] + names)
        nodes.send(command, key: state.secret.countName, by: deadline) { [self] result in
            guard !isClosed else { return }
            switch result.values(numbers.count) {
            case .failure(let failure): finishCatchUp(.failed(failure))
            case .success(let values):
                let records = zip(numbers, values).map { number, sealed in
                    state.opened(sealed.flatMap { $0.count <= Self.recordAtMost ? $0 : nil }, number)
                }
                if state.learn(records, from: numbers.lowerBound, isAtOnce: loop.isByHand) {
                    readRecords(by: deadline)
                } else {
                    let number = max(target, state.known)
                    repair(number, below: number + 1)
                    finishCatchUp(.failed(nil))
                }
            }
        }
    }

    private func finishCatchUp(_ result: CatchUp) {
        isCatchingUp = false
        target = 0
        let waiting = waiting
        self.waiting = []
        for completion in waiting { completion(result) }
    }

    // MARK: - Repair

    /// Raises the count beyond a number that it has had, with a purge of everything: what Redis has lost is not known.
    ///
    /// - Parameter bound: a count that has reached it was not lost.
    func repair(_ number: Int, below bound: Int, then completion: (() -> Void)? = nil) {
        guard !isClosed, number < PurgeLog.most - 1, state.mayRepair(now: loop.now) else {
            completion?()
            return
        }
        let purge = SharedPurge(.everything, expires: false, time: wallTime)
        let (next, bound) = (number + 1, min(bound, number + 1))
        append(state.sealed(purge, next), next, counts: 0...max(0, bound - 1)) { [self] result, sealed in
            if case .success(-1) = result {
                let record = PurgeLog.Record(sealed: sealed, purge: purge)
                _ = state.learn([record], from: next, isAtOnce: loop.isByHand, isRepair: true)
            }
            completion?()
        }
    }

    /// - Parameter counts: the counts behind which the record may be appended.
    private func append(
        _ sealed: [UInt8],
        _ number: Int,
        counts: ClosedRange<Int>,
        _ completion: @escaping (Result<Int, RedisFailure>, _ sealed: [UInt8]) -> Void
    ) {
        let command = RedisScript.append.command(
            [state.secret.countName, state.secret.purgeName(number), state.secret.purgeName(number - 1)],
            [
                RedisScript.number(counts.lowerBound), RedisScript.number(counts.upperBound),
                RedisScript.number(number), sealed, Self.purgeMilliseconds,
            ]
        )
        nodes.send(command, key: state.secret.countName, by: patientDeadline) { [self] result in
            guard !isClosed else { return }
            completion(result.integer, sealed)
        }
    }

    private var wallTime: Int { Int(loop.wallClock / 1_000_000) }

    // MARK: - Publishing

    /// Publishes what is pending, unless another loop does so, and tells after some time that there is no confirmation.
    func publish(_ publication: Publication) {
        guard !isClosed else { return }
        let until = loop.now &+ state.settings.publication.nanoseconds
        watched.append((publication, until))
        if !watch.isArmed { loop.arm(watch, at: until) }
        publishPending()
    }

    private func endWatch() {
        while let first = watched.first {
            guard first.until <= loop.now else { return loop.arm(watch, at: first.until) }
            watched.removeFirst().publication.finish(false)
        }
    }

    private func publishPending() {
        guard !isClosed, !isPublishing, state.beginPublishing() else { return }
        isPublishing = true
        publishNext(tries: Self.triesAtMost)
    }

    private func publishNext(tries: Int) {
        guard tries > 0 else { return publishedNothing() }
        guard let attempt = state.nextAttempt() else {
            isPublishing = false
            return
        }
        let (number, known) = (attempt.number, attempt.number - 1)
        if state.missing(upTo: known) != nil { return publishNext(tries: tries, after: known) }
        append(attempt.sealed, number, counts: known...known) { [self] result, sealed in
            switch result {
            case .failure: publishedNothing()
            case .success(PurgeLog.most...): publishedNothing()
            case .success(-1):
                _ = state.learn([state.opened(sealed, number)], from: number, isAtOnce: loop.isByHand)
                publishNext(tries: Self.triesAtMost)
            case .success(let count) where count < known:
                repair(known, below: known) { [self] in publishNext(tries: tries - 1) }
            case .success(let count): publishNext(tries: tries, after: count)
            }
        }
    }

    private func publishNext(tries: Int, after count: Int) {
        catchUp(to: count, by: patientDeadline) { [self] result in
            if case .failed = result { return publishedNothing() }
            publishNext(tries: tries - 1)
        }
    }

    private func publishedNothing() {
        isPublishing = false
        state.stopPublishing()
    }

    // MARK: - Invalidations

    private func repeatInvalidations() {
        let deadline = patientDeadline
        for (hash, stamp) in state.takeFailedInvalidations(now: loop.now, retryAt: deadline) {
            invalidate(hash, stamp, by: deadline) { _ in }
        }
    }

    /// Removes what Redis has of a URI.
    func invalidate(_ hash: [UInt8], _ stamp: Int, by deadline: UInt64, _ completion: @escaping (Bool) -> Void) {
        let command = RedisScript.invalidate.command([hash], [.random(16), Self.generationMilliseconds])
        nodes.send(command, key: hash, by: deadline) { [state] result in
            guard case .success(1) = result.integer else { return completion(false) }
            state.unblock(hash, stamp)
            completion(true)
        }
    }
}

extension [UInt8] {
    /// So many random bytes.
    static func random(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
}
