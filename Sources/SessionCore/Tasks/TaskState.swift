// SPDX-License-Identifier: Apache-2.0
/// Where a task is in its life; the names are those of `URLSessionTask.State`.
///
/// A value: an event goes in, what is to be done comes out, and what the state forbids is ignored.
public enum TaskState: Sendable, Equatable {
    /// Made, or held back.
    case suspended
    /// Under way, or about to be.
    case running
    /// Cancelled; its delegate does not know yet.
    case canceling
    /// Over, well or not: nothing changes any more.
    case completed
}

/// The task's machine.
package struct TaskMachine: Sendable, Equatable {
    package private(set) var state: TaskState = .suspended
    /// True once the transfer has been started: a suspended task that was started is paused, not new.
    private(set) var started = false

    package init() {}

    /// For a task that takes a transfer over from another: it is as far as that one was.
    package init(takingOver other: TaskMachine) { self = other }

    package enum Action: Equatable {
        case nothing
        case start
        case pause
        case unpause
        /// End the request, if there is one, and notify the delegate that the task was cancelled.
        case cancel
        /// Tell the delegate how it ended.
        case complete
        /// The transfer goes on as another task's; this one has ended without a word.
        case handOver
    }

    package mutating func resume() -> Action {
        guard state == .suspended else { return .nothing }
        state = .running
        if started { return .unpause }
        started = true
        return .start
    }

    package mutating func suspend() -> Action {
        guard state == .running else { return .nothing }
        state = .suspended
        return .pause
    }

    package mutating func cancel() -> Action {
        guard state == .suspended || state == .running else { return .nothing }
        state = .canceling
        return .cancel
    }

    /// The transfer becomes another task's: a data task that becomes a download.
    package mutating func handOver() -> Action {
        guard started, state == .running || state == .suspended else { return .nothing }
        state = .completed
        return .handOver
    }

    /// The transfer is over, well or not.
    package mutating func finish() -> Action {
        guard state != .completed else { return .nothing }
        state = .completed
        return .complete
    }
}
