// SPDX-License-Identifier: Apache-2.0
import IOCore
import ServerTrust

/// The times of a connection's making, in microseconds from the start of the attempt; absent for what did not happen.
struct ConnectionTimes {
    var lookupEnd = TransactionMetrics.absent
    var connectStart = TransactionMetrics.absent
    var proxySecureConnectionStart = TransactionMetrics.absent
    var proxySecureConnectionEnd = TransactionMetrics.absent
    var secureConnectionStart = TransactionMetrics.absent
    var secureConnectionEnd = TransactionMetrics.absent
    var connectEnd = TransactionMetrics.absent
}

/// What an attempt knows of the connection that it makes, as a value: when each step began and ended, where the socket leads, and what
/// the session's owner is told of it. Moments are in nanoseconds of the loop's clock.
struct AttemptRecord {
    private(set) var times = ConnectionTimes()
    /// TLS to an HTTPS proxy; nil without one.
    private(set) var proxy: ProxyConnectionInfo?
    /// The owner's reason to end the handshake, given when it was asked for a client certificate.
    var identityFailure: SessionError?
    private var peer: SocketAddress?
    private let startedAt: UInt64

    init(startedAt: UInt64) { self.startedAt = startedAt }

    // MARK: The steps

    /// - Parameter lookup: when the first address was there, in microseconds from the start.
    mutating func dialDidEnd(lookup: Int64) { (times.lookupEnd, times.connectStart) = (lookup, lookup) }

    /// - Parameter peer: nil when the socket is connected no more.
    mutating func didConnect(to peer: SocketAddress?) { self.peer = peer }

    /// Another address is dialled: nothing of this one is told.
    mutating func leaveAddress() { self = AttemptRecord(startedAt: startedAt) }

    /// - Parameters:
    ///   - handshakeStart: of TLS to the proxy; nil before.
    ///   - handshakeEnd: likewise.
    mutating func noteProxy(handshakeStart: UInt64?, handshakeEnd: UInt64?, _ info: ProxyConnectionInfo?) {
        times.proxySecureConnectionStart = handshakeStart.map { time(at: $0) } ?? TransactionMetrics.absent
        times.proxySecureConnectionEnd = handshakeEnd.map { time(at: $0) } ?? TransactionMetrics.absent
        proxy = info
    }

    mutating func handshakeDidBegin(at now: UInt64) { times.secureConnectionStart = time(at: now) }

    /// The handshake is complete, or has failed, and nothing follows it.
    mutating func handshakeDidEnd(at now: UInt64) {
        times.secureConnectionEnd = time(at: now)
        times.connectEnd = times.secureConnectionEnd
    }

    /// A connection without TLS is there, or a tunnel has failed.
    mutating func didEnd(at now: UInt64) { times.connectEnd = time(at: now) }

    private func time(at moment: UInt64) -> Int64 { Int64((moment &- startedAt) / 1000) }

    // MARK: Reports

    /// A connection without TLS, or that to a proxy; nil where the socket is no longer connected.
    var withoutTLS: ConnectionInfo? {
        peer.map { ConnectionInfo(remoteAddress: $0, tlsVersion: nil, cipher: nil, evaluation: nil, proxy: proxy) }
    }

    /// A connection whose server the policy has evaluated, and whose handshake is complete.
    func verified(
        _ trust: ConnectionTrust,
        version: ShortName?,
        cipher: ShortName?,
        isClientCertificateMissing: Bool,
        note: [UInt8]
    ) -> ConnectionInfo? {
        guard let peer else { return nil }
        return ConnectionInfo(
            remoteAddress: peer,
            tlsVersion: version,
            cipher: cipher,
            tlsGroup: trust.tlsGroup,
            evaluation: trust.evaluation,
            isClientCertificateMissing: isClientCertificateMissing,
            proxy: proxy,
            note: note
        )
    }

    /// A connection whose handshake has failed. An accepted chain proves nothing without the server's proof of its key, which would have
    /// come next: its evaluation is not told.
    ///
    /// - Parameters:
    ///   - trust: nil when the server was not evaluated.
    ///   - note: the owner's explanation of a refusal.
    func refused(
        _ trust: ConnectionTrust?,
        isClientCertificateMissing: Bool,
        note: (TrustEvaluation) -> [UInt8]
    ) -> ConnectionInfo? {
        guard let peer else { return nil }
        let refused = trust.flatMap { $0.evaluation.isAccepted ? nil : $0.evaluation }
        return ConnectionInfo(
            remoteAddress: peer,
            tlsVersion: trust?.tlsVersion.map { ShortName(Array($0.utf8)) },
            cipher: trust?.cipher.map { ShortName(Array($0.utf8)) },
            tlsGroup: trust?.tlsGroup,
            evaluation: refused,
            isClientCertificateMissing: isClientCertificateMissing,
            proxy: proxy,
            note: refused.map(note) ?? []
        )
    }
}
