package import IOCore
public import ServerTrust

/// How a task went, in the terms of `URLSessionTaskMetrics`.
public struct TaskMetrics: Sendable {
    /// When the task was resumed: microseconds since 1970.
    public package(set) var fetchStart: Int64 = 0
    /// From the resumption to the end, in microseconds.
    public package(set) var duration: Int64 = 0
    /// How many redirects were followed.
    public package(set) var redirectCount = 0
    /// The transaction under way, or the last one.
    public package(set) var transaction = TransactionMetrics()
    /// The transactions before it, oldest first: one a redirect, and one where a stored answer was found good by asking the
    /// server.
    public package(set) var earlierTransactions: [TransactionMetrics] = []

    /// Of a task that has not begun.
    public init() {}
}

/// Where an answer came from, in the terms of `URLSessionTaskMetrics.ResourceFetchType`.
public enum ResourceFetchType: Sendable, Hashable {
    /// From the server.
    case networkLoad
    /// Out of the session's cache. What the server was asked before, if it was, is a transaction of its own.
    case localCache
}

/// One request and its response, in the terms of `URLSessionTaskTransactionMetrics`.
///
/// Times are microseconds from the task's `fetchStart`; `absent` where a phase did not happen, as on a reused
/// connection.
public struct TransactionMetrics: Sendable {
    /// The time of what did not happen.
    public static let absent: Int64 = -1

    /// The request was begun: near 0 for a task's first, later behind a redirect and on a repetition.
    public package(set) var fetchStart: Int64 = absent
    /// The lookup of the host's name begins; of the proxy's, if there is one. Absent when no connection was made for
    /// the request, as are all times up to `connectEnd`.
    public package(set) var domainLookupStart: Int64 = absent
    /// The addresses are known.
    public package(set) var domainLookupEnd: Int64 = absent
    /// Dialling begins.
    public package(set) var connectStart: Int64 = absent
    /// TCP stands, and the TLS handshake begins. Absent without TLS too.
    public package(set) var secureConnectionStart: Int64 = absent
    /// The TLS handshake is over, and the security policy has judged the server; or the handshake broke off.
    public package(set) var secureConnectionEnd: Int64 = absent
    /// The connection can carry requests: after TLS, where there is any. Of a server that was refused, or broke the
    /// handshake off, the end of the connection.
    public package(set) var connectEnd: Int64 = absent
    /// The request's head goes out. Absent when there was no connection to send it on.
    public package(set) var requestStart: Int64 = absent
    /// The last byte of the request has been handed to the connection.
    public package(set) var requestEnd: Int64 = absent
    /// The final head has come; 1xx heads do not count.
    public package(set) var responseStart: Int64 = absent
    /// The answer is whole, or broke off.
    public package(set) var responseEnd: Int64 = absent

    /// Where the answer came from.
    public package(set) var resourceFetchType = ResourceFetchType.networkLoad
    /// The status of the final head; 0 when none came.
    public package(set) var status = 0
    /// 10, 11 or 20; 0 when no head came, and for a stored answer.
    public package(set) var protocolVersion = 0
    /// Whether the request went out on a connection that was there already.
    public package(set) var isReusedConnection = false
    /// The request's head, in bytes of HTTP/1.1 text.
    public package(set) var requestHeaderBytesSent: Int64 = 0
    /// The request's body; the chunk sizes of HTTP/1.1 count as well, the frames of HTTP/2 do not.
    public package(set) var requestBodyBytesSent: Int64 = 0
    /// The answer's heads, those of 1xx answers among them, in bytes of HTTP/1.1 text.
    public package(set) var responseHeaderBytesReceived: Int64 = 0
    /// The answer's body, in bytes of content: without chunk sizes or frames.
    public package(set) var responseBodyBytesReceived: Int64 = 0

    /// The connection that carried it, or the one whose TLS handshake ended the task: that of a server that was refused.
    /// nil when the handshake was not reached.
    public package(set) var connection: ConnectionInfo?

    /// Of a request that did not go out: every time is `absent`.
    public init() {}
}

extension TransactionMetrics {
    /// The same transaction, told from the start of a task that began earlier.
    ///
    /// - Parameter time: by how many microseconds.
    package func later(by time: Int64) -> TransactionMetrics {
        var moved = self
        for phase in Self.phases where moved[keyPath: phase] != Self.absent { moved[keyPath: phase] += time }
        return moved
    }

    private static var phases: [WritableKeyPath<TransactionMetrics, Int64>] {
        [
            \.fetchStart, \.domainLookupStart, \.domainLookupEnd, \.connectStart, \.secureConnectionStart,
            \.secureConnectionEnd, \.connectEnd, \.requestStart, \.requestEnd, \.responseStart, \.responseEnd,
        ]
    }
}

/// What there is to say of a connection, found out once when it is new, or when its handshake has failed.
public final class ConnectionInfo: Sendable {
    /// Unique among the connections of a process; they are numbered in the order in which they were made.
    public let identifier: UInt64
    /// The address really dialled.
    package let remoteAddress: SocketAddress
    /// `TLSv1.3`; nil without TLS, and when the handshake broke off before the server was judged.
    public let tlsVersion: ShortName?
    /// OpenSSL's name of the cipher suite; nil like `tlsVersion`.
    public let cipher: ShortName?
    /// The security policy's verdict; nil without TLS.
    public let evaluation: TrustEvaluation?
    /// Whether the server has asked for a client certificate in vain.
    public let isClientCertificateMissing: Bool

    init(
        remoteAddress: SocketAddress,
        tlsVersion: ShortName?,
        cipher: ShortName?,
        evaluation: TrustEvaluation?,
        isClientCertificateMissing: Bool = false
    ) {
        identifier = ConnectionIdentifiers.next()
        self.remoteAddress = remoteAddress
        self.tlsVersion = tlsVersion
        self.cipher = cipher
        self.evaluation = evaluation
        self.isClientCertificateMissing = isClientCertificateMissing
    }

    /// `192.0.2.1:443`.
    public var remoteAddressText: String { remoteAddress.description }
}

/// A short name as the bytes that a log line takes, made once for a connection.
public struct ShortName: Sendable, CustomStringConvertible {
    package let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
