// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
public import SessionCore

/// Reports whether the network, or one host, is reachable, by which type of link, and its changes.
///
/// The source is the kernel (rtnetlink(7)): it has a route over a link that is up and has a carrier. That says nothing
/// about the network beyond: a server that is down is reachable. Use it to explain failures to people and to decide
/// when to retry, not whether to try.
///
/// ```swift
/// let reachability = NetworkReachabilityManager()
/// for await status in try reachability.statuses() { print(status) }
/// ```
///
/// Every member may be called on any thread.
public final class NetworkReachabilityManager: Sendable {
    /// The name that Alamofire's users know.
    public typealias ConnectionType = NetworkReachabilityStatus.ConnectionType
    /// The name that Alamofire's users know.
    public typealias NetworkReachabilityStatus = HTTPSessionCore.NetworkReachabilityStatus

    private let target: ReachabilityMachine.Target
    private let state = ReachabilityState()

    /// Watches the network as a whole: it is reachable when there is a default route, of IPv4 or IPv6, over a running
    /// link.
    public init() {
        target = .everything
    }

    /// Watches one host: it is reachable when there is a route to one of its addresses. The system's resolver looks up
    /// a name at the start and after each change of the network.
    public init(host: Host) {
        target = host.address.map { .address($0) } ?? .name(host.description)
    }

    deinit {
        state.stop()
    }

    /// The latest status; `unknown` without a listener.
    public var status: NetworkReachabilityStatus { state.status }

    /// Whether `status` is `reachable`, by any link. False without a listener.
    public var isReachable: Bool {
        if case .reachable = status { return true }
        return false
    }

    /// Whether `status` is `reachable` by `ethernet` or `wifi`.
    public var isReachableOnEthernetOrWiFi: Bool { [.reachable(.ethernet), .reachable(.wifi)].contains(status) }

    /// Whether `status` is `reachable` by `cellular`, where data may cost money.
    public var isReachableOnCellular: Bool { status == .reachable(.cellular) }

    /// Whether there is a listener.
    public var isListening: Bool { state.isListening }

    /// Starts to call `listener` with the status when it is known, and with each change. It replaces an earlier
    /// listener.
    ///
    /// - Parameter listener: called on a thread of this manager, one call at a time. It should return soon.
    /// - Throws: `internal` when the system has no more descriptors or threads.
    public func startListening(
        onUpdatePerforming listener: @escaping @Sendable (NetworkReachabilityStatus) -> Void
    ) throws(SessionError) {
        try state.start(target, listener)
    }

    /// Stops listening. There are no calls of the listener after this has returned, unless the listener itself calls
    /// it.
    public func stopListening() {
        state.stop()
    }

    /// The statuses from now on, beginning with the present one when it is known. It starts to listen in place of an
    /// earlier listener, and ends with `stopListening` or another listener. Of unread statuses only the latest is kept.
    public func statuses() throws(SessionError) -> AsyncStream<NetworkReachabilityStatus> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: NetworkReachabilityStatus.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let ending = StreamEnding { continuation.finish() }
        try startListening { status in
            withExtendedLifetime(ending) { _ = continuation.yield(status) }
        }
        return stream
    }
}

/// Finishes a stream when its last producer has been released.
private final class StreamEnding: Sendable {
    private let finish: @Sendable () -> Void
    init(_ finish: @escaping @Sendable () -> Void) { self.finish = finish }
    deinit { finish() }
}
