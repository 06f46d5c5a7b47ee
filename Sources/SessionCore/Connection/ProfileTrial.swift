import IOCore
import ServerTrust

/// Finds the TLS profile that a server would need which has refused what was offered to it: connects with each of the wider
/// profiles in turn, until the server shows its certificate. There the handshake is broken off; no request goes out.
final class ProfileTrial: ConnectionAttemptOwner {
    private let loop: EventLoop
    private var rest: ArraySlice<TLSProfile>
    private let makeAttempt: (TLSProfile, ProfileTrial) -> ConnectionAttempt
    private let didEnd: (TLSProfile?) -> Void
    private var attempt: ConnectionAttempt?
    private let timer = LoopTimer()
    private var isOver = false

    /// The request has its error already, and waits for no more than words.
    private static let limit = TimeSpan.seconds(2)

    /// - Parameters:
    ///   - profiles: those to try, the nearest first.
    ///   - makeAttempt: makes an attempt that offers a profile, for this owner.
    ///   - didEnd: called once, never from within `start`, with the first profile that the server has taken.
    init(
        _ profiles: [TLSProfile],
        loop: EventLoop,
        makeAttempt: @escaping (TLSProfile, ProfileTrial) -> ConnectionAttempt,
        didEnd: @escaping (TLSProfile?) -> Void
    ) {
        self.loop = loop
        rest = profiles[...]
        self.makeAttempt = makeAttempt
        self.didEnd = didEnd
        super.init()
        timer.whenDue { [unowned self] in end(nil) }
    }

    deinit { cancel() }

    func start() {
        loop.arm(timer, after: Self.limit)
        tryNext()
    }

    func cancel() {
        guard !isOver else { return }
        isOver = true
        loop.remove(timer)
        attempt?.cancel()
        attempt = nil
    }

    private func tryNext() {
        guard let profile = rest.popFirst() else { return end(nil) }
        let attempt = makeAttempt(profile, self)
        self.attempt = attempt
        attempt.start()
    }

    override func attemptDidConnect(_ attempt: ConnectionAttempt, _ connection: VerifiedConnection) {
        // No trial is accepted.
        connection.close(isWhole: true)
        end(nil)
    }

    override func attemptDidFail(_ attempt: ConnectionAttempt, _ failure: ConnectionFailure) {
        guard !isOver else { return }
        if let profile = attempt.trial, attempt.hasSeenChain { return end(profile) }
        tryNext()
    }

    private func end(_ profile: TLSProfile?) {
        guard !isOver else { return }
        cancel()
        didEnd(profile)
    }
}

/// What a trial has found out about the server of an endpoint.
enum ProfileFinding: Equatable {
    /// None was made.
    case unknown
    /// The server refuses all profiles, for another reason than its cipher suites.
    case none
    case needs(TLSProfile)
}
