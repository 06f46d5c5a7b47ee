// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// One generation of the policy in one worker: the snapshot, its router, and a session of its own, so that no
/// connection and no TLS session is used by another generation (invariant 4).
///
/// A request that was sent ends in its generation, whatever is loaded meanwhile. A replaced generation is retired: it
/// starts no new requests, gives back requests that were not sent, closes idle connections, and is freed with its last
/// request.
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
    /// The certificates for intercepted clients; nil without a local CA.
    let leaves: LeafContexts?
    /// The rules that give requests trace and id; nil where requests have neither.
    let identities: IdentityRules?
    /// The credentials that rules of `requests` give; nil without such rules.
    let credentials: CredentialDesk?

    /// - Parameters:
    ///   - loop: the worker's loop; the session is used on its thread only.
    ///   - workers: the number of workers, which share the limits of the process.
    ///   - descriptors: the descriptors that connections may use.
    ///   - handshakes: the threads for the TLS handshakes with origins.
    ///   - lists: what fetches revocation lists.
    ///   - credentials: what keeps the values of credentials.
    init(
        _ snapshot: PolicySnapshot,
        loop: EventLoop,
        workers: Int,
        descriptors: DescriptorShares,
        handshakes: FairThreads = .handshakes,
        lists: RevocationListSource? = nil,
        credentials: CredentialRenewals? = nil
    ) throws(SessionError) {
        self.snapshot = snapshot
        router = Router(snapshot: snapshot, workers: workers)
        let configuration = snapshot.configuration
        var session = SessionConfiguration()
        session.connectionsPerHost = max(1, configuration.limits.connectionsPerHost / workers)
        session.resolver = configuration.resolver
        session.connectionPoolSize = min(session.connectionPoolSize, descriptors.idleOrigins)
        session.responseHeadBytes = configuration.limits.responseHeadBytes
        session.responseHeadFields = configuration.limits.responseHeadFields
        session.connectionNote = PinningText.make
        session.handshakes = handshakes
        session.revocationLists = lists
        manager = try LoopSession(loop: loop, configuration: session)
        headLimits = HeadLimits(
            headBytes: configuration.limits.headBytes,
            targetBytes: min(configuration.limits.targetBytes, configuration.limits.headBytes),
            fieldCount: configuration.limits.headFields,
            strictHost: configuration.limits.strictHost
        )
        headTime = .milliseconds(configuration.defaults.timeouts.head.count)
        bodyTime = .milliseconds(configuration.defaults.timeouts.body.count)
        idleTime = .milliseconds(configuration.defaults.timeouts.idle.count)
        requestBodyLimit = configuration.limits.requestBodyBytes
        identities = IdentityRules(configuration)
        leaves = snapshot.parts.authority.map { LeafContexts($0) }
        if let credentials, !snapshot.usedCredentials.isEmpty {
            let board = credentials.board(for: snapshot, on: loop)
            self.credentials = CredentialDesk(board, configuration, loop: loop)
        } else {
            self.credentials = nil
        }
    }

    /// Starts no new requests from now on. Requests that were not sent restart at once under the worker's current
    /// generation.
    func retire() {
        manager.retire()
        credentials?.retire()
    }
}
