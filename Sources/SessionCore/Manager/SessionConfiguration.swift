package import IOCore

/// What all tasks of a manager share.
public struct SessionConfiguration: Sendable {
    /// Connections kept open for reuse, over all hosts.
    public var connectionPoolSize = 1024
    /// Connections to one host and port; further requests wait. 0: no limit.
    public var connectionsPerHost = 256

    public init() {}
}

/// How long a task may take in each of its phases.
package struct TaskTimeouts: Sendable, Equatable {
    /// Name lookup, TCP and TLS together.
    package var connect = TimeSpan.seconds(10)
    /// From the end of the request to the final head.
    package var firstByte = TimeSpan.seconds(60)
    /// Without a byte of a body in either direction.
    package var stall = TimeSpan.seconds(300)
    /// All of it; nil: no limit.
    package var total: TimeSpan?

    package init() {}
}
