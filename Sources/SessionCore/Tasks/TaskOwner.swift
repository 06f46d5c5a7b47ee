// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The tasks of one session: how many there are, and whether they may begin. Its subclass has them carried. A class to inherit from.
class TaskOwner {
    final let loop: EventLoop
    /// An origin in memory takes all requests.
    final let isStubbed: Bool
    /// The number of tasks that are not yet complete.
    final private(set) var count = 0
    /// The tasks that were made and not resumed. No other list has them, and the program that made them may drop them.
    private var unstarted: [Unstarted] = []
    private var phase = Phase.open

    private struct Unstarted { unowned let task: LoopTask }

    private enum Phase {
        case open
        /// The tasks that are there go on; new ones end as soon as they are resumed.
        case invalidated
        /// The requests that are under way go on; what would begin one ends.
        case retired
    }

    init(loop: EventLoop, isStubbed: Bool) {
        self.loop = loop
        self.isStubbed = isStubbed
    }

    // MARK: What the session does

    /// Makes what carries a task.
    ///
    /// - Returns: nil when the task may not go to the origin, and the cache has no response.
    func makeCarrier(for task: LoopTask) -> TaskCarrier? { nil }

    /// The final head has come from the origin.
    func didReceive(_ head: borrowing ResponseHead, to request: borrowing SessionRequest) {}

    /// No task is left, and none may begin.
    func lastTaskDidEnd() {}

    // MARK: Phases

    /// Takes no new tasks.
    ///
    /// - Returns: false when it takes none already.
    final func invalidate() -> Bool { close(as: .invalidated) }

    /// The same, and no request begins any more, whichever task it is for.
    final func retire() -> Bool { close(as: .retired) }

    private func close(as next: Phase) -> Bool {
        guard phase == .open else { return false }
        phase = next
        return true
    }

    final var isOpen: Bool { phase == .open }

    /// Whether no request may begin any more.
    final var isRetired: Bool { phase == .retired }

    // MARK: Tasks

    /// - Parameter isLate: the task was made in a session that takes none. A task that another needs may have been there before.
    final func makeTask(with request: consuming SessionRequest, delegate: LoopTaskDelegate, isLate: Bool = false)
        -> LoopTask
    {
        count += 1
        let task = LoopTask(
            identifier: TaskIdentifiers.next(),
            request: request,
            delegate: delegate,
            session: self,
            isLate: isLate
        )
        task.unstartedIndex = unstarted.count
        unstarted.append(Unstarted(task: task))
        return task
    }

    /// A task is resumed for the first time, or will never be.
    final func leaveUnstarted(_ task: LoopTask) {
        guard task.unstartedIndex >= 0 else { return }
        let last = unstarted.removeLast()
        if task.unstartedIndex < unstarted.count {
            unstarted[task.unstartedIndex] = last
            last.task.unstartedIndex = task.unstartedIndex
        }
        task.unstartedIndex = -1
    }

    /// A task is complete, or was dropped.
    final func forget(_ task: LoopTask) {
        leaveUnstarted(task)
        count -= 1
        if phase != .open, count == 0 { lastTaskDidEnd() }
    }

    /// Ends the tasks that were not resumed.
    final func cancelUnstarted() {
        while let task = unstarted.last?.task { task.cancel() }
    }
}
