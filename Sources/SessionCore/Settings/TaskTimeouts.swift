// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// The time limits of a task's phases.
public struct TaskTimeouts: Sendable, Equatable {
    /// The wait for a connection when the limit of connections is reached; nil for no limit but `total`.
    package var queue: TimeSpan?
    /// The limit for name lookup, TCP and TLS together.
    package var connect = TimeSpan.seconds(10)
    /// The limit from the end of the request to the final head.
    package var firstByte = TimeSpan.seconds(60)
    /// The longest pause without a byte of a body in either direction.
    package var stall = TimeSpan.seconds(300)
    /// The limit of the whole task; nil for none.
    package var total: TimeSpan?

    /// Ten seconds to connect, a minute to the head of the response, five minutes without a byte, no limit of the whole
    /// task.
    public init() {}

    /// - Parameters:
    ///   - connect: name lookup, TCP and TLS together.
    ///   - firstByte: from the end of the request to the final head.
    ///   - stall: the longest pause without a byte of a body in either direction.
    ///   - total: the whole task; nil for no limit.
    ///   - queue: the wait for a connection when `connectionsPerHost` are in use; nil for no limit but `total`. A task
    ///     that has waited that long fails with `limitReached`.
    public init(
        connect: Duration = .seconds(10),
        firstByte: Duration = .seconds(60),
        stall: Duration = .seconds(300),
        total: Duration? = nil,
        queue: Duration? = nil
    ) {
        self.connect = TimeSpan(connect)
        self.firstByte = TimeSpan(firstByte)
        self.stall = TimeSpan(stall)
        self.total = total.map { TimeSpan($0) }
        self.queue = queue.map { TimeSpan($0) }
    }
}

extension TimeSpan {
    /// From a millisecond to about thirty years, so that no sum with a clock overflows.
    init(_ duration: Duration) {
        let nanoseconds = duration / .nanoseconds(1)
        self.init(nanoseconds: UInt64(min(max(nanoseconds, 1e6), 1e18)))
    }
}
