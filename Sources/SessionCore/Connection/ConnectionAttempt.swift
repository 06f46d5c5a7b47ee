// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import StrictJSON

/// A connection whose server the security policy has accepted, or that is allowed to go without TLS. Only
/// `ConnectionAttempt` makes one, and `VerifiedConnection` takes it over.
struct AcceptedHandshake: ~Copyable {
    let endpoint: Endpoint
    let descriptor: Int32
    /// TLS to the proxy that the connection goes through.
    let link: ProxyLink?
    /// TLS to the origin.
    let ssl: OpaquePointer?
    let trust: ConnectionTrust?
    let info: ConnectionInfo
    let applicationProtocol: ApplicationProtocol?
    let times: ConnectionTimes

    /// - Returns: nil unless the proxy, if there is one with TLS, is accepted now.
    fileprivate init?(
        plaintext: PlaintextPermission,
        to endpoint: Endpoint,
        at now: Int64,
        _ descriptor: Int32,
        _ link: ProxyLink?,
        _ info: ConnectionInfo,
        _ times: ConnectionTimes
    ) {
        guard Self.isProxyAccepted(link, for: endpoint, at: now) else { return nil }
        self.endpoint = endpoint
        self.descriptor = descriptor
        self.link = link
        ssl = nil
        trust = nil
        self.info = info
        applicationProtocol = nil
        self.times = times
    }

    /// - Returns: nil unless the verdict is one on this endpoint, and accepts the server now, and the proxy likewise.
    fileprivate init?(
        _ trust: ConnectionTrust,
        to endpoint: Endpoint,
        at now: Int64,
        _ descriptor: Int32,
        _ link: ProxyLink?,
        _ ssl: OpaquePointer,
        _ info: ConnectionInfo,
        _ times: ConnectionTimes
    ) {
        guard trust.holds(for: endpoint, at: now), Self.isProxyAccepted(link, for: endpoint, at: now) else {
            return nil
        }
        self.endpoint = endpoint
        self.descriptor = descriptor
        self.link = link
        self.ssl = ssl
        self.trust = trust
        self.info = info
        self.times = times
        applicationProtocol = ApplicationProtocol(rawValue: Self.selectedProtocol(ssl))
    }

    private static func selectedProtocol(_ ssl: OpaquePointer) -> String {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &count)
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    /// The protocol that a server has selected without having been offered it (RFC 7301, section 3.2), for people. OpenSSL looks
    /// at that from 3.0.15 on.
    fileprivate static func unaskedProtocol(_ ssl: OpaquePointer, _ offered: [ApplicationProtocol]) -> String? {
        let name = selectedProtocol(ssl)
        guard !name.isEmpty, !offered.contains(where: { $0.rawValue == name }) else { return nil }
        return "\"\(LegibleText.excerpt(name))\""
    }

    /// The verdict on the proxy may have lapsed while the proxy or the origin took its time.
    private static func isProxyAccepted(_ link: ProxyLink?, for endpoint: Endpoint, at now: Int64) -> Bool {
        if endpoint.proxyEndpoint == nil { link == nil } else { link?.mayCarry(endpoint, at: now) ?? false }
    }
}

/// Why there is no connection.
struct ConnectionFailure {
    var error: SessionError
    /// The server that was refused, or broke the handshake off; nil when the handshake was not reached.
    var info: ConnectionInfo?
    var times = ConnectionTimes()
    /// The process has no descriptor left; closing an idle connection may help.
    var isDescriptorMissing = false
}

/// The owner of a connection attempt: the task that needs the connection answers for it. A class to inherit from.
class ConnectionAttemptOwner {
    func attemptDidConnect(_ attempt: ConnectionAttempt, _ connection: VerifiedConnection) {}
    func attemptDidFail(_ attempt: ConnectionAttempt, _ failure: ConnectionFailure) {}
    /// Asked in the middle of the handshake when the server wants a client certificate and the policy names none.
    func attemptNeedsClientIdentity(_ attempt: ConnectionAttempt) -> ClientIdentityDecision { .none }
    /// Asked once for a server that the policy has accepted.
    ///
    /// - Returns: the reason for a refusal; nil to accept.
    func attempt(_ attempt: ConnectionAttempt, mayTrust trust: ConnectionTrust) -> SessionError? { nil }
    /// The policy has evaluated a server, and accepted or refused it.
    ///
    /// - Parameter endpoint: that of the attempt, or that of its HTTPS proxy.
    func attempt(_ attempt: ConnectionAttempt, didEvaluate trust: ConnectionTrust, of endpoint: Endpoint) {}
}

/// What all attempts of a session have in common.
struct AttemptSetting {
    let dialler: Dialler
    let context: TLSClientContext
    let headLimits: HeadLimits
    /// `SessionConfiguration.connectionNote`.
    var makeNote: (@Sendable (TrustEvaluation, Int64) -> [UInt8])?
}

/// Makes one verified connection: dials, has an HTTP proxy open a tunnel, then makes the TLS handshake under the endpoint's
/// security policy.
final class ConnectionAttempt {
    let endpoint: Endpoint
    /// When the attempt began, in nanoseconds of the loop's clock.
    let startedAt: UInt64
    /// Kept until the attempt is over. No weak reference: for the rest of its life every use of such an object costs twice as much.
    private var owner: ConnectionAttemptOwner?
    /// The times so far.
    var times: ConnectionTimes {
        noteTunnel()
        return record.times
    }

    private let protocols: [ApplicationProtocol]
    private var course: AttemptCourse
    private var record: AttemptRecord
    private let setting: AttemptSetting
    /// The profile that is offered to see whether the server takes it (`ProfileTrial`); nil for a connection.
    let trial: TLSProfile?
    private var dial: Dial?
    private var tunnel: ProxyTunnel?
    private var descriptor: Int32 = -1
    private var link: ProxyLink?
    /// TLS to the origin, which has it until then.
    private var handshake: TLSClientHandshake?
    /// TLS to the origin after its handshake.
    private var ssl: OpaquePointer?
    private var verification: TLSVerification?
    /// Held as long as the socket is, where connections are noted.
    private var noted: OwnConnections.Note?
    /// The trial after the failure that it is to explain.
    private var profileTrial: ProfileTrial?
    /// The wait for revocation lists.
    private var listWait: ListWait?

    /// - Parameters:
    ///   - protocols: offered in the handshake (ALPN), the best first; none when empty.
    ///   - isTunnelled: asks a proxy for a tunnel even where it gets requests without one (`Endpoint.isForwarded`).
    ///   - trial: in place of the endpoint's profile; the server is refused when it has taken it.
    init(
        _ endpoint: Endpoint,
        offering protocols: [ApplicationProtocol],
        isTunnelled: Bool,
        setting: AttemptSetting,
        trial: TLSProfile? = nil,
        owner: ConnectionAttemptOwner
    ) {
        self.endpoint = endpoint
        self.protocols = protocols
        course = AttemptCourse(
            isSecure: endpoint.scheme == .https,
            isTunnelled: endpoint.hasHTTPProxy && (isTunnelled || !endpoint.isForwarded),
            isTrial: trial != nil,
            hasListSource: setting.context.lists != nil
        )
        self.setting = setting
        self.trial = trial
        self.owner = owner
        startedAt = setting.dialler.loop.freshNow
        record = AttemptRecord(startedAt: startedAt)
    }

    deinit { cancel() }

    var stage: ConnectionStage {
        if tunnel != nil { return .tunnel }
        return dial?.isLookingUp == true ? .lookup : .connection
    }

    /// The evaluation of the server, also of one that was refused.
    var evaluation: TrustEvaluation? { verification?.lastTrust?.evaluation }
    /// The error of the attempt if nothing more comes of it: the server is refused because revocation lists are missing, which are
    /// being fetched.
    var pendingError: SessionError? { listWait?.error }
    /// Whether a server has shown its chain, and so has taken what was offered.
    var hasSeenChain: Bool { verification?.hasSeenChain ?? false }

    /// Begins. The owner hears of the result later, never from within this call.
    func start() {
        let dial = Dial(
            endpoint,
            dialler: setting.dialler,
            didEnd: { [unowned self] in dialDidEnd($0) },
            isAnswered: { [unowned self] in isAddressAnswered() }
        )
        self.dial = dial
        dial.start()
    }

    /// Gives the attempt up; the owner hears nothing more.
    func cancel() {
        guard course.end() else { return }
        owner = nil
        profileTrial?.cancel()
        profileTrial = nil
        listWait?.cancel()
        listWait = nil
        endDial()
        closeSocket()
    }

    private var loop: EventLoop { setting.dialler.loop }

    private func dialDidEnd(_ outcome: Dial.Outcome) {
        guard let dial else { return }
        record.dialDidEnd(lookup: dial.lookupTime)
        switch outcome {
        case .failed(let error): fail(ConnectionFailure(error: error))
        case .failedWithoutDescriptor(let error): fail(ConnectionFailure(error: error, isDescriptorMissing: true))
        case .connected(let descriptor, let peer):
            if !dial.needsAnswer { settleAddress() }
            self.descriptor = descriptor
            noted = OwnConnections.all.note(descriptor, to: peer)
            record.didConnect(to: peer)
            take(course.didConnect())
        }
    }

    private func take(_ step: AttemptCourse.Step) {
        switch step {
        case .openTunnel: openTunnel()
        case .beginHandshake: startHandshake()
        case .acceptPlaintext: acceptPlaintext()
        }
    }

    // MARK: One address of several

    /// Whether the server, or the proxy, has sent anything since its address has connected.
    private var hasHeard: Bool { handshake?.hasHeard ?? tunnel?.hasHeard ?? (ssl != nil) }

    /// The dial is needed no more: the address has answered, or there is nothing to dial for.
    private func endDial() {
        guard let dial else { return }
        self.dial = nil
        if hasHeard { dial.settle() } else { dial.cancel() }
    }

    /// Nothing that comes now leads to another address.
    private func settleAddress() {
        dial?.settle()
        dial = nil
    }

    /// Asked when there are other addresses, and this one has had its time to answer.
    private func isAddressAnswered() -> Bool {
        if hasHeard { return true }
        leaveSocket()
        return false
    }

    private func leaveSocket() {
        closeSocket()
        record.leaveAddress()
        verification = nil
    }

    // MARK: An HTTP proxy

    private func openTunnel() {
        let tunnel = ProxyTunnel(
            to: endpoint,
            on: descriptor,
            limits: setting.headLimits,
            loop: loop,
            makeNote: { [unowned self] in note($0) },
            didEvaluate: { [unowned self] trust in
                if let proxy = endpoint.proxyEndpoint { owner?.attempt(self, didEvaluate: trust, of: proxy) }
            },
            didEnd: { [unowned self] in tunnelDidEnd($0) }
        )
        self.tunnel = tunnel
        // A proxy without TLS answers when it has made its own connection, which takes its time.
        if endpoint.proxyEndpoint != nil { dial?.awaitAnswer() }
        do {
            try tunnel.start(setting.context)
        } catch {
            fail(ConnectionFailure(error: error))
        }
    }

    /// Takes over what the tunnel knows, which may not have ended yet.
    private func noteTunnel() {
        guard let tunnel else { return }
        record.noteProxy(handshakeStart: tunnel.handshakeStart, handshakeEnd: tunnel.handshakeEnd, tunnel.info)
    }

    private func tunnelDidEnd(_ outcome: ProxyTunnel.Outcome) {
        noteTunnel()
        let isAnswered = tunnel?.hasHeard != false
        tunnel = nil
        switch outcome {
        case .open(let link):
            settleAddress()
            self.link = link
            take(course.tunnelDidOpen())
        case .failed(let error):
            record.didEnd(at: loop.freshNow)
            fail(
                ConnectionFailure(error: error, info: record.withoutTLS),
                .tunnel(isAnswered: isAnswered, isCut: error.isHandshakeCut)
            )
        }
    }

    private var lapsedProxy: SessionError {
        SessionError(
            .proxyUntrusted,
            "The upstream proxy \(endpoint.proxyEndpoint.map { $0.authorityText } ?? "") is not trusted: the verdict on it does not hold any more.",
            evaluation: record.proxy?.evaluation
        )
    }

    private func acceptPlaintext() {
        record.didEnd(at: loop.freshNow)
        settleAddress()
        guard let permission = endpoint.plaintextPermission, let info = record.withoutTLS else {
            return fail(
                ConnectionFailure(error: SessionError(.connectFailed, "\(authority) closed the connection at once."))
            )
        }
        let (now, times) = (loop.freshWallClock / 1_000_000, record.times)
        let accepted = AcceptedHandshake(plaintext: permission, to: endpoint, at: now, descriptor, link, info, times)
        if let accepted { succeed(accepted) } else { fail(ConnectionFailure(error: lapsedProxy, info: info)) }
    }

    // MARK: Handshake

    private func startHandshake() {
        record.handshakeDidBegin(at: loop.freshNow)
        dial?.awaitAnswer()
        let decision = HandshakeDecision()
        do {
            let transport = link.map { TLSClientContext.Transport.proxy($0) } ?? .socket(descriptor)
            let (ssl, verification) = try setting.context.makeConnection(
                to: endpoint,
                through: transport,
                offering: protocols,
                trial: trial
            ) { decision.identity }
            self.verification = verification
            let handshake = TLSClientHandshake(
                ssl,
                on: descriptor,
                loop: loop,
                threads: setting.context.threads,
                party: endpoint.party,
                decision: decision,
                decide: { [unowned self] in identityAnswer() },
                didEnd: { [unowned self] in handshakeDidEnd(ssl, $0) }
            )
            self.handshake = handshake
            try handshake.start()
        } catch let error as SessionError {
            fail(ConnectionFailure(error: error))
        } catch {
            fail(ConnectionFailure(error: SessionError(.internal, "The socket cannot be waited for: \(error).")))
        }
    }

    private func handshakeDidEnd(_ ssl: OpaquePointer, _ outcome: TLSClientHandshake.Outcome) {
        handshake = nil
        switch outcome {
        case .complete:
            self.ssl = ssl
            settleAddress()
            conclude(ssl)
        case .failed(let fault):
            handshakeDidFail(fault)
        }
    }

    private func conclude(_ ssl: OpaquePointer) {
        record.handshakeDidEnd(at: loop.freshNow)
        guard let trust = TLSVerification.evaluation(of: ssl),
            let info = record.verified(
                trust,
                version: ShortName(cString: SSL_get_version(ssl)),
                cipher: ShortName(cString: SSL_CIPHER_get_name(SSL_get_current_cipher(ssl))),
                isClientCertificateMissing: verification?.isClientCertificateMissing ?? false,
                note: note(trust.evaluation)
            )
        else {
            return fail(
                ConnectionFailure(
                    error: SessionError(
                        .certificateUntrusted,
                        "The connection to \(endpoint.host) was never evaluated by the security policy."
                    )
                )
            )
        }
        owner?.attempt(self, didEvaluate: trust, of: endpoint)
        guard !course.isOver else { return }
        if let unasked = AcceptedHandshake.unaskedProtocol(ssl, protocols) {
            let details = "\(authority) has selected the protocol \(unasked) (ALPN), which was not offered."
            return fail(ConnectionFailure(error: SessionError(.tlsHandshakeFailed, details), info: info))
        }
        if let refusal = owner?.attempt(self, mayTrust: trust) {
            return fail(ConnectionFailure(error: refusal, info: info))
        }
        guard !course.isOver else { return }
        let now = loop.freshWallClock / 1_000_000
        if let accepted = AcceptedHandshake(trust, to: endpoint, at: now, descriptor, link, ssl, info, record.times) {
            return succeed(accepted)
        }
        guard link.map({ $0.mayCarry(endpoint, at: now) }) ?? true else {
            return fail(ConnectionFailure(error: lapsedProxy, info: info))
        }
        let lapse = trust.evaluation.lapse(at: now)
        fail(
            ConnectionFailure(
                error: SessionError(
                    lapse.map { SessionError.Code($0) } ?? .certificateUntrusted,
                    "The verdict on \(endpoint.host) does not hold any more.",
                    evaluation: trust.evaluation
                ),
                info: info
            )
        )
    }

    private func handshakeDidFail(_ fault: TLSFault) {
        record.handshakeDidEnd(at: loop.freshNow)
        let trust = verification?.lastTrust
        if let trust, !course.awaitsLists(!trust.evaluation.missingLists.isEmpty) {
            owner?.attempt(self, didEvaluate: trust, of: endpoint)
        }
        guard !course.isOver else { return }
        let handshakeFailure = HandshakeFailure(
            endpoint: endpoint,
            evaluation: trust?.evaluation,
            isChainSeen: hasSeenChain,
            isClientCertificateMissing: verification?.isClientCertificateMissing ?? false,
            refusal: ClientCertificateRefusal(fault.alert, verification),
            fault: fault
        )
        let error = record.identityFailure ?? handshakeFailure.error
        let info = record.refused(
            trust,
            isClientCertificateMissing: verification?.isClientCertificateMissing ?? false
        ) { note($0) }
        let isOfferRefused = handshakeFailure.isOfferRefused
        fail(
            ConnectionFailure(error: error, info: info),
            .handshake(isEvaluated: trust != nil, isCut: error.isHandshakeCut, isOfferRefused: isOfferRefused)
        ) { handshakeFailure.error }
    }

    /// Finds out, once for an endpoint, whether the server would take a wider profile, and then fails with words about that.
    private func explain(_ failure: ConnectionFailure, _ explained: @escaping () -> SessionError) {
        endDial()
        closeSocket()
        var setting = setting
        setting.makeNote = nil
        let trial = ProfileTrial(
            endpoint.tls.profile.wider,
            loop: loop,
            makeAttempt: { [unowned self, setting] profile, owner in
                ConnectionAttempt(
                    endpoint,
                    offering: protocols,
                    isTunnelled: course.isTunnelled,
                    setting: setting,
                    trial: profile,
                    owner: owner
                )
            },
            didEnd: { [unowned self] profile in
                profileTrial = nil
                endpoint.endTrial(profile)
                var failure = failure
                failure.error = explained()
                fail(failure)
            }
        )
        profileTrial = trial
        trial.start()
    }

    private func note(_ evaluation: TrustEvaluation) -> [UInt8] {
        setting.makeNote?(evaluation, loop.freshWallClock / 1_000_000) ?? []
    }

    private func identityAnswer() -> HandshakeIdentity {
        guard !course.isOver, let owner else { return .refuse }
        switch owner.attemptNeedsClientIdentity(self) {
        case .none: return .none
        case .show(let identity): return .show(identity)
        case .fail(let error):
            record.identityFailure = error
            return .refuse
        }
    }

    // MARK: The end

    private func succeed(_ handshake: consuming AcceptedHandshake) {
        _ = course.end()
        let connection = VerifiedConnection(handshake, madeAt: loop.now, loop: loop)
        connection.noted = noted.take()
        descriptor = -1
        ssl = nil
        link = nil
        let owner = owner.take()
        owner?.attemptDidConnect(self, connection)
    }

    // MARK: Revocation lists

    /// Has the lists fetched for which alone the server, or the proxy, was refused. Nothing was sent: once they are there, the attempt
    /// is made again, and evaluates anew.
    private func awaitLists(after failure: ConnectionFailure) {
        guard let evaluation = failure.error.evaluation, let lists = setting.context.lists else {
            return end(with: failure)
        }
        let trust = verification?.lastTrust
        func error(_ words: String) -> SessionError {
            SessionError(failure.error.code, "\(failure.error.details) \(words)", evaluation: evaluation)
        }
        endDial()
        closeSocket()
        let wait = ListWait(error("It is being fetched."), loop: loop) { [unowned self] fault in
            listWait = nil
            guard let fault else {
                leaveSocket()
                return start()
            }
            // The server's own verdict; that on a proxy was told by the tunnel.
            if let trust { owner?.attempt(self, didEvaluate: trust, of: endpoint) }
            guard !course.isOver else { return }
            var failure = failure
            failure.error = error("It could not be fetched: \(fault).")
            fail(failure)
        }
        listWait = wait
        wait.start(evaluation.missingLists, from: lists)
    }

    /// - Parameter explained: the error after a trial that has shown what the server would take.
    private func fail(
        _ failure: ConnectionFailure,
        _ fault: AttemptCourse.Fault = .other,
        explained: (() -> SessionError)? = nil
    ) {
        let recovery = course.didFail(
            fault,
            areListsMissing: failure.error.evaluation?.missingLists.isEmpty == false,
            dialsNext: { dial?.leave() == true },
            beginsTrial: { endpoint.beginsTrial() }
        )
        if case .nextAddress = recovery { return leaveSocket() }
        if case .other = fault {} else { settleAddress() }
        switch recovery {
        case .nothing, .nextAddress: break
        case .awaitLists: awaitLists(after: failure)
        case .explain: if let explained { explain(failure, explained) }
        case .fail: end(with: failure)
        }
    }

    private func end(with failure: ConnectionFailure) {
        var failure = failure
        failure.times = times
        endDial()
        closeSocket()
        let owner = owner.take()
        owner?.attemptDidFail(self, failure)
    }

    private func closeSocket() {
        guard descriptor >= 0 else { return }
        noteTunnel()
        var isOwner = tunnel?.cancel() ?? true
        tunnel = nil
        if let handshake { isOwner = handshake.abandon(link) }
        handshake = nil
        // An alert that says why went out with the failed handshake; a connection that was given up says nothing.
        if let ssl { SSL_free(ssl) }
        ssl = nil
        // Behind the origin's `SSL`, which goes through it.
        link = nil
        // Before its port is free for another connection.
        noted = nil
        if isOwner { close(descriptor) }
        descriptor = -1
    }

    private var authority: String { endpoint.authorityText }
}

/// The wait of an attempt for revocation lists, which another thread fetches.
///
/// `@unchecked Sendable`: the loop's thread alone touches it; what another thread has is handed over by `EventLoop.submit`.
private final class ListWait: @unchecked Sendable {
    /// The error if the lists come too late.
    let error: SessionError
    private let loop: EventLoop
    private var didEnd: ((String?) -> Void)?

    /// - Parameter didEnd: called on the loop, never from within `start`: with the reason where the lists are not there.
    init(_ error: SessionError, loop: EventLoop, didEnd: @escaping (String?) -> Void) {
        self.error = error
        self.loop = loop
        self.didEnd = didEnd
    }

    func start(_ needs: [RevocationListNeed], from source: RevocationListSource) {
        source.obtain(needs) { [self, loop] fault in
            loop.submit { [self] in
                let tell = didEnd
                didEnd = nil
                tell?(fault)
            }
        }
    }

    func cancel() { didEnd = nil }
}

/// Finds the TLS profile that a server would need which has refused what was offered to it: connects with each of the wider
/// profiles in turn, until the server shows its certificate. There the handshake is broken off; no request goes out.
private final class ProfileTrial: ConnectionAttemptOwner {
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
