public import HTTPCore
import IOCore
public import SessionCore

/// Whether the network, or one host, can be reached, and by what sort of link; told as it changes.
///
/// The answer is the kernel's (rtnetlink(7)): whether it has a way for packets over a link that is up and has a
/// carrier. It says nothing of what lies beyond: a server that is down is reachable. Use it to tell people why a
/// request failed and to know when to try again, not to decide whether to try.
///
/// ```swift
/// let reachability = NetworkReachabilityManager()
/// for await status in try reachability.statuses() { print(status) }
/// ```
///
/// Every member may be called on any thread.
public final class NetworkReachabilityManager: Sendable {
    /// The sort of link that packets leave by.
    public enum ConnectionType: Sendable, Hashable {
        /// A cable, or what the kernel shows as one: a virtual machine's or a container's link too.
        case ethernet
        /// A wireless network (IEEE 802.11).
        case wifi
        /// A modem: a mobile network, or dialled.
        case cellular
        /// The machine itself, tunnels, and what is none of the others.
        case other
    }

    /// What there is to know at a time; `reachable` says by what sort of link.
    public enum NetworkReachabilityStatus: Sendable, Hashable {
        /// Not listening, or not yet known.
        case unknown
        /// There is no way for packets; for a name, also when it has no address.
        case notReachable
        /// There is a way, and packets leave by that sort of link.
        case reachable(ConnectionType)
    }

    private let target: ReachabilityMachine.Target
    private let state = ReachabilityState()

    /// The network as a whole: reachable when there is a default route, of IPv4 or IPv6, over a link that runs.
    public init() {
        target = .everything
    }

    /// One host: reachable when there is a route to one of its addresses. A name is looked up by the system's resolver
    /// at the start and after each change of the network.
    public init(host: Host) {
        target = host.address.map { .address($0) } ?? .name(host.description)
    }

    deinit {
        state.stop()
    }

    /// The latest; `unknown` while nobody listens.
    public var status: NetworkReachabilityStatus { state.status }

    /// Whether `status` is `reachable`, by any link. False while nobody listens.
    public var isReachable: Bool {
        if case .reachable = status { return true }
        return false
    }

    /// Whether `status` is `reachable` by `ethernet` or `wifi`.
    public var isReachableOnEthernetOrWiFi: Bool { [.reachable(.ethernet), .reachable(.wifi)].contains(status) }

    /// Whether `status` is `reachable` by `cellular`, where each byte may have its price.
    public var isReachableOnCellular: Bool { status == .reachable(.cellular) }

    /// Whether there is a listener; it is told of changes until `stopListening`.
    public var isListening: Bool { state.isListening }

    /// Has `listener` told of the status as soon as it is known, and of each other one from then on; in place of a
    /// former listener.
    ///
    /// - Parameter listener: called on a thread of this manager's, one call at a time. It should return soon.
    /// - Throws: `internal` when the system has no more descriptors or threads.
    public func startListening(
        onUpdatePerforming listener: @escaping @Sendable (NetworkReachabilityStatus) -> Void
    ) throws(SessionError) {
        try state.start(target, listener)
    }

    /// Ends it. The listener is not called again once this has returned, unless this is called by the listener.
    public func stopListening() {
        state.stop()
    }

    /// The statuses from now on, the present one first when it is known. Starts to listen, and takes the place of a
    /// former listener; ends with `stopListening` or another listener. Of statuses that nobody has taken yet, the
    /// latest remains.
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

/// Finishes a stream when the last one who could add to it has gone.
private final class StreamEnding: Sendable {
    private let finish: @Sendable () -> Void
    init(_ finish: @escaping @Sendable () -> Void) { self.finish = finish }
    deinit { finish() }
}
