import COpenSSL
import CShims
import Glibc
import HTTPCore
import IOCore
import ServerTrust

/// What is asked of a connection: where it may go, whom it must have proved to be, and whether it may carry this
/// request.
extension Transfer {
    /// A new connection makes its TLS context: the policy goes in.
    func prepareTLS(_ context: OpaquePointer) -> Bool {
        guard let task else { return false }
        let endpoint = task.request.endpoint
        do {
            verification = try TLSVerification.install(
                on: context,
                policy: endpoint.policy,
                host: endpoint.host,
                anchors: endpoint.anchors,
                generation: endpoint.generation,
                identity: identitySource
            )
        } catch {
            failure = SessionError(.internal, "The security policy could not be installed: \(error).")
            return false
        }
        if let stream = task.stream, !offer(stream.applicationProtocols, context) {
            failure = SessionError(.internal, "OpenSSL did not take the names of the protocols to offer.")
            return false
        }
        isTrustTold = false
        // The connection stands, and those that were dialled beside it are closed.
        handshakePeer = openedSockets.last {
            socketCookie($0.descriptor) == $0.cookie && peerAddress($0.descriptor) != nil
        }
        .flatMap { peerAddress($0.descriptor) }
        times.secureConnectionStart = task.elapsed
        ConnectionRecord.watchForCloseNotify(context)
        // nghttp2 reads until there is nothing left, and has no need of it.
        if endpoint.httpVersion == .http1 || task.stream != nil { ConnectionRecord.readAhead(context) }
        return true
    }

    /// Who is asked for a client certificate, where the policy names none.
    private var identitySource: @Sendable () -> HandshakeIdentity {
        let asker = IdentityAsker(self)
        return { asker.answer }
    }

    fileprivate func askForIdentity() -> HandshakeIdentity {
        guard let task else { return .refuse }
        switch task.delegate.taskNeedsClientIdentity(task) {
        case .none: return .none
        case .show(let identity): return .show(identity)
        case .fail(let error):
            failure = error
            return .refuse
        }
    }

    /// A connection is there, new or reused: the last look before the request goes out.
    func isReady(_ ssl: OpaquePointer?, address: UnsafePointer<CChar>?, port: Int32, localPort: UInt16) -> Bool {
        guard let task else { return false }
        let endpoint = task.request.endpoint
        attempts += 1
        if attempts > 1 {
            guard mayRepeat(task) else { return false }
            task.wasRepeated = true
            // libcurl takes the next kept connection, which may be as dead as the last one, and would repeat it again.
            guard openedSocket(localPort: localPort) != nil else {
                needsFreshConnection = true
                return false
            }
        }
        guard !pool.isHandingBack else {
            failure = .sessionInvalidated
            return false
        }
        if endpoint.scheme == .https {
            guard let ssl, judgeAgain(ssl, endpoint, address, port, localPort) else { return false }
        } else {
            guard ssl == nil else {
                failure = SessionError(.internal, "TLS on a connection that was to have none.")
                return false
            }
            guard isSilentOrNew(localPort: localPort) else { return false }
            connection = ConnectionInfo(
                remoteAddress: SocketAddress(numeric: address, port: port),
                tlsVersion: nil,
                cipher: nil,
                evaluation: nil
            )
        }
        enter(task.uploadEnded && task.upload.isEmpty ? .waiting : .sending)
        task.delegate.taskDidConnect(task)
        return self.task != nil
    }

    /// The verdict of the handshake, for this request: the same host, the same generation, and not too old.
    private func judgeAgain(
        _ ssl: OpaquePointer,
        _ endpoint: Endpoint,
        _ address: UnsafePointer<CChar>?,
        _ port: Int32,
        _ localPort: UInt16
    ) -> Bool {
        var isNew = false
        guard
            let record = ConnectionRecord.of(
                ssl,
                at: pool.loop.now,
                descriptor: openedSocket(localPort: localPort) ?? -1,
                remoteAddress: SocketAddress(numeric: address, port: port),
                whenNew: {
                    isNew = true
                    tell($0, endpoint)
                }
            )
        else {
            failure = SessionError(
                .certificateUntrusted,
                "The connection to \(endpoint.host) was never judged by the security policy."
            )
            return false
        }
        let trust = record.trust
        // Whoever was told of the evaluation may have cancelled the task.
        guard task != nil else { return false }
        guard trust.holds(for: endpoint, at: pool.loop.wallClock / 1_000_000) else {
            // A new connection is judged anew, for this host, under this policy, at this time. A refusal is final.
            if !trust.evaluation.isAccepted {
                connection = record.info
            } else if isFreshAttempt {
                connection = record.info
                let lapse = trust.evaluation.lapse(at: pool.loop.wallClock / 1_000_000)
                failure = SessionError(
                    lapse.map { SessionError.Code($0) } ?? .certificateUntrusted,
                    "The verdict on \(endpoint.host) does not hold any more.",
                    evaluation: trust.evaluation
                )
            } else {
                leave(record)
            }
            return false
        }
        if isNew, let task, let refusal = task.delegate.task(task, mayTrust: trust) {
            // Another stream of this connection may be waiting already: it makes one of its own.
            record.isRefused = true
            if record.isMultiplexed { leave(record) }
            needsFreshConnection = false
            connection = record.info
            failure = refusal
            return false
        }
        guard task != nil else { return false }
        if record.isRefused {
            leave(record)
            return false
        }
        if !isFreshAttempt, pool.loop.now &- record.madeAt > pool.connectionLifetime {
            // libcurl looks at the age of idle connections alone; one with HTTP/2 need never be idle.
            leave(record)
            return false
        }
        // SSL_has_pending: read ahead behind the last answer.
        if record.isUsed, !record.isMultiplexed,
            SSL_has_pending(ssl) == 1 || !isSilent(record.descriptor, localPort: localPort)
        {
            needsFreshConnection = true
            return false
        }
        record.isUsed = true
        self.record = record
        if record.isMultiplexed, task?.stream == nil {
            // A stream, and no connection of its own: others may have theirs.
            pool.release(self)
        } else {
            self.ssl = ssl
            record.transfer = self
        }
        connection = record.info
        return true
    }

    /// The connection carries no new request any more; this one takes another.
    private func leave(_ record: ConnectionRecord) {
        needsFreshConnection = true
        guard record.isMultiplexed else { return }
        forbidReuse()
        pool.retire(record)
    }

    /// Whether nothing has come on an idle connection that carries one request after another: it would be taken for the
    /// answer to the next one.
    private func isSilent(_ descriptor: Int32, localPort: UInt16) -> Bool {
        !pool.hasSpokenWhileIdle(localPort: localPort) && pool.isSilent(descriptor)
    }

    /// The same for a connection without TLS, which has no record; a new one is noted.
    private func isSilentOrNew(localPort: UInt16) -> Bool {
        if let descriptor = openedSocket(localPort: localPort) {
            pool.note(descriptor, localPort: localPort)
            return true
        }
        guard !isFreshAttempt else { return true }
        needsFreshConnection = !isSilent(pool.descriptor(localPort: localPort), localPort: localPort)
        return !needsFreshConnection
    }

    /// Tells of the evaluation of a new connection's handshake, once.
    private func tell(_ trust: ConnectionTrust, _ endpoint: Endpoint) {
        guard !isTrustTold else { return }
        isTrustTold = true
        pool.didEvaluateTrust?(trust, endpoint)
    }

    /// The connection did not come about: tells of the evaluation that refused it, if there was one.
    func tellOfRefusal(_ endpoint: Endpoint) {
        // The account of a connection that did come about has been given, perhaps by another stream of it.
        guard let trust = verification?.lastTrust, trust !== record?.trust else { return }
        tell(trust, endpoint)
    }

    /// Rule 57: once, and only what is idempotent, was not answered, and has no body that is gone.
    private func mayRepeat(_ task: LoopTask) -> Bool {
        if task.mayBeRepeated, task.request.method.isIdempotent, !bodyTaken, !response.hasHead {
            response.reset(for: task.request.method)
            return true
        }
        failure = SessionError(
            .responseTruncated,
            "\(task.request.endpoint.host) closed the kept connection while the \(task.request.method) request went out. "
                + "It is not sent again, because the origin may have acted on it; send it again if that is safe."
        )
        return false
    }

    /// The address rules, on the address that is really dialled.
    func openSocket(_ address: UnsafePointer<sockaddr>, _ length: UInt32, family: Int32) -> Int32 {
        guard let task, let dialled = SocketAddress(address, length: length) else { return -1 }
        if let refusal = task.request.endpoint.dialRule?(dialled) {
            refusedAddress = (dialled, refusal)
            return -1
        }
        dialledAddress = dialled
        if times.connectStart == TransactionMetrics.absent { times.connectStart = task.elapsed }
        let descriptor = pool.open(family: family)
        guard descriptor >= 0 else {
            lacksDescriptor = lacksDescriptor || [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(-descriptor)
            return -1
        }
        openedSockets.append(OpenedSocket(descriptor: descriptor, cookie: socketCookie(descriptor)))
        return descriptor
    }

    /// The socket of a new connection, among those that were tried; nil when the connection is not new.
    private func openedSocket(localPort: UInt16) -> Int32? {
        openedSockets.last { pool.isOpen($0.descriptor) && boundAddress($0.descriptor)?.port == localPort }?.descriptor
    }

    /// What there is to say of a connection whose handshake did not end well: libcurl has nothing to say of it.
    func describeFailedHandshake() {
        guard connection == nil, let handshakePeer else { return }
        let trust = verification?.lastTrust
        connection = ConnectionInfo(
            remoteAddress: handshakePeer,
            tlsVersion: trust?.tlsVersion.map { ShortName(Array($0.utf8)) },
            cipher: trust?.cipher.map { ShortName(Array($0.utf8)) },
            // An accepted chain proves nothing without the server's proof of its key, which would have come next.
            evaluation: trust.flatMap { $0.evaluation.isAccepted ? nil : $0.evaluation },
            isClientCertificateMissing: verification?.isClientCertificateMissing ?? false
        )
    }
}

extension ConnectionTrust {
    /// Whether the verdict is one on this endpoint, and holds at that second: the same host, under the same policy with the
    /// same anchors, of the same generation.
    func holds(for endpoint: Endpoint, at now: Int64) -> Bool {
        generation == endpoint.generation && host == endpoint.host && policy === endpoint.policy
            && hasAnchors(of: endpoint) && evaluation.isStillGood(at: now)
    }

    private func hasAnchors(of endpoint: Endpoint) -> Bool {
        let expected = endpoint.policy.configuration.trustAnchors ?? endpoint.anchors
        return anchors === expected || anchors.digest == expected.digest
    }
}

/// Asks the transfer that makes a connection, as long as it is there.
///
/// `@unchecked Sendable`: called by OpenSSL on the transfer's loop alone.
private final class IdentityAsker: @unchecked Sendable {
    private weak var transfer: Transfer?

    init(_ transfer: Transfer) { self.transfer = transfer }

    var answer: HandshakeIdentity { transfer?.askForIdentity() ?? .refuse }
}

extension SocketAddress {
    /// The numeric text that libcurl gives for an address.
    fileprivate init(numeric text: UnsafePointer<CChar>?, port: Int32) {
        let port = UInt16(truncatingIfNeeded: port)
        var four = in_addr()
        var six = in6_addr()
        if let text, inet_pton(AF_INET, text, &four) == 1 {
            self.init(ipv4: UInt32(bigEndian: four.s_addr), port: port)
        } else if let text, inet_pton(AF_INET6, text, &six) == 1 {
            let (upper, lower) = withUnsafeBytes(of: six) { raw in
                (
                    UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
                    UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                )
            }
            self.init(ipv6Upper: upper, lower: lower, port: port)
        } else {
            self.init(unixPath: "")
        }
    }
}
