import Foundation

/// A test waited for something that did not come.
package struct TimedOut: Error, CustomStringConvertible {
    package let description: String

    package init(_ what: String) { description = "timed out waiting for \(what)" }
}

/// State that threads share, and a way to wait for it to become what a test needs: no test sleeps and hopes.
///
/// `@unchecked Sendable` because the state is touched under the condition's lock alone.
package final class Monitor<State>: @unchecked Sendable {
    private let condition = NSCondition()
    private var state: State

    package init(_ state: State) { self.state = state }

    /// Looks at the state, or changes it; those who wait look again.
    package func with<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
        condition.lock()
        defer {
            condition.broadcast()
            condition.unlock()
        }
        return try body(&state)
    }

    /// Waits until `body` gives a value.
    ///
    /// - Parameter what: names what is waited for, for the failure.
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

/// How long tests wait for what must come: long enough for a loaded machine, and never waited out by a passing test.
package enum Patience {
    package static let seconds = 30.0

    /// Looks again and again until `body` gives a value: for what tells nobody when it changes (`/proc`, a socket).
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
