import HTTPCore
import IOCore
import SessionCore

/// One generation of the policy as one worker serves under it: the snapshot, the routes that it gives, and a session
/// of its own, so that no connection and no TLS session goes over to another generation (invariant 4).
///
/// A request that has gone out ends in its generation, whatever is loaded meanwhile. One that is replaced is retired: it
/// takes nothing new, gives back what has not gone out, closes the connections that carry nothing, and is gone when its
/// last request is.
///
/// `@unchecked Sendable` because it is made by the thread that reloads, handed over through `EventLoop.submit`, and
/// from then on touched by that loop's thread alone.
final class Generation: @unchecked Sendable {
    let snapshot: PolicySnapshot
    let router: Router
    let manager: LoopSession
    let headLimits: HeadLimits
    let headTime: TimeSpan
    let bodyTime: TimeSpan
    let idleTime: TimeSpan
    let requestBodyLimit: Int?
    /// What intercepted clients are shown; nil without a local CA.
    let leaves: LeafContexts?

    /// - Parameters:
    ///   - loop: the worker's; the session is of use on its thread only.
    ///   - workers: the limits are for the whole process, and each worker has its share.
    ///   - descriptors: what connections may have.
    init(
        _ snapshot: PolicySnapshot,
        loop: EventLoop,
        workers: Int,
        descriptors: DescriptorShares
    ) throws(SessionError) {
        self.snapshot = snapshot
        router = Router(snapshot: snapshot, workers: workers)
        let configuration = snapshot.configuration
        var session = SessionConfiguration()
        session.connectionsPerHost = max(1, configuration.limits.connectionsPerHost / workers)
        session.connectionPoolSize = min(session.connectionPoolSize, descriptors.idleOrigins)
        manager = try LoopSession(loop: loop, configuration: session)
        headLimits = HeadLimits(
            headBytes: configuration.limits.headBytes,
            fieldCount: configuration.limits.headFields
        )
        headTime = .milliseconds(configuration.defaults.timeouts.head.count)
        bodyTime = .milliseconds(configuration.defaults.timeouts.body.count)
        idleTime = .milliseconds(configuration.defaults.timeouts.idle.count)
        requestBodyLimit = configuration.limits.requestBodyBytes
        leaves = snapshot.parts.authority.map { LeafContexts($0) }
    }

    /// Takes nothing new from now on. Requests that have not gone out begin anew at once, under the worker's generation.
    func retire() {
        manager.retire()
    }
}
