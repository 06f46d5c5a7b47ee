// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// The time limits of a task's phases.
///
/// ```swift
/// configuration.timeouts.total = .seconds(5)
/// ```
///
/// A limit is at least a millisecond and at most about thirty years; others are set to the nearest of these.
public struct TaskTimeouts: Sendable, Equatable {
    /// The limits as the engine counts them.
    package struct Spans: Sendable, Equatable {
        package var queue: TimeSpan?
        package var connect = TimeSpan.seconds(10)
        package var firstByte = TimeSpan.seconds(60)
        package var stall = TimeSpan.seconds(300)
        package var total: TimeSpan?
    }

    package var spans = Spans()

    /// The wait for a connection when `connectionsPerHost` are in use; nil for no limit but `total`. A task that has waited that long
    /// fails with `limitReached`.
    public var queue: Duration? {
        get { spans.queue.map { Duration($0) } }
        set { spans.queue = newValue.map { TimeSpan($0) } }
    }
    /// The limit for name lookup, TCP and TLS together.
    public var connect: Duration {
        get { Duration(spans.connect) }
        set { spans.connect = TimeSpan(newValue) }
    }
    /// The limit from the end of the request to the final head.
    public var firstByte: Duration {
        get { Duration(spans.firstByte) }
        set { spans.firstByte = TimeSpan(newValue) }
    }
    /// The longest pause without a byte of a body in either direction.
    public var stall: Duration {
        get { Duration(spans.stall) }
        set { spans.stall = TimeSpan(newValue) }
    }
    /// The limit of the whole task; nil for none.
    public var total: Duration? {
        get { spans.total.map { Duration($0) } }
        set { spans.total = newValue.map { TimeSpan($0) } }
    }

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
        self.connect = connect
        self.firstByte = firstByte
        self.stall = stall
        self.total = total
        self.queue = queue
    }
}

extension TimeSpan {
    /// From a millisecond to about thirty years, so that no sum with a clock overflows.
    init(_ duration: Duration) {
        let nanoseconds = duration / .nanoseconds(1)
        self.init(nanoseconds: UInt64(min(max(nanoseconds, 1e6), 1e18)))
    }
}

extension Duration {
    init(_ span: TimeSpan) { self = .nanoseconds(Int64(clamping: span.nanoseconds)) }
}
