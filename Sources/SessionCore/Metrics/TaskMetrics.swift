// SPDX-License-Identifier: Apache-2.0
package import IOCore
public import ServerTrust

/// The times and sizes of a task, in the terms of `URLSessionTaskMetrics`.
public struct TaskMetrics: Sendable {
    /// The time when the task was resumed, in microseconds since 1970.
    package var fetchStart: Int64 = 0
    /// The time from then to the end, in microseconds.
    package var duration: Int64 = 0
    /// The number of redirects that were followed.
    public package(set) var redirectCount = 0
    /// The present transaction, or the last one.
    public package(set) var transaction = TransactionMetrics()
    /// The transactions before it, oldest first: one for each redirect, and one for each validation of a stored
    /// response.
    public package(set) var earlierTransactions: [TransactionMetrics] = []

    /// The metrics of a task that has not begun.
    public init() {}

    /// Adds the transactions of a task that was a part of this one, and has ended.
    package mutating func add(_ part: TaskMetrics) {
        if transaction.fetchStart != TransactionMetrics.absent { earlierTransactions.append(transaction) }
        let delay = part.fetchStart - fetchStart
        if !part.earlierTransactions.isEmpty {
            earlierTransactions += part.earlierTransactions.map { $0.later(by: delay) }
        }
        transaction = part.transaction.later(by: delay)
    }

    /// The transaction, with times from the start of another task, in microseconds since 1970.
    func transaction(from start: Int64) -> TransactionMetrics { transaction.later(by: fetchStart - start) }

    /// The time when the task was resumed, since 1970; nil before.
    public var start: Duration? { fetchStart > 0 ? .microseconds(fetchStart) : nil }
    /// The time from the task's start to its end, redirects and retries of the session among it.
    public var taskDuration: Duration { .microseconds(duration) }
    /// All transactions, oldest first.
    public var transactions: [TransactionMetrics] { earlierTransactions + [transaction] }
}

/// The source of a response, in the terms of `URLSessionTaskMetrics.ResourceFetchType`.
public enum ResourceFetchType: Sendable, Hashable {
    /// From the server.
    case networkLoad
    /// The session's cache. A validation by the server is a transaction of its own.
    case localCache
}

/// One request and its response, in the terms of `URLSessionTaskTransactionMetrics`.
///
/// Phases are ranges of times from the start of the task; nil for a phase that did not happen, as that of a connection for a
/// request on a kept one.
public struct TransactionMetrics: Sendable {
    /// The value of times that do not apply. Stored times are microseconds from the `fetchStart` of the task.
    package static let absent: Int64 = -1

    /// The begin of the request: near 0 for the first of a task, later after a redirect and for a retry.
    package var fetchStart: Int64 = absent
    /// The begin of the name lookup, for the host or the proxy. Absent when no connection was made for the request, as
    /// are all times up to `connectEnd`.
    package var domainLookupStart: Int64 = absent
    /// The end of the name lookup.
    package var domainLookupEnd: Int64 = absent
    /// The begin of the TCP connection.
    package var connectStart: Int64 = absent
    /// The begin of the TLS handshake with an HTTPS proxy, after TCP; absent without one.
    package var proxySecureConnectionStart: Int64 = absent
    /// The end of that handshake, with the evaluation by the policy for the proxy. CONNECT follows.
    package var proxySecureConnectionEnd: Int64 = absent
    /// The begin of the TLS handshake, after TCP and the proxy's tunnel. Absent without TLS too.
    package var secureConnectionStart: Int64 = absent
    /// The end of the TLS handshake, with the evaluation by the security policy; or its failure.
    package var secureConnectionEnd: Int64 = absent
    /// The connection is ready for requests: after TLS, if there is any. For a rejected server or a failed handshake,
    /// the end of the connection.
    package var connectEnd: Int64 = absent
    /// The begin of sending the request's head. Absent when there was no connection to send it on.
    package var requestStart: Int64 = absent
    /// The last byte of the request was handed to the connection.
    package var requestEnd: Int64 = absent
    /// The final head was received; 1xx heads do not count.
    package var responseStart: Int64 = absent
    /// The response was received completely, or was cut off.
    package var responseEnd: Int64 = absent

    /// The source of the response.
    public package(set) var resourceFetchType = ResourceFetchType.networkLoad
    /// The status of the final head; 0 without one.
    package var status = 0
    /// 10, 11 or 20; 0 without a head, and for a stored response.
    package var protocolVersion = 0
    /// Whether the request was sent on an existing connection.
    public package(set) var isReusedConnection = false
    /// The size of the request's head in bytes of HTTP/1.1 text.
    public package(set) var requestHeaderBytesSent: Int64 = 0
    /// The size of the request's body in bytes, with the chunk sizes of HTTP/1.1, without the frames of HTTP/2.
    public package(set) var requestBodyBytesSent: Int64 = 0
    /// The size of the response's heads, with those of 1xx responses, in bytes of HTTP/1.1 text.
    public package(set) var responseHeaderBytesReceived: Int64 = 0
    /// The size of the response's body in bytes of content, without chunk sizes or frames.
    public package(set) var responseBodyBytesReceived: Int64 = 0

    /// The connection of the request, or the one whose TLS handshake ended the task, because the server was rejected.
    /// nil when no handshake was reached.
    public package(set) var connection: ConnectionInfo?

    /// The metrics of a request that was not sent: every time is `absent`.
    public init() {}
}

extension TransactionMetrics {
    /// The begin of the request: near zero for the first of a task, later after a redirect. Nil for a request that was not begun.
    public var start: Duration? { fetchStart == Self.absent ? nil : .microseconds(fetchStart) }
    /// The name lookup, for the host or the proxy. Nil when no connection was made for the request, as are all phases up to
    /// `secureConnection`.
    public var domainLookup: Range<Duration>? { phase(domainLookupStart, domainLookupEnd) }
    /// The new connection: TCP, the proxy's tunnel and TLS, up to its readiness for requests; for a refused server or a failed
    /// handshake, up to the end of the connection.
    public var connect: Range<Duration>? { phase(connectStart, connectEnd) }
    /// The TLS handshake with an HTTPS proxy, with the evaluation by the policy for the proxy. CONNECT follows.
    public var proxySecureConnection: Range<Duration>? { phase(proxySecureConnectionStart, proxySecureConnectionEnd) }
    /// The TLS handshake with the evaluation by the security policy, or its failure; nil without TLS, too.
    public var secureConnection: Range<Duration>? { phase(secureConnectionStart, secureConnectionEnd) }
    /// From the head of the request to its last byte that was handed to the connection; nil without a connection to send it on.
    public var request: Range<Duration>? { phase(requestStart, requestEnd) }
    /// From the final head of the response (1xx heads do not count) to its end, or to where it was cut off.
    public var response: Range<Duration>? { phase(responseStart, responseEnd) }
    /// The status of the final head; nil without one.
    public var statusCode: Int? { status == 0 ? nil : status }
    /// `http/1.0`, `http/1.1` or `h2` (the names of ALPN), as in Foundation; nil without a head, and for a stored response.
    public var networkProtocolName: String? {
        switch protocolVersion {
        case 10: "http/1.0"
        case 11: "http/1.1"
        case 20: "h2"
        default: nil
        }
    }

    /// A phase that was cut off has no end, and counts as empty.
    private func phase(_ start: Int64, _ end: Int64) -> Range<Duration>? {
        guard start != Self.absent else { return nil }
        return .microseconds(start) ..< .microseconds(max(start, end))
    }
}

extension TransactionMetrics {
    /// The same transaction, with times from the start of an earlier task.
    ///
    /// - Parameter time: the difference in microseconds.
    package func later(by time: Int64) -> TransactionMetrics {
        var moved = self
        // No key paths: each costs 600 instructions, and every task of a session has this done.
        func move(_ phase: inout Int64) { if phase != Self.absent { phase += time } }
        move(&moved.fetchStart)
        move(&moved.domainLookupStart)
        move(&moved.domainLookupEnd)
        move(&moved.connectStart)
        move(&moved.proxySecureConnectionStart)
        move(&moved.proxySecureConnectionEnd)
        move(&moved.secureConnectionStart)
        move(&moved.secureConnectionEnd)
        move(&moved.connectEnd)
        move(&moved.requestStart)
        move(&moved.requestEnd)
        move(&moved.responseStart)
        move(&moved.responseEnd)
        return moved
    }
}

/// Facts about a connection, collected once when it is new, or when its handshake has failed.
public final class ConnectionInfo: Sendable {
    /// Unique among the connections of a process; they are numbered in the order of their creation.
    public let identifier: UInt64
    /// The address that was dialled: the proxy's, if there is one.
    package let remoteAddress: SocketAddress
    /// The address and the facts about TLS as members of a line of a log, which are the same for each request on the connection:
    /// `,"remoteAddress":"192.0.2.1:443","tlsVersion":"TLSv1.3"` and so on.
    package let logMembers: [UInt8]
    /// The version, as `TLSv1.3`; nil without TLS, and when the handshake failed before the server was evaluated.
    public let tlsVersion: ShortName?
    /// OpenSSL's name of the cipher suite; nil like `tlsVersion`.
    public let cipher: ShortName?
    /// The group of the key exchange; nil like `tlsVersion`, and for a key exchange without one.
    public let tlsGroup: TLSGroup?
    /// The security policy's verdict; nil without TLS.
    public let evaluation: TrustEvaluation?
    /// Whether the server asked for a client certificate and got none.
    public let isClientCertificateMissing: Bool
    /// TLS to the HTTPS proxy that the connection goes through; nil without one.
    public let proxy: ProxyConnectionInfo?
    /// The words of the session's owner about the evaluation (`SessionConfiguration.connectionNote`), for lines of a log.
    package let note: [UInt8]

    init(
        remoteAddress: SocketAddress,
        tlsVersion: ShortName?,
        cipher: ShortName?,
        tlsGroup: TLSGroup? = nil,
        evaluation: TrustEvaluation?,
        isClientCertificateMissing: Bool = false,
        proxy: ProxyConnectionInfo? = nil,
        note: [UInt8] = []
    ) {
        identifier = ConnectionIdentifiers.next()
        self.remoteAddress = remoteAddress
        var members = ByteBuffer()
        members.append(",\"remoteAddress\":\"")
        remoteAddress.append(to: &members)
        members.append("\"")
        members.appendTLSMembers(tlsVersion, cipher, tlsGroup)
        logMembers = members.withUnsafeBytes { Array($0) }
        self.tlsVersion = tlsVersion
        self.cipher = cipher
        self.tlsGroup = tlsGroup
        self.evaluation = evaluation
        self.isClientCertificateMissing = isClientCertificateMissing
        self.proxy = proxy
        self.note = note
    }

    /// `192.0.2.1:443`.
    public var remoteAddressText: String { remoteAddress.description }
}

/// Facts about TLS to an HTTPS proxy.
public final class ProxyConnectionInfo: Sendable {
    /// The proxy's host and port.
    public let authority: ShortName
    /// The version, as `TLSv1.3`; nil when the handshake failed before the proxy was evaluated.
    public let tlsVersion: ShortName?
    /// OpenSSL's name of the cipher suite; nil like `tlsVersion`.
    public let cipher: ShortName?
    /// As `ConnectionInfo.tlsGroup`.
    public let tlsGroup: TLSGroup?
    /// The security policy's verdict on the proxy; nil when there is none.
    public let evaluation: TrustEvaluation?
    /// As `ConnectionInfo.note`.
    package let note: [UInt8]

    init(
        authority: String,
        tlsVersion: ShortName?,
        cipher: ShortName?,
        tlsGroup: TLSGroup?,
        evaluation: TrustEvaluation?,
        note: [UInt8]
    ) {
        self.authority = ShortName(Array(authority.utf8))
        self.note = note
        self.tlsVersion = tlsVersion
        self.cipher = cipher
        self.tlsGroup = tlsGroup
        self.evaluation = evaluation
    }
}

/// A short name in the bytes of a log line, made once for a connection.
public struct ShortName: Sendable, CustomStringConvertible {
    package let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    public var description: String { String(decoding: bytes, as: UTF8.self) }
}

extension ShortName {
    init?(cString: UnsafePointer<CChar>?) {
        guard let cString else { return nil }
        self.init(Array(String(cString: cString).utf8))
    }
}

extension ByteBuffer {
    /// Appends facts about TLS as members of a line of a log; nil is left out.
    package mutating func appendTLSMembers(_ version: ShortName?, _ cipher: ShortName?, _ group: TLSGroup?) {
        if let version {
            append(",\"tlsVersion\":\"")
            append(version.bytes)
            append("\"")
        }
        if let cipher {
            append(",\"cipher\":\"")
            append(cipher.bytes)
            append("\"")
        }
        if let group {
            append(",\"tlsGroup\":\"")
            append(group.name)
            append("\"")
        }
    }
}
