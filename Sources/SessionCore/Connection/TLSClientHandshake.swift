// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
import IOCore
import ServerTrust
import Synchronization

/// The client's side of a TLS handshake on a connected socket.
///
/// The loop waits for the socket, and writes the first flight. The steps that read what the server has sent are made on the
/// threads for handshakes: whatever a server finds for OpenSSL to compute delays no connection of the loop. While a thread has
/// it, nothing here touches the `SSL`, the socket or the proxy's link below them; an owner that gives up leaves all three to the
/// step, which frees them at its end.
///
/// `@unchecked Sendable`: the thread touches `step` alone, whose own comment says how; the closure that it gives back to the
/// loop is the only other thing that it holds.
final class TLSClientHandshake: EventHandler, @unchecked Sendable {
    enum Outcome {
        /// The `SSL` is the owner's from now on.
        case complete
        case failed(TLSFault)
    }

    private let step: TLSHandshakeStep
    private let descriptor: Int32
    private let loop: EventLoop
    private let threads: FairThreads
    private let party: UInt64
    private let decide: () -> HandshakeIdentity
    private let didEnd: (Outcome) -> Void
    /// Whether the server has sent anything, or has ended the connection.
    private(set) var hasHeard = false
    private var isOnThread = false
    private var isOver = false

    /// - Parameters:
    ///   - ssl: it is this object's until the handshake is complete.
    ///   - descriptor: the socket, which stays the owner's but for `abandon`.
    ///   - threads: where the steps are made.
    ///   - party: whose work it is, for the shares of the threads.
    ///   - decision: asked for on the loop when the server wants a client certificate and the policy names none.
    ///   - decide: makes that decision. It may end the handshake.
    ///   - didEnd: called once, on the loop.
    init(
        _ ssl: OpaquePointer,
        on descriptor: Int32,
        loop: EventLoop,
        threads: FairThreads,
        party: UInt64,
        decision: HandshakeDecision,
        decide: @escaping () -> HandshakeIdentity,
        didEnd: @escaping (Outcome) -> Void
    ) {
        step = TLSHandshakeStep(ssl, decision)
        self.descriptor = descriptor
        self.loop = loop
        self.threads = threads
        self.party = party
        self.decide = decide
        self.didEnd = didEnd
    }

    /// Writes the first flight, and waits for the server's.
    func start() throws(IOFailure) {
        // Readable for one event: the socket stays silent while a thread has it.
        try loop.register(descriptor, [.readable, .oneShot], self)
        step.makeFirst()
        stepDidEnd(isFirst: true)
    }

    override func ready(_ readiness: Readiness) {
        if readiness.contains(.readable) { hasHeard = true }
        makeStep()
    }

    private func makeStep() {
        guard !isOver, !isOnThread else { return }
        if !loop.isByHand {
            isOnThread = true
            let isTaken = threads.submit(for: party) { [self] in
                step.make()
                loop.submit { [self] in threadDidEnd() }
            }
            if isTaken { return }
            isOnThread = false
        }
        step.make()
        stepDidEnd(isFirst: false)
    }

    private func threadDidEnd() {
        isOnThread = false
        if !isOver { stepDidEnd(isFirst: false) }
    }

    /// - Parameter isFirst: the socket was registered for what the first flight is followed by.
    private func stepDidEnd(isFirst: Bool) {
        loop.noteWork(.handshake)
        switch step.result {
        case .needs(let readiness):
            if !isFirst || readiness != .readable { loop.modify(descriptor, [readiness, .oneShot]) }
        case .needsDecision:
            let identity = decide()
            guard !isOver else { return }
            step.decision.identity = identity
            makeStep()
        case .complete:
            end(.complete)
        case .failed(let fault):
            end(.failed(fault))
        }
    }

    private func end(_ outcome: Outcome) {
        isOver = true
        if case .complete = outcome {
            loop.park(descriptor, of: self)
            step.release()
        } else {
            loop.unregister(descriptor, of: self)
        }
        didEnd(outcome)
    }

    /// Gives the handshake up. Nothing is called any more.
    ///
    /// - Parameter outer: owns the TLS to the proxy that the `SSL` goes through.
    /// - Returns: whether the socket stays the owner's. Otherwise a thread has it, and it is closed when the step ends.
    func abandon(_ outer: AnyObject?) -> Bool {
        guard !isOver else { return true }
        isOver = true
        loop.unregister(descriptor, of: self)
        if isOnThread {
            step.drop(closing: descriptor, outer)
            return false
        }
        step.free()
        return true
    }
}

/// The decision on a client certificate, which the loop makes between two steps.
///
/// `@unchecked Sendable`: the loop writes it while no thread has the handshake, and a thread reads it within a step; handing
/// the step over and back orders the two.
final class HandshakeDecision: @unchecked Sendable {
    var identity = HandshakeIdentity.undecided
}

/// A handshake as a thread has it. Owns the `SSL`, until `release`.
///
/// `@unchecked Sendable`: the loop and one thread have it in turns, and handing it over and back orders their accesses. While a
/// thread has it, the loop calls `drop` alone: of what that writes, a thread reads `isDropped`, which is atomic, and `deinit` the
/// rest, after the last reference has gone.
private final class TLSHandshakeStep: @unchecked Sendable {
    enum Result {
        case complete
        case needs(Readiness)
        case needsDecision
        case failed(TLSFault)
    }

    let decision: HandshakeDecision
    private(set) var result = Result.needs(.readable)
    private let ssl: OpaquePointer
    private var isOwner = true
    private let isDropped = Atomic(false)
    private var abandonedSocket: Int32 = -1
    private var outer: AnyObject?

    init(_ ssl: OpaquePointer, _ decision: HandshakeDecision) {
        self.ssl = ssl
        self.decision = decision
    }

    deinit {
        free()
        // Behind the origin's `SSL`, which goes through it.
        outer = nil
        if abandonedSocket >= 0 { close(abandonedSocket) }
    }

    /// Writes the first flight. What the server has sent by then is left to the next step: a server may speak first, or answer
    /// before OpenSSL looks for its answer.
    func makeFirst() {
        pinproxy_ssl_hold_input(ssl, 1)
        make()
        pinproxy_ssl_hold_input(ssl, 0)
    }

    /// Makes a step, unless its owner has gone.
    func make() {
        guard !isDropped.load(ordering: .relaxed) else { return }
        pinproxy_clear_errors()
        errno = 0
        let code = SSL_do_handshake(ssl)
        let error = errno
        if code == 1 {
            pinproxy_ssl_end_guard(ssl)
            result = .complete
            return
        }
        switch SSL_get_error(ssl, code) {
        case SSL_ERROR_WANT_READ: result = .needs(.readable)
        case SSL_ERROR_WANT_WRITE: result = .needs(.writable)
        case SSL_ERROR_WANT_X509_LOOKUP: result = .needsDecision
        // The queue of errors is this thread's.
        default: result = .failed(TLSFault(draining: error))
        }
    }

    /// The owner of the handshake has the `SSL` from now on.
    func release() { isOwner = false }

    /// Frees the `SSL`, which no thread has.
    func free() {
        if isOwner { SSL_free(ssl) }
        isOwner = false
    }

    /// The owner has gone: a step that has not begun is not made, and all is freed at its end.
    func drop(closing descriptor: Int32, _ outer: AnyObject?) {
        isDropped.store(true, ordering: .relaxed)
        abandonedSocket = descriptor
        self.outer = outer
    }
}
