// SPDX-License-Identifier: Apache-2.0
/// One deadline on a loop.
///
/// A later deadline costs one store: the timer stays in the heap, and is sorted again only when its old deadline comes.
/// A timer that each request postpones (idle, stall) therefore costs almost nothing.
package final class LoopTimer {
    /// The deadline in nanoseconds of the monotonic clock; `never` when it is not armed.
    package fileprivate(set) var deadline: UInt64 = LoopTimer.never
    /// The deadline in the heap; never later than `deadline`.
    fileprivate var sortedBy: UInt64 = LoopTimer.never
    fileprivate var index = -1
    fileprivate var action: (() -> Void)?

    fileprivate static let never = UInt64.max

    /// A timer whose owner gives it its action with `whenDue`: a constant of the owner, although the action needs the owner.
    package init() {}

    /// - Parameter action: called on the loop's thread when the deadline has passed and the timer is disarmed.
    package init(_ action: @escaping () -> Void) {
        self.action = action
    }

    /// Gives the timer its action. Called once, before the timer is armed.
    package func whenDue(_ action: @escaping () -> Void) { self.action = action }

    package var isArmed: Bool { deadline != LoopTimer.never }
}

/// The armed timers of a loop: a binary heap, earliest first.
struct TimerHeap {
    private var timers: [LoopTimer] = []

    /// The latest time at which the loop must wake.
    var next: UInt64? { timers.first?.sortedBy }

    /// Whether any timer is armed.
    var holdsArmed: Bool { timers.contains { $0.isArmed } }

    mutating func arm(_ timer: LoopTimer, at deadline: UInt64) {
        timer.deadline = deadline
        if timer.index < 0 {
            timer.sortedBy = deadline
            timer.index = timers.count
            timers.append(timer)
            siftUp(timer.index)
        } else if deadline < timer.sortedBy {
            timer.sortedBy = deadline
            siftUp(timer.index)
        }
    }

    /// Removes a timer, so that the objects that its action references are released.
    mutating func remove(_ timer: LoopTimer) {
        timer.deadline = LoopTimer.never
        let index = timer.index
        guard index >= 0 else { return }
        timer.index = -1
        let last = timers.removeLast()
        guard last !== timer else { return }
        timers[index] = last
        last.index = index
        siftDown(index)
        siftUp(last.index)
    }

    /// The next timer whose deadline has passed, already disarmed.
    mutating func popDue(_ now: UInt64) -> LoopTimer? {
        while let first = timers.first, first.sortedBy <= now {
            if first.deadline == first.sortedBy {
                remove(first)
                return first
            }
            if first.deadline == LoopTimer.never {
                remove(first)
            } else {
                // Its turn comes by its new deadline, even if that has passed, too: others may be due before it.
                first.sortedBy = first.deadline
                siftDown(0)
            }
        }
        return nil
    }

    private mutating func siftUp(_ start: Int) {
        var index = start
        let timer = timers[index]
        while index > 0 {
            let parent = (index - 1) / 2
            guard timer.sortedBy < timers[parent].sortedBy else { break }
            timers[index] = timers[parent]
            timers[index].index = index
            index = parent
        }
        timers[index] = timer
        timer.index = index
    }

    private mutating func siftDown(_ start: Int) {
        var index = start
        let timer = timers[index]
        while true {
            var child = 2 * index + 1
            guard child < timers.count else { break }
            if child + 1 < timers.count, timers[child + 1].sortedBy < timers[child].sortedBy { child += 1 }
            guard timers[child].sortedBy < timer.sortedBy else { break }
            timers[index] = timers[child]
            timers[index].index = index
            index = child
        }
        timers[index] = timer
        timer.index = index
    }
}

extension LoopTimer {
    /// Calls the action; for the loop only.
    func fire() { action?() }

    /// Disarms it but leaves it in the heap: cheap for a timer that will be armed again.
    func disarm() { deadline = LoopTimer.never }
}
