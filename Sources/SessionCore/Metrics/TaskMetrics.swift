package import IOCore
public import ServerTrust

/// The times and sizes of a task, in the terms of `URLSessionTaskMetrics`.
public struct TaskMetrics: Sendable {
    /// The time when the task was resumed, in microseconds since 1970.
    public package(set) var fetchStart: Int64 = 0
    /// The time from then to the end, in microseconds.
    public package(set) var duration: Int64 = 0
    /// The number of redirects that were followed.
    public package(set) var redirectCount = 0
    /// The present transaction, or the last one.
    public package(set) var transaction = TransactionMetrics()
    /// The transactions before it, oldest first: one for each redirect, and one for each validation of a stored
    /// response.
    public package(set) var earlierTransactions: [TransactionMetrics] = []

    /// The metrics of a task that has not begun.
    public init() {}
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
/// Times are microseconds from the task's `fetchStart`; `absent` where a phase did not happen, as on a reused
/// connection.
public struct TransactionMetrics: Sendable {
    /// The value of times that do not apply.
    public static let absent: Int64 = -1

    /// The begin of the request: near 0 for the first of a task, later after a redirect and for a retry.
    public package(set) var fetchStart: Int64 = absent
    /// The begin of the name lookup, for the host or the proxy. Absent when no connection was made for the request, as
    /// are all times up to `connectEnd`.
    public package(set) var domainLookupStart: Int64 = absent
    /// The end of the name lookup.
    public package(set) var domainLookupEnd: Int64 = absent
    /// The begin of the TCP connection.
    public package(set) var connectStart: Int64 = absent
    /// The begin of the TLS handshake with an HTTPS proxy, after TCP; absent without one.
    public package(set) var proxySecureConnectionStart: Int64 = absent
    /// The end of that handshake, with the evaluation by the policy for the proxy. CONNECT follows.
    public package(set) var proxySecureConnectionEnd: Int64 = absent
    /// The begin of the TLS handshake, after TCP and the proxy's tunnel. Absent without TLS too.
    public package(set) var secureConnectionStart: Int64 = absent
    /// The end of the TLS handshake, with the evaluation by the security policy; or its failure.
    public package(set) var secureConnectionEnd: Int64 = absent
    /// The connection is ready for requests: after TLS, if there is any. For a rejected server or a failed handshake,
    /// the end of the connection.
    public package(set) var connectEnd: Int64 = absent
    /// The begin of sending the request's head. Absent when there was no connection to send it on.
    public package(set) var requestStart: Int64 = absent
    /// The last byte of the request was handed to the connection.
    public package(set) var requestEnd: Int64 = absent
    /// The final head was received; 1xx heads do not count.
    public package(set) var responseStart: Int64 = absent
    /// The response was received completely, or was cut off.
    public package(set) var responseEnd: Int64 = absent

    /// The source of the response.
    public package(set) var resourceFetchType = ResourceFetchType.networkLoad
    /// The status of the final head; 0 without one.
    public package(set) var status = 0
    /// 10, 11 or 20; 0 without a head, and for a stored response.
    public package(set) var protocolVersion = 0
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
    /// The same transaction, with times from the start of an earlier task.
    ///
    /// - Parameter time: the difference in microseconds.
    package func later(by time: Int64) -> TransactionMetrics {
        var moved = self
        for phase in Self.phases where moved[keyPath: phase] != Self.absent { moved[keyPath: phase] += time }
        return moved
    }

    private static var phases: [WritableKeyPath<TransactionMetrics, Int64>] {
        [
            \.fetchStart, \.domainLookupStart, \.domainLookupEnd, \.connectStart, \.proxySecureConnectionStart,
            \.proxySecureConnectionEnd, \.secureConnectionStart,
            \.secureConnectionEnd, \.connectEnd, \.requestStart, \.requestEnd, \.responseStart, \.responseEnd,
        ]
    }
}

/// Facts about a connection, collected once when it is new, or when its handshake has failed.
public final class ConnectionInfo: Sendable {
    /// Unique among the connections of a process; they are numbered in the order of their creation.
    public let identifier: UInt64
    /// The address that was dialled: the proxy's, if there is one.
    package let remoteAddress: SocketAddress
    /// The same as `192.0.2.1:443`, for lines of a log.
    package let remoteAddressBytes: [UInt8]
    /// The version, as `TLSv1.3`; nil without TLS, and when the handshake failed before the server was evaluated.
    public let tlsVersion: ShortName?
    /// OpenSSL's name of the cipher suite; nil like `tlsVersion`.
    public let cipher: ShortName?
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
        evaluation: TrustEvaluation?,
        isClientCertificateMissing: Bool = false,
        proxy: ProxyConnectionInfo? = nil,
        note: [UInt8] = []
    ) {
        identifier = ConnectionIdentifiers.next()
        self.remoteAddress = remoteAddress
        var text = ByteBuffer()
        remoteAddress.append(to: &text)
        remoteAddressBytes = text.withUnsafeBytes { Array($0) }
        self.tlsVersion = tlsVersion
        self.cipher = cipher
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
    /// The security policy's verdict on the proxy; nil when there is none.
    public let evaluation: TrustEvaluation?
    /// As `ConnectionInfo.note`.
    package let note: [UInt8]

    init(
        authority: String,
        tlsVersion: ShortName?,
        cipher: ShortName?,
        evaluation: TrustEvaluation?,
        note: [UInt8]
    ) {
        self.authority = ShortName(Array(authority.utf8))
        self.note = note
        self.tlsVersion = tlsVersion
        self.cipher = cipher
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
