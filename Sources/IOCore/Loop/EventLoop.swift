// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import Synchronization

/// One thread's event loop over epoll: descriptors, timers, and work handed over from other threads.
///
/// `@unchecked Sendable` because `submit`, `enqueue`, `wake`, `stop` and `isRunningHere` are the only members for other threads, and
/// they use only `submitted` (guarded by `lock`), atomic numbers and the eventfd (a kernel object). All other state belongs to
/// the thread that calls `run`, which each member checks in debug builds.
package final class EventLoop: @unchecked Sendable {
    /// The registration of a descriptor. Its number distinguishes the registrations of a reused descriptor: an event
    /// that was fetched for the old one is dropped.
    private struct Registration {
        var handler: EventHandler?
        var number: UInt32
        var interest: Readiness
        /// The descriptor waits for its next handler: the kernel reports nothing of it, but may still know it.
        var isParked = false

        static var none: Registration { Registration(handler: nil, number: 0, interest: []) }
    }

    private enum Deferred {
        case work(() -> Void)
        case handler(EndOfTurnHandler)
    }

    // Only for the loop's thread.
    private let epoll: Int32
    private var registrations: [Registration] = []
    private var lastNumber: UInt32 = 0
    private var timers = TimerHeap()
    private var endOfTurn: [Deferred] = []
    /// Empty; its memory serves the next turn.
    private var spareEndOfTurn: [Deferred] = []
    private var events = [pinproxy_event](repeating: pinproxy_event(), count: 256)
    /// The number of fetched events, and of those that were dispatched: a long turn leaves some to the next one.
    private var eventCount = 0
    private var dispatchedCount = 0
    /// What other threads have submitted, taken from them in this turn or in one that had no time for all of it; nil when it is
    /// done: what only it holds, such as closed connections, is freed piece by piece and not with the last one.
    private var taken: [(@Sendable () -> Void)?] = []
    private var takenCount = 0
    /// So much memory of a queue of submitted work serves the next one.
    private static let keptCapacity = 1024
    /// When this turn began, or the one before it whose deferred work is being done.
    package private(set) var turnBegan: UInt64 = 0
    private var partBegan: UInt64 = 0
    /// The thread that is in `run`; 0 for none.
    private let thread = Atomic<pthread_t>(0)
    /// Memory for the bytes that are read at the moment. Its borrower swaps it for an empty buffer, and gives it back
    /// empty; another one in between gets an empty buffer.
    package var scratch = ByteBuffer()
    /// Memory for what goes out next on a connection that has none: most are done with it before another one needs some.
    package var spare = ByteBuffer()

    /// The monotonic time of the beginning of this turn, in nanoseconds: one clock call for each turn.
    package private(set) var now: UInt64
    /// Microseconds since 1970, taken together with `now`.
    package private(set) var wallClock: Int64

    /// The kinds of work of this turn so far.
    private var work: TurnWork = []
    /// Is called at the end of a turn that was measured, with the loop on the stack.
    package var didMeasureTurn: ((LongTurn) -> Void)?
    /// How long the turns have taken; for any thread.
    package let turns = TurnRecord()
    private var meter = TurnMeter(processor: 0)

    private var calibratedAt: UInt64 = 0
    private var calibratedWall: Int64 = 0
    /// The source of the loop's time.
    private let clock: LoopClock

    // Any thread.
    private let wakeUp: Int32
    private let lock = PosixLock()
    /// *Guarded by `lock`.
    private var submitted: [(@Sendable () -> Void)?] = []
    /// Whether `run` has returned. Guarded by `lock`.
    private var hasEnded = false
    private let stopping = Atomic<Bool>(false)
    /// Whether there is submitted work that the loop has not taken.
    private let hasSubmitted = Atomic<Bool>(false)
    /// Whether the loop waits, or is about to. Only then has it to be woken: whoever sees it false has set `hasSubmitted` before, which
    /// the loop looks at between setting this and waiting.
    private let isWaiting = Atomic<Bool>(false)

    /// - Parameter clock: the system's, or one that a test moves.
    /// - Throws: `IOFailure` when the kernel has no descriptors left.
    package init(clock: LoopClock = .system) throws(IOFailure) {
        self.clock = clock
        epoll = pinproxy_epoll_create()
        guard epoll >= 0 else { throw IOFailure(code: -epoll, during: "epoll_create1") }
        wakeUp = pinproxy_eventfd()
        guard wakeUp >= 0 else {
            let code = -wakeUp
            close(epoll)
            throw IOFailure(code: code, during: "eventfd")
        }
        now = Clock.monotonic
        wallClock = Clock.realtime
        calibratedAt = now
        calibratedWall = wallClock
        // Each write is an edge, so that nothing has to be read: 2^64 of them do not fit, and never come together.
        let interest = Readiness.readable.union(.edge)
        _ = pinproxy_epoll_control(epoll, PINPROXY_EPOLL_ADD, wakeUp, interest.rawValue, UInt64.max)
    }

    deinit {
        close(epoll)
        close(wakeUp)
    }

    // MARK: Any thread

    /// Submits `work` to the loop's thread, which does it in the order of the calls. It is dropped after the end of
    /// `run`, because work often references the loop, and a reference cycle would remain.
    package func submit(_ work: @escaping @Sendable () -> Void) {
        if enqueue(work) { wake() }
    }

    /// `submit` without the wake-up, for a caller with a lock that the work takes: the loop's thread, woken while the lock is held,
    /// would run into it, and wait for a thread that it may have taken the processor from.
    ///
    /// - Returns: whether the caller has to call `wake` when it holds the lock no longer.
    package func enqueue(_ work: @escaping @Sendable () -> Void) -> Bool {
        lock.withLock {
            guard !hasEnded else { return false }
            submitted.append(work)
            guard submitted.count == 1 else { return false }
            hasSubmitted.store(true, ordering: .sequentiallyConsistent)
            return isWaiting.load(ordering: .sequentiallyConsistent)
        }
    }

    /// Ends `run` after the current turn.
    package func stop() {
        stopping.store(true, ordering: .releasing)
        wake()
    }

    /// Ends the loop's wait.
    package func wake() {
        var one: UInt64 = 1
        _ = pinproxy_write_file(wakeUp, &one, 8)
    }

    // MARK: The loop's thread

    /// A turn that has taken so many nanoseconds ends; the rest is for the next turns. What many peers want at once, each of them
    /// little, is so divided into turns, between which the sockets, timers and output of the others have theirs.
    private static let longestTurn: UInt64 = 3_000_000
    /// So much of a turn is for what the last one had no time for: those who have just sent something come soon.
    private static let longestRest: UInt64 = 1_000_000
    /// A peer whose input takes longer, in nanoseconds, gets the rest of it processed in later turns. Of many that send much at once
    /// each has a part of a turn, and nobody else waits until all of one's input is processed.
    private static let longestPart: UInt64 = 200_000
    /// The clock is read once for so many handlers, a power of two.
    private static let handlersPerReading = 4

    /// Whether this turn has taken long: a handler with work that can wait leaves it to the next turn. A loop whose clock is
    /// moved by hand has no long turns.
    package var isTurnLong: Bool { clock == .system && Clock.monotonic &- turnBegan >= Self.longestTurn }

    /// Begins the part that a peer's input has in this turn: one clock call, for input that may take long.
    package func beginPart() {
        if clock == .system { partBegan = Clock.monotonic }
    }

    /// Whether that part has taken long, or the turn has.
    package var isPartOver: Bool {
        guard clock == .system else { return false }
        let now = Clock.monotonic
        return now &- partBegan >= Self.longestPart || now &- turnBegan >= Self.longestTurn
    }

    /// Whether the turn ends in the middle of handlers.
    ///
    /// - Parameter count: the number of handlers that were called, at least one.
    @inline(__always)
    private func endsTurn(after count: Int) -> Bool { count & (Self.handlersPerReading - 1) == 0 && isTurnLong }

    /// Whether the caller is on the loop's thread, or the loop has not run yet.
    package var isCurrent: Bool {
        let thread = thread.load(ordering: .relaxed)
        return thread == 0 || thread == pthread_self()
    }

    /// Whether the caller is on the thread that is in `run`. For any thread.
    package var isRunningHere: Bool { thread.load(ordering: .relaxed) == pthread_self() }

    /// Serves events until `stop`.
    package func run() {
        thread.store(pthread_self(), ordering: .relaxed)
        // Until here the time was another thread's, or not a loop's.
        meter = TurnMeter(processor: Clock.processorTimeOfThread)
        run { false }
        thread.store(0, ordering: .relaxed)
        // What the last turn put off references objects that often reference the loop.
        endOfTurn = []
        (taken, takenCount) = ([], 0)
        // Released outside the lock, because the deinit of a captured object may submit more work.
        _ = lock.withLock {
            hasEnded = true
            defer { submitted = [] }
            return submitted
        }
    }

    /// Serves events until the condition holds, or `stop`.
    ///
    /// The condition is checked before each wait, after all deferred work, because the event that fulfils it may be the
    /// last one on this loop. Another thread that fulfils it has to `submit` something, which wakes the loop.
    package func run(until isFulfilled: () throws -> Bool) rethrows {
        while !stopping.load(ordering: .acquiring), try round(unless: isFulfilled, waitingAtMost: nil) != .fulfilled {}
    }

    /// The same with a time limit; at least one turn is made, without a wait when the limit is 0.
    ///
    /// - Returns: whether the condition holds.
    @discardableResult
    package func run(until isFulfilled: () throws -> Bool, atMost limit: TimeSpan) rethrows -> Bool {
        let (sum, overflows) = Clock.monotonic.addingReportingOverflow(limit.nanoseconds)
        let end = overflows ? UInt64.max : sum
        var left = limit
        while try round(unless: isFulfilled, waitingAtMost: left) != .fulfilled {
            let now = Clock.monotonic
            guard !stopping.load(ordering: .acquiring), now < end else { return try isFulfilled() }
            left = TimeSpan(nanoseconds: end - now)
        }
        return true
    }

    /// Serves events for a length of time.
    package func run(atMost limit: TimeSpan) { run(until: { false }, atMost: limit) }

    /// Makes one turn, for callers that proceed step by step. Its wait is limited, because the awaited event may
    /// already have happened.
    ///
    /// - Returns: whether an event or a due timer was handled.
    @discardableResult
    package func turn(waitingAtMost limit: TimeSpan) -> Bool {
        round(unless: { false }, waitingAtMost: limit) == .worked
    }

    private enum Round {
        /// No wait was necessary: the condition holds.
        case fulfilled
        /// An event or a due timer was handled.
        case worked
        case idle
    }

    /// Runs deferred work, waits, then runs the handlers, the due timers, and the work that these have deferred.
    private func round(unless isFulfilled: () throws -> Bool, waitingAtMost limit: TimeSpan?) rethrows -> Round {
        if !endOfTurn.isEmpty { finishLastTurn() }
        if try isFulfilled() { return .fulfilled }
        // Those that the last turn had no time for come first.
        var index = dispatchedCount
        var count = eventCount
        let isFetching = index == count
        if isFetching {
            index = 0
            count = wait(waitTime(limit))
        }
        updateTime()
        turnBegan = now
        var hasWorked = count > 0
        // Not before the events that are there have had their turn: threads that go on submitting do not keep sockets from theirs.
        if isFetching, hasSubmitted.load(ordering: .acquiring) { takeSubmitted() }
        // Where work of other threads has taken all of the turn, one event has its turn in any case.
        var isLong = false
        if !taken.isEmpty {
            isLong = runTaken()
            hasWorked = true
        }
        while index < count {
            let event = events[index]
            index += 1
            // The eventfd has only ended the wait.
            if event.key == UInt64.max { continue }
            dispatch(event)
            if isLong || endsTurn(after: index) { break }
        }
        dispatchedCount = index
        eventCount = count
        var firedCount = 0
        while let timer = timers.popDue(now) {
            noteWork(.timer)
            timer.fire()
            hasWorked = true
            firedCount += 1
            if endsTurn(after: firedCount) { break }
        }
        runEndOfTurn()
        measureTurn(since: now)
        return hasWorked ? .worked : .idle
    }

    /// Notes the kind of the work that begins, for the event about a turn that takes too long: one store.
    @inline(__always)
    package func noteWork(_ kind: TurnWork) { work.formUnion(kind) }

    /// Does deferred work that the last turn had no time for: a short turn of its own.
    private func finishLastTurn() {
        let start = freshNow
        // The turn has the rest of its time behind it.
        turnBegan = start &- (Self.longestTurn - Self.longestRest)
        runDeferred()
        measureTurn(since: start)
    }

    /// Measures the turn that ends now. Almost always it is a short one, which costs a look at the monotonic clock.
    @inline(__always)
    private func measureTurn(since start: UInt64) {
        guard clock == .system else { return }
        let end = Clock.monotonic
        let span = end &- start
        if span < TurnMeter.precision { turns.noteShort() }
        if meter.mustRead(after: span) { readProcessor(after: span, at: end) }
        work = []
    }

    private func readProcessor(after span: UInt64, at end: UInt64) {
        let (time, sum) = meter.read(Clock.processorTimeOfThread, after: span)
        turns.noteProcessor(nanoseconds: sum)
        guard span >= TurnMeter.precision else { return }
        let turn = LongTurn(microseconds: Int(clamping: time / 1000), work: work)
        turns.note(turn, at: end)
        didMeasureTurn?(turn)
    }

    /// Advances a manual clock; the timers that are due then fire in the next turn.
    package func advance(by span: TimeSpan) {
        precondition(clock == .byHand, "the system's clock cannot be moved")
        now &+= span.nanoseconds
        wallClock &+= Int64(clamping: span.nanoseconds / 1000)
    }

    /// Sets the wall clock of a manual clock, forward or back; the monotonic clock does not change.
    package func setWallClock(_ microseconds: Int64) {
        precondition(clock == .byHand, "the system's clock cannot be set")
        wallClock = microseconds
    }

    /// The monotonic clock now, not at the turn's beginning.
    package var freshNow: UInt64 { clock == .byHand ? now : Clock.monotonic }

    /// `wallClock` now, not at the turn's beginning.
    package var freshWallClock: Int64 {
        clock == .byHand ? wallClock : calibratedWall &+ Int64((Clock.monotonic &- calibratedAt) / 1000)
    }

    /// Whether nothing is planned: no timer is armed, and no work is deferred to the end of the turn.
    package var hasNothingPlanned: Bool { endOfTurn.isEmpty && taken.isEmpty && !timers.holdsArmed }

    /// Whether a test moves the clock. Such a loop makes all work itself, so that it takes the same course each time.
    package var isByHand: Bool { clock == .byHand }

    /// The number of registered descriptors.
    package var registeredCount: Int { registrations.count { $0.handler != nil } }

    /// Reads the clock once for each turn. The wall clock is calculated from it and corrected every second, so that it
    /// follows changes of the system's clock.
    private func updateTime() {
        guard clock == .system else { return }
        now = Clock.monotonic
        if now &- calibratedAt >= 1_000_000_000 {
            calibratedAt = now
            calibratedWall = Clock.realtime
        }
        wallClock = calibratedWall &+ Int64((now &- calibratedAt) / 1000)
    }

    @inline(__always)
    private func dispatch(_ event: pinproxy_event) {
        let descriptor = Int(truncatingIfNeeded: event.key & 0xFFFF_FFFF)
        let number = UInt32(truncatingIfNeeded: event.key >> 32)
        guard descriptor < registrations.count, registrations[descriptor].number == number,
            let handler = registrations[descriptor].handler
        else { return }
        handler.ready(Readiness(rawValue: event.events))
    }

    /// - Returns: the number of events.
    private func wait(_ time: Int32) -> Int {
        var time = time
        if time != 0 {
            isWaiting.store(true, ordering: .sequentiallyConsistent)
            if hasSubmitted.load(ordering: .sequentiallyConsistent) { time = 0 }
        }
        let count = Int(pinproxy_epoll_wait(epoll, &events, Int32(events.count), time))
        isWaiting.store(false, ordering: .relaxed)
        precondition(count >= 0, "epoll_wait failed: a descriptor that is not ours was closed")
        return count
    }

    private func waitTime(_ limit: TimeSpan?) -> Int32 {
        if !endOfTurn.isEmpty || !taken.isEmpty { return 0 }
        var until = timers.next ?? UInt64.max
        if let limit { until = min(until, freshNow &+ limit.nanoseconds) }
        if until == UInt64.max { return -1 }
        // Relative to the beginning of the turn: a timer may be late by the turn's length, but needs no clock call.
        guard until > now else { return 0 }
        return Int32(clamping: (until - now + 999_999) / 1_000_000)
    }

    private func takeSubmitted() {
        guard !taken.isEmpty else {
            return lock.withLock {
                hasSubmitted.store(false, ordering: .relaxed)
                swap(&taken, &submitted)
            }
        }
        let queue = lock.withLock {
            hasSubmitted.store(false, ordering: .relaxed)
            defer { submitted = [] }
            return submitted
        }
        // Under a load that never lets up, what was done would stay otherwise.
        taken.removeSubrange(..<takenCount)
        takenCount = 0
        taken.append(contentsOf: queue)
    }

    /// - Returns: whether the turn has taken long.
    private func runTaken() -> Bool {
        noteWork(.message)
        var isLong = false
        while takenCount < taken.count, !isLong {
            taken[takenCount].take()?()
            takenCount += 1
            isLong = endsTurn(after: takenCount)
        }
        if takenCount == taken.count {
            // The closures are gone already.
            if taken.capacity <= Self.keptCapacity { taken.removeAll(keepingCapacity: true) } else { taken = [] }
            takenCount = 0
        }
        return isLong
    }

    @inline(__always)
    private func runEndOfTurn() {
        if !endOfTurn.isEmpty { runDeferred() }
    }

    private func runDeferred() {
        // Work that is deferred by this work is done in the same turn, up to a limit, so that the sockets do not
        // starve.
        var rounds = 0
        while !endOfTurn.isEmpty, rounds == 0 || rounds < 8 && !isTurnLong {
            var queue: [Deferred] = []
            swap(&queue, &spareEndOfTurn)
            swap(&queue, &endOfTurn)
            // Taken out one by one, the first one last in the array: a copy of each would be a retain and a release.
            if queue.count > 1 { queue.reverse() }
            while let deferred = queue.popLast() {
                switch consume deferred {
                case .work(let work): work()
                case .handler(let handler):
                    handler.isPlanned = false
                    handler.turnEnds()
                }
            }
            swap(&queue, &spareEndOfTurn)
            rounds += 1
        }
    }

    /// Defers `work` to the end of this turn, when no handler is on the stack.
    package func atEndOfTurn(_ work: @escaping () -> Void) {
        assert(isCurrent)
        endOfTurn.append(.work(work))
    }

    /// The same without an allocation, and once for any number of calls until then. The loop keeps the handler until then.
    package func atEndOfTurn(_ handler: EndOfTurnHandler) {
        assert(isCurrent)
        guard !handler.isPlanned else { return }
        handler.isPlanned = true
        endOfTurn.append(.handler(handler))
    }

    // MARK: Descriptors

    /// Notifies `handler` of events on `descriptor` until `unregister`.
    package func register(
        _ descriptor: Int32,
        _ interest: Readiness,
        _ handler: EventHandler
    ) throws(IOFailure) {
        assert(isCurrent)
        let slot = Int(descriptor)
        while registrations.count <= slot {
            registrations.append(.none)
        }
        lastNumber &+= 1
        // The key with all bits set belongs to the eventfd.
        if lastNumber == UInt32.max { lastNumber = 1 }
        let number = lastNumber
        let isParked = registrations[slot].isParked
        func control(_ operation: Int32) -> Int32 {
            pinproxy_epoll_control(epoll, operation, descriptor, interest.rawValue, key(descriptor, number))
        }
        var result = control(isParked ? PINPROXY_EPOLL_MODIFY : PINPROXY_EPOLL_ADD)
        // It was closed since then, and its number is another one's: the kernel has forgotten it.
        // (With EPOLLEXCLUSIVE it says EINVAL before it looks.)
        if isParked, result != 0 { result = control(PINPROXY_EPOLL_ADD) }
        guard result == 0 else { throw IOFailure(code: -result, during: "epoll_ctl") }
        registrations[slot] = Registration(handler: handler, number: number, interest: interest)
    }

    /// Changes the interest; an unchanged one costs no system call, unless it is for one event.
    package func modify(_ descriptor: Int32, _ interest: Readiness) {
        assert(isCurrent)
        let slot = Int(descriptor)
        guard slot < registrations.count, registrations[slot].handler != nil,
            registrations[slot].interest != interest || interest.contains(.oneShot)
        else { return }
        registrations[slot].interest = interest
        _ = pinproxy_epoll_control(
            epoll,
            PINPROXY_EPOLL_MODIFY,
            descriptor,
            interest.rawValue,
            key(descriptor, registrations[slot].number)
        )
    }

    /// The same for a descriptor that its owner may have closed meanwhile. The registration of another descriptor that
    /// has reused the number is not touched.
    ///
    /// - Returns: false when the registration is not the handler's any more.
    package func modify(_ descriptor: Int32, _ interest: Readiness, of handler: EventHandler) -> Bool {
        guard isRegistered(descriptor, for: handler) else { return false }
        modify(descriptor, interest)
        return true
    }

    /// Unregisters a descriptor that another owner may have closed meanwhile, unless its number was reused.
    package func unregister(_ descriptor: Int32, of handler: EventHandler) {
        if isRegistered(descriptor, for: handler) { unregister(descriptor) }
    }

    private func isRegistered(_ descriptor: Int32, for handler: EventHandler) -> Bool {
        let slot = Int(descriptor)
        return slot >= 0 && slot < registrations.count && registrations[slot].handler === handler
    }

    /// Unregisters a descriptor. Call it before `close`.
    package func unregister(_ descriptor: Int32) {
        assert(isCurrent)
        let slot = Int(descriptor)
        guard slot < registrations.count, registrations[slot].handler != nil else { return }
        registrations[slot] = .none
        _ = pinproxy_epoll_control(epoll, PINPROXY_EPOLL_DELETE, descriptor, 0, 0)
    }

    /// Unregisters a descriptor whose one event (`Readiness.oneShot`) has come, which makes it silent, for the handler that will
    /// register it next: in the kernel it stays, and that call changes what is there.
    package func park(_ descriptor: Int32, of handler: EventHandler) {
        guard isRegistered(descriptor, for: handler) else { return }
        guard registrations[Int(descriptor)].interest.contains(.oneShot) else { return unregister(descriptor) }
        registrations[Int(descriptor)] = .none
        registrations[Int(descriptor)].isParked = true
    }

    @inline(__always)
    private func key(_ descriptor: Int32, _ number: UInt32) -> UInt64 {
        UInt64(number) << 32 | UInt64(UInt32(bitPattern: descriptor))
    }

    // MARK: Timers

    /// Arms the timer, or moves its deadline.
    @inline(__always)
    package func arm(_ timer: LoopTimer, after span: TimeSpan) {
        assert(isCurrent)
        let (deadline, overflows) = now.addingReportingOverflow(span.nanoseconds)
        timers.arm(timer, at: overflows ? .max : deadline)
    }

    /// The same with the deadline itself, in nanoseconds of the loop's clock.
    @inline(__always)
    package func arm(_ timer: LoopTimer, at deadline: UInt64) {
        assert(isCurrent)
        timers.arm(timer, at: deadline)
    }

    /// Disarms a timer that will soon be armed again: it costs one store.
    @inline(__always)
    package func disarm(_ timer: LoopTimer) {
        assert(isCurrent)
        timer.disarm()
    }

    /// Removes a timer, and releases the objects that its action references.
    package func remove(_ timer: LoopTimer) {
        assert(isCurrent)
        timers.remove(timer)
    }
}
