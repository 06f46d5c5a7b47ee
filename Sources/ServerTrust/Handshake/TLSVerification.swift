// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import CShims
import Glibc
public import HTTPCore
import IOCore
import Synchronization

/// Applies a security policy inside the TLS handshake of a connection. OpenSSL calls it instead of its own
/// verification, before the handshake is finished and therefore before any byte of a request can be sent.
///
/// ```swift
/// let (ssl, verification) = try TLSVerification.attach(
///     toConnectionOf: context, policy: policy, host: host, anchors: anchors, generation: 1
/// )
/// // SSL_set_tlsext_host_name (SNI is the caller's), SSL_set_fd, SSL_connect …
/// guard let trust = TLSVerification.evaluation(of: ssl), trust.evaluation.isStillGood(at: now) else { refuse }
/// ```
///
/// One `SSL_CTX` serves any hosts and policies: each connection has its own. The `SSL` owns this object through its ex-data,
/// and frees it at its own end.
public final class TLSVerification: Sendable {
    /// The policy that servers have to meet.
    public let policy: SecurityPolicy
    /// The host that servers have to prove to be.
    public let host: Host
    /// The generation of the snapshot that the policy belongs to.
    public let generation: UInt64
    private let anchors: TrustAnchors
    /// The revocation lists that were fetched; nil where nothing fetches any.
    private let lists: RevocationListStore?
    private let time: Int64?
    /// Guards the only mutable property. It is taken once for each handshake, never on the request path.
    private let last = Locked<ConnectionTrust?>(nil)

    /// The result of the handshake, a refused one included: it explains the failure of a connection that does not exist
    /// any more.
    public var lastTrust: ConnectionTrust? { last.withLock { $0 } }

    private let sawChain = Atomic<Bool>(false)
    /// Whether a server has sent a chain in the handshake, accepted or not. Before that no server has
    /// claimed to be the host. In a trial: one that has chosen what `modern` does not offer.
    package var hasSeenChain: Bool { sawChain.load(ordering: .relaxed) }

    private let askedForCertificate = Atomic<Bool>(false)
    /// Whether the server has requested a client certificate.
    package var wasAskedForCertificate: Bool { askedForCertificate.load(ordering: .relaxed) }
    private let suppliedIdentity = Locked<ClientIdentity?>(nil)
    /// The client certificate for a server that requests one.
    package var clientIdentity: ClientIdentity? {
        policy.configuration.clientCertificate ?? suppliedIdentity.withLock { $0 }
    }
    /// Whether the server has requested a client certificate and the policy has none. Most such servers refuse the
    /// connection then.
    public var isClientCertificateMissing: Bool { wasAskedForCertificate && clientIdentity == nil }
    private let identity: (@Sendable () -> HandshakeIdentity)?
    /// Every server is refused as soon as it shows a chain: the handshake is made to see whether it comes so far.
    private let isTrial: Bool

    private init(
        policy: SecurityPolicy,
        host: Host,
        anchors: TrustAnchors,
        generation: UInt64,
        lists: RevocationListStore?,
        time: Int64?,
        identity: (@Sendable () -> HandshakeIdentity)?,
        isTrial: Bool
    ) {
        self.lists = lists
        self.identity = identity
        self.isTrial = isTrial
        self.policy = policy
        self.host = host
        self.anchors = policy.configuration.trustAnchors ?? anchors
        self.generation = generation
        self.time = time
    }

    /// Makes a connection with a policy in charge of its handshake.
    ///
    /// The first connection of a context sets the context up, before any other thread may use it: the verify callback (which
    /// replaces OpenSSL's verification) and `SSL_VERIFY_PEER`, the lowest TLS version, security level 2, cipher suites, groups and
    /// signature algorithms; renegotiation, session cache and tickets are off, so that every connection makes a full handshake. A
    /// connection of such a context that has no policy, as one that the program makes by SSL_new(3), refuses every server. The
    /// caller must not weaken these settings afterwards (`SSL_CTX_set_verify`, options, cache mode).
    ///
    /// The connection gets the policy's own lowest TLS version, groups and client certificate, and asks for a stapled OCSP response
    /// where the policy has `requiresStaple`.
    ///
    /// - Parameters:
    ///   - sslContext: an `SSL_CTX *` that the caller owns.
    ///   - policy: the policy that the server has to meet.
    ///   - host: the host that the server has to prove to be.
    ///   - anchors: used unless the policy has `trustAnchors` of its own.
    ///   - generation: the snapshot's number, handed back with the evaluation.
    /// - Returns: the connection, an `SSL *` that the caller frees with SSL_free(3), and its verification, for `lastTrust`.
    /// - Throws: when OpenSSL refuses a setting.
    public static func attach(
        toConnectionOf sslContext: OpaquePointer,
        policy: SecurityPolicy,
        host: Host,
        anchors: TrustAnchors,
        generation: UInt64
    ) throws(OpenSSLError) -> (ssl: OpaquePointer, verification: TLSVerification) {
        if SSL_CTX_get_ex_data(sslContext, preparedIndex) == nil { try prepare(sslContext) }
        guard let ssl = SSL_new(sslContext) else { throw OpenSSLError(draining: "SSL_new") }
        do throws(OpenSSLError) {
            let verification = try attach(
                to: ssl,
                policy: policy,
                host: host,
                anchors: anchors,
                generation: generation,
                identity: nil
            )
            return (ssl, verification)
        } catch {
            SSL_free(ssl)
            throw error
        }
    }

    /// The result kept with a connection: after its handshake, and as long as the `SSL` lives.
    ///
    /// - Parameter ssl: an `SSL *` with a policy. It must not have been reset with SSL_clear(3).
    /// - Returns: `nil` when no evaluation was made for this connection: one without a policy, a handshake without a
    ///   certificate, a resumed session, a key exchange on another group than the policy requires. Nothing may be sent then.
    public static func evaluation(of ssl: OpaquePointer) -> ConnectionTrust? {
        guard SSL_session_reused(ssl) == 0, let record = SSL_get_ex_data(ssl, connectionIndex) else { return nil }
        let trust = Unmanaged<ConnectionTrust>.fromOpaque(record).takeUnretainedValue()
        let group = TLSGroup(negotiatedBy: ssl)
        let required = trust.policy.configuration.requireGroups
        // Only these were offered; here OpenSSL's word for it is not enough.
        guard required.isEmpty || group.map(required.contains) ?? false else { return nil }
        trust.note(group)
        return trust
    }

    /// The verification that a connection uses.
    ///
    /// - Parameter ssl: an `SSL *`.
    /// - Returns: `nil` for a connection without a policy.
    public static func of(_ ssl: OpaquePointer) -> TLSVerification? {
        guard let record = SSL_get_ex_data(ssl, attachmentIndex) else { return nil }
        return Unmanaged<TLSVerification>.fromOpaque(record).takeUnretainedValue()
    }

    // MARK: - One context for many hosts

    /// Prepares an `SSL_CTX` whose connections each get a policy of their own with `attach`. A connection without one
    /// refuses every server.
    ///
    /// - Parameter profile: the cipher suites that are offered on it.
    /// - Throws: when OpenSSL refuses a setting. The context must not be used then.
    package static func prepare(
        _ sslContext: OpaquePointer,
        _ profile: TLSProfile = .modern
    ) throws(OpenSSLError) {
        // These come first, so that a later failure leaves a context that refuses every server.
        SSL_CTX_set_verify(sslContext, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_cert_verify_callback(sslContext, verifyCallback, nil)
        // The security level, and what bounds the cost of a handshake before the verdict.
        SSL_CTX_set_security_level(sslContext, 2)
        pinproxy_ssl_ctx_full_handshakes_only(sslContext)
        CertificateMessage.guardHandshakes(of: sslContext)
        guard pinproxy_ssl_ctx_set_groups(sslContext) == 1,
            pinproxy_ssl_ctx_set_signature_algorithms(sslContext) == 1,
            SSL_CTX_set_cipher_list(sslContext, profile.ciphers) == 1
        else { throw OpenSSLError(draining: "SSL_CTX_set_cipher_list") }
        guard pinproxy_ssl_ctx_set_min_version(sslContext, TLS1_2_VERSION) == 1,
            // It runs for the connections alone that ask for a staple.
            pinproxy_ssl_ctx_on_status(sslContext, statusCallback, nil) == 1,
            SSL_CTX_set_ex_data(sslContext, preparedIndex, UnsafeMutableRawPointer(bitPattern: 1)) == 1
        else { throw OpenSSLError(draining: "SSL_CTX_set_min_proto_version") }
    }

    /// Puts a policy in charge of one connection of a context that `prepare` has prepared, before its handshake.
    ///
    /// - Parameters:
    ///   - profile: that of the context.
    ///   - isTrial: refuses every server when it shows its chain, which says that it took what was offered.
    ///   - lists: the revocation lists that were fetched; nil where nothing fetches any.
    ///   - time: for tests: the time of the evaluation; nil is that of the handshake.
    ///   - identity: called within the handshake, on its thread, when the server asks for a client certificate and
    ///     the policy names none.
    /// - Throws: when OpenSSL refuses a setting, or the connection has a policy already. It must not be used then.
    package static func attach(
        to ssl: OpaquePointer,
        policy: SecurityPolicy,
        host: Host,
        anchors: TrustAnchors,
        generation: UInt64,
        profile: TLSProfile = .modern,
        isTrial: Bool = false,
        lists: RevocationListStore? = nil,
        at time: Int64? = nil,
        identity: (@Sendable () -> HandshakeIdentity)?
    ) throws(OpenSSLError) -> TLSVerification {
        let verification = TLSVerification(
            policy: policy,
            host: host,
            anchors: anchors,
            generation: generation,
            lists: lists,
            time: time,
            identity: identity,
            isTrial: isTrial
        )
        guard SSL_get_ex_data(ssl, attachmentIndex) == nil else {
            throw OpenSSLError(draining: "TLSVerification.attach to a connection that has a policy")
        }
        let record = Unmanaged.passRetained(verification)
        guard SSL_set_ex_data(ssl, attachmentIndex, record.toOpaque()) == 1 else {
            record.release()
            throw OpenSSLError(draining: "SSL_set_ex_data")
        }
        let configuration = policy.configuration
        if configuration.lowestTLSVersion == .tls13, pinproxy_ssl_set_min_version(ssl, TLS1_3_VERSION) != 1 {
            throw OpenSSLError(draining: "SSL_set_min_proto_version")
        }
        if !configuration.requireGroups.isEmpty {
            guard pinproxy_ssl_require_groups(ssl, TLSGroup.list(configuration.requireGroups)) == 1,
                SSL_set_cipher_list(ssl, profile.ciphersWithGroups) == 1
            else { throw OpenSSLError(draining: "SSL_set1_groups_list") }
        }
        if let identity = configuration.clientCertificate {
            let stack = identity.intermediates.pointer
            guard SSL_use_cert_and_key(ssl, identity.certificates[0].pointer, identity.key, stack, 1) == 1 else {
                throw OpenSSLError(draining: "SSL_use_cert_and_key")
            }
        }
        // On a client OpenSSL calls this only when the server requests a certificate (SSL_CTX_set_cert_cb(3)).
        SSL_set_cert_cb(ssl, certificateCallback, nil)
        if configuration.requiresStaple, pinproxy_ssl_ask_for_staple(ssl) != 1 {
            throw OpenSSLError(draining: "SSL_set_tlsext_status_type")
        }
        return verification
    }

    // MARK: - Inside the handshake

    /// Handles the server's request for a client certificate.
    ///
    /// - Returns: 1 if the handshake may continue, with or without one, 0 if not, -1 if it has to wait for the decision.
    private func presentIdentity(_ ssl: OpaquePointer) -> Int32 {
        askedForCertificate.store(true, ordering: .relaxed)
        guard policy.configuration.clientCertificate == nil else { return 1 }
        switch identity?() ?? .none {
        case .none:
            return 1
        case .refuse:
            return 0
        case .undecided:
            return -1
        case .show(let identity):
            suppliedIdentity.withLock { $0 = identity }
            let stack = identity.intermediates.pointer
            return SSL_use_cert_and_key(ssl, identity.certificates[0].pointer, identity.key, stack, 1) == 1 ? 1 : 0
        }
    }

    /// Evaluates the presented chain for OpenSSL (SSL_CTX_set_cert_verify_callback(3)).
    private func evaluateChain(_ context: OpaquePointer) -> Bool {
        // Every failure below is a refusal.
        X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION)
        let connection = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx())
        if isTrial {
            // A server that takes what is always offered does not need the profile: its alert before had another cause, or was
            // somebody else's.
            let needsProfile = connection.map { !TLSProfile.isModern(OpaquePointer($0)) } ?? false
            if needsProfile { sawChain.store(true, ordering: .relaxed) }
            return false
        }
        sawChain.store(true, ordering: .relaxed)
        guard let ssl = connection, let presented = PresentedChain(context) else { return false }
        let result = OpenSSLError.keepingQueueClean {
            policy.evaluationResult(presented, host: host, anchors: anchors, lists: lists, at: now)
        }
        if policy.configuration.requiresStaple, result.verdict != .fail {
            // In TLS 1.2 the staple arrives later and is evaluated then. Until that has happened, the connection counts
            // as refused.
            var refused = result
            StapleEvaluator(host: host, now: now).evaluate(&refused, staple: nil)
            let awaiting = AwaitedStaple(result: result, presented: presented.kept())
            let trust = trust(refused, awaiting.presented, OpaquePointer(ssl), awaiting: awaiting)
            guard TLSVerification.keep(trust, in: OpaquePointer(ssl)) else { return false }
            X509_STORE_CTX_set_error(context, X509_V_OK)
            return true
        }
        guard conclude(result, presented.kept(), OpaquePointer(ssl)) else {
            if result.verifyError != X509_V_OK { X509_STORE_CTX_set_error(context, result.verifyError) }
            return false
        }
        // OpenSSL accepts the chain only when both the error code and the return value say so.
        X509_STORE_CTX_set_error(context, X509_V_OK)
        return true
    }

    /// Evaluates the staple for OpenSSL (SSL_CTX_set_tlsext_status_cb(3)), which calls this with or without a staple
    /// before the client's part of the handshake is finished.
    private func evaluateStaple(_ ssl: OpaquePointer) -> Bool {
        guard SSL_session_reused(ssl) == 0, let record = SSL_get_ex_data(ssl, TLSVerification.connectionIndex),
            let awaiting = Unmanaged<ConnectionTrust>.fromOpaque(record).takeUnretainedValue().awaitedStaple
        else { return false }
        var result = awaiting.result
        var start: UnsafePointer<UInt8>?
        let count = pinproxy_ssl_staple(ssl, &start)
        let staple = count > 0 && start != nil ? Array(UnsafeBufferPointer(start: start, count: count)) : nil
        OpenSSLError.keepingQueueClean { StapleEvaluator(host: host, now: now).evaluate(&result, staple: staple) }
        return conclude(result, awaiting.presented, ssl)
    }

    private var now: Int64 { time ?? Clock.seconds }

    private func trust(
        _ result: EvaluationResult,
        _ presented: CertificateStack,
        _ ssl: OpaquePointer,
        awaiting: AwaitedStaple? = nil
    ) -> ConnectionTrust {
        ConnectionTrust(
            policy: policy,
            anchors: anchors,
            generation: generation,
            evaluation: TrustEvaluation(result, presented: presented, policy: policy, host: host),
            tlsVersion: SSL_get_version(ssl).map { String(cString: $0) },
            cipher: (SSL_get_current_cipher(ssl) ?? SSL_get_pending_cipher(ssl)).flatMap {
                SSL_CIPHER_get_name($0).map { String(cString: $0) }
            },
            tlsGroup: TLSGroup(negotiatedBy: ssl),
            awaitedStaple: awaiting
        )
    }

    /// Keeps the verdict with the connection.
    ///
    /// - Returns: whether the handshake may continue.
    private func conclude(
        _ result: EvaluationResult,
        _ presented: CertificateStack,
        _ ssl: OpaquePointer
    ) -> Bool {
        let trust = trust(result, presented, ssl)
        last.withLock { $0 = trust }
        return TLSVerification.keep(trust, in: ssl) && trust.evaluation.isAccepted
    }

    private static func keep(_ trust: ConnectionTrust, in ssl: OpaquePointer) -> Bool {
        let former = SSL_get_ex_data(ssl, connectionIndex)
        let record = Unmanaged.passRetained(trust)
        guard SSL_set_ex_data(ssl, connectionIndex, record.toOpaque()) == 1 else {
            record.release()
            return false
        }
        if let former { Unmanaged<ConnectionTrust>.fromOpaque(former).release() }
        return true
    }

    // MARK: - Ownership by OpenSSL's objects (CRYPTO_get_ex_new_index(3))

    /// The mark of a context that `prepare` has prepared.
    private static let preparedIndex = CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, nil, nil, nil, nil)
    /// The place of a connection's verification.
    private static let attachmentIndex = CRYPTO_get_ex_new_index(
        CRYPTO_EX_INDEX_SSL,
        0,
        nil,
        nil,
        retainRecord,
        releaseRecord
    )
    private static let connectionIndex = CRYPTO_get_ex_new_index(
        CRYPTO_EX_INDEX_SSL,
        0,
        nil,
        nil,
        retainRecord,
        releaseRecord
    )

    fileprivate static func verifyChain(_ context: OpaquePointer) -> Bool {
        guard let ssl = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()) else { return false }
        return of(OpaquePointer(ssl))?.evaluateChain(context) ?? false
    }

    fileprivate static func verifyStaple(_ ssl: OpaquePointer) -> Bool { of(ssl)?.evaluateStaple(ssl) ?? false }

    fileprivate static func presentCertificate(_ ssl: OpaquePointer) -> Int32 {
        of(ssl)?.presentIdentity(ssl) ?? 1
    }
}

/// OpenSSL calls this instead of X509_verify_cert(3).
private func verifyCallback(_ context: OpaquePointer?, _ argument: UnsafeMutableRawPointer?) -> Int32 {
    guard let context else { return 0 }
    X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION)
    return TLSVerification.verifyChain(context) ? 1 : 0
}

/// OpenSSL calls this when the server's certificate messages are complete.
private func statusCallback(_ ssl: OpaquePointer?, _ argument: UnsafeMutableRawPointer?) -> Int32 {
    guard let ssl else { return 0 }
    return TLSVerification.verifyStaple(ssl) ? 1 : 0
}

/// OpenSSL calls it when the server asks for a client certificate (SSL_CTX_set_cert_cb(3)).
private func certificateCallback(_ ssl: OpaquePointer?, _ record: UnsafeMutableRawPointer?) -> Int32 {
    guard let ssl else { return 0 }
    return TLSVerification.presentCertificate(ssl)
}

/// Runs when the owner is freed, for owners without a record too.
private func releaseRecord(
    _ owner: UnsafeMutableRawPointer?,
    _ record: UnsafeMutableRawPointer?,
    _ data: UnsafeMutablePointer<CRYPTO_EX_DATA>?,
    _ index: Int32,
    _ number: Int,
    _ argument: UnsafeMutableRawPointer?
) {
    if let record { Unmanaged<AnyObject>.fromOpaque(record).release() }
}

/// Runs when the owner is duplicated (SSL_dup(3)): both then own the record.
private func retainRecord(
    _ copy: UnsafeMutablePointer<CRYPTO_EX_DATA>?,
    _ original: UnsafePointer<CRYPTO_EX_DATA>?,
    _ record: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
    _ index: Int32,
    _ number: Int,
    _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    if let record, let pointer = record.pointee { _ = Unmanaged<AnyObject>.fromOpaque(pointer).retain() }
    return 1
}

/// The decision for a server that requests a client certificate.
package enum HandshakeIdentity: Sendable {
    /// Continue without a certificate; the server decides.
    case none
    case show(ClientIdentity)
    /// End the handshake.
    case refuse
    /// Stop the handshake until there is a decision: SSL_get_error(3) says SSL_ERROR_WANT_X509_LOOKUP, and the next call asks
    /// again.
    case undecided
}

/// The result of an evaluation that still lacks the staple.
struct AwaitedStaple: Sendable {
    var result: EvaluationResult
    var presented: CertificateStack
}

/// The result of a connection's handshake, with the generation of its policy.
public final class ConnectionTrust: Sendable {
    /// The generation of the snapshot whose policy was applied.
    public let generation: UInt64
    /// The policy that was applied.
    public let policy: SecurityPolicy
    /// The anchors of the evaluation: the policy's own, if it has any.
    package let anchors: TrustAnchors
    /// The report of the handshake.
    public let evaluation: TrustEvaluation
    /// The TLS version that was negotiated when the server was evaluated, as in `TLSv1.3`.
    public let tlsVersion: String?
    /// OpenSSL's name of the cipher suite that was negotiated then.
    public let cipher: String?
    /// The place of the group in `TLSGroup.allCases`, from 1; 0 for none. In TLS 1.2 the key exchange follows the evaluation.
    private let group: Atomic<UInt8>
    /// The group of the key exchange; nil without one. In TLS 1.2 it is known when the handshake is complete.
    public var tlsGroup: TLSGroup? {
        let place = group.load(ordering: .relaxed)
        return place == 0 ? nil : TLSGroup.allCases[Int(place) - 1]
    }
    /// Set while the staple has not been evaluated; until then `evaluation` refuses the connection.
    let awaitedStaple: AwaitedStaple?

    init(
        policy: SecurityPolicy,
        anchors: TrustAnchors,
        generation: UInt64,
        evaluation: TrustEvaluation,
        tlsVersion: String? = nil,
        cipher: String? = nil,
        tlsGroup: TLSGroup? = nil,
        awaitedStaple: AwaitedStaple? = nil
    ) {
        self.policy = policy
        self.anchors = anchors
        self.generation = generation
        self.evaluation = evaluation
        self.tlsVersion = tlsVersion
        self.cipher = cipher
        group = Atomic(Self.place(of: tlsGroup))
        self.awaitedStaple = awaitedStaple
    }

    fileprivate func note(_ group: TLSGroup?) { self.group.store(Self.place(of: group), ordering: .relaxed) }

    private static func place(of group: TLSGroup?) -> UInt8 {
        UInt8(group.flatMap { TLSGroup.allCases.firstIndex(of: $0) }.map { $0 + 1 } ?? 0)
    }

    /// The host that the server proved to be.
    public var host: Host { evaluation.host }
}
