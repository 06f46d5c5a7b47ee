/// Who may use a connection to one origin now, and who waits for his turn: first come, first served.
///
/// A value: it is told who comes, leaves and gives up, and says who may go.
struct HostQueue<Waiter: AnyObject> {
    /// How many have a place.
    private(set) var active = 0
    /// In the order of their coming; nil for one that gave up.
    private var waiting: [Waiter?] = []
    /// What stands before it in `waiting` has gone.
    private var first = 0
    private(set) var waitingCount = 0

    /// Nobody has a place, and nobody waits for one.
    var isIdle: Bool { active == 0 && waitingCount == 0 }

    /// Those that wait, the longest first.
    var waiters: [Waiter] { waiting[first...].compactMap { $0 } }

    /// Somebody comes.
    ///
    /// - Parameter limit: how many may have a place at a time.
    /// - Returns: whether he has one now; otherwise he waits.
    mutating func enter(_ waiter: Waiter, limit: Int) -> Bool {
        if active < limit, waitingCount == 0 {
            active += 1
            return true
        }
        waiting.append(waiter)
        waitingCount += 1
        return false
    }

    /// Somebody gives his place up.
    ///
    /// - Returns: who has it now.
    mutating func leave(limit: Int) -> Waiter? {
        precondition(active > 0, "nobody has a place")
        active -= 1
        guard active < limit else { return nil }
        while first < waiting.count {
            let next = waiting[first]
            waiting[first] = nil
            first += 1
            tidy()
            guard let next else { continue }
            waitingCount -= 1
            active += 1
            return next
        }
        return nil
    }

    /// Somebody waits no longer.
    mutating func withdraw(_ waiter: Waiter) {
        guard let index = waiting[first...].firstIndex(where: { $0 === waiter }) else { return }
        waiting[index] = nil
        waitingCount -= 1
        if waitingCount == 0 {
            waiting.removeAll()
            first = 0
        }
    }

    /// Lets go of the part that is behind, when it is the larger one.
    private mutating func tidy() {
        if first == waiting.count {
            waiting.removeAll(keepingCapacity: waiting.count <= 64)
            first = 0
        } else if first > 64, first * 2 > waiting.count {
            waiting.removeFirst(first)
            first = 0
        }
    }
}
