// SPDX-License-Identifier: Apache-2.0
import Foundation

/// A test has waited in vain.
package struct TimedOut: Error, CustomStringConvertible {
    package let description: String

    package init(_ what: String) { description = "timed out waiting for \(what)" }
}

/// Shared state, with a way to wait until it meets a condition, so that tests need no sleeps.
///
/// `@unchecked Sendable` because the condition's lock guards the state.
package final class Monitor<State>: @unchecked Sendable {
    private let condition = NSCondition()
    private var state: State

    package init(_ state: State) { self.state = state }

    /// Reads or changes the state; waiting threads check their conditions again.
    package func with<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
        condition.lock()
        defer {
            condition.broadcast()
            condition.unlock()
        }
        return try body(&state)
    }

    /// Reads the state, and wakes nobody.
    package func read<Result>(_ body: (State) throws -> Result) rethrows -> Result {
        condition.lock()
        defer { condition.unlock() }
        return try body(state)
    }

    /// Waits until `body` returns a value.
    ///
    /// - Parameter what: the name of the awaited event, for the failure.
    @discardableResult
    package func wait<Result>(
        for what: @autoclosure () -> String,
        seconds: Double = Patience.seconds,
        until body: (State) throws -> Result?
    ) throws -> Result {
        let deadline = Date(timeIntervalSinceNow: seconds)
        condition.lock()
        defer { condition.unlock() }
        while true {
            if let result = try body(state) { return result }
            guard condition.wait(until: deadline) else {
                if let result = try body(state) { return result }
                throw TimedOut(what())
            }
        }
    }
}

/// The time limit of tests: long enough for a loaded machine, and never reached by a passing test.
package enum Patience {
    package static let seconds = 30.0

    /// Polls until `body` returns a value: for state without notifications (`/proc`, a socket).
    @discardableResult
    package static func poll<Result>(
        for what: @autoclosure () -> String,
        seconds: Double = Patience.seconds,
        every interval: Double = 0.01,
        _ body: () throws -> Result?
    ) throws -> Result {
        let deadline = Date(timeIntervalSinceNow: seconds)
        while true {
            if let result = try body() { return result }
            if Date() > deadline { throw TimedOut(what()) }
            Thread.sleep(forTimeInterval: interval)
        }
    }
}
