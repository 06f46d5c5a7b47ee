package import IOCore
public import ServerTrust

/// How a task went, in the terms of `URLSessionTaskMetrics`.
public struct TaskMetrics: Sendable {
    /// When the task was resumed: microseconds since 1970.
    public internal(set) var fetchStart: Int64 = 0
    /// From the resumption to the end, in microseconds.
    public internal(set) var duration: Int64 = 0
    /// How many redirects were followed.
    public internal(set) var redirectCount = 0
    /// The transaction under way, or the last one.
    public internal(set) var transaction = TransactionMetrics()
    /// The transactions before it, oldest first: one a redirect.
    public internal(set) var earlierTransactions: [TransactionMetrics] = []

    public init() {}
}

/// One request and its response, in the terms of `URLSessionTaskTransactionMetrics`.
///
/// Times are microseconds from the task's `fetchStart`; `absent` where a phase did not happen, as on a reused
/// connection.
public struct TransactionMetrics: Sendable {
    public static let absent: Int64 = -1

    public internal(set) var fetchStart: Int64 = absent
    public internal(set) var domainLookupStart: Int64 = absent
    public internal(set) var domainLookupEnd: Int64 = absent
    public internal(set) var connectStart: Int64 = absent
    public internal(set) var secureConnectionStart: Int64 = absent
    public internal(set) var secureConnectionEnd: Int64 = absent
    public internal(set) var connectEnd: Int64 = absent
    public internal(set) var requestStart: Int64 = absent
    public internal(set) var requestEnd: Int64 = absent
    public internal(set) var responseStart: Int64 = absent
    public internal(set) var responseEnd: Int64 = absent

    /// The status of the final head; 0 when none came.
    public internal(set) var status = 0
    /// 10, 11 or 20; 0 when no head came.
    public internal(set) var protocolVersion = 0
    public internal(set) var isReusedConnection = false
    /// Bytes on the wire to and from the origin, without TLS.
    public internal(set) var requestHeaderBytesSent: Int64 = 0
    public internal(set) var requestBodyBytesSent: Int64 = 0
    public internal(set) var responseHeaderBytesReceived: Int64 = 0
    public internal(set) var responseBodyBytesReceived: Int64 = 0

    /// The connection that carried it; nil when none came about.
    public internal(set) var connection: ConnectionInfo?

    public init() {}
}

extension TransactionMetrics {
    /// The same transaction, told from the start of a task that began earlier.
    ///
    /// - Parameter time: by how many microseconds.
    func later(by time: Int64) -> TransactionMetrics {
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

/// What there is to say of a connection, found out once when it is new.
public final class ConnectionInfo: Sendable {
    /// Unique among the connections of a process; they are numbered in the order in which they were made.
    public let identifier: UInt64
    /// The address really dialled.
    package let remoteAddress: SocketAddress
    /// `TLSv1.3`; nil without TLS.
    public let tlsVersion: ShortName?
    /// OpenSSL's name of the cipher suite; nil without TLS.
    public let cipher: ShortName?
    /// The security policy's verdict; nil without TLS.
    public let evaluation: TrustEvaluation?
    /// Whether the server has asked for a client certificate in vain.
    public let lacksClientCertificate: Bool

    init(
        remoteAddress: SocketAddress,
        tlsVersion: ShortName?,
        cipher: ShortName?,
        evaluation: TrustEvaluation?,
        lacksClientCertificate: Bool = false
    ) {
        identifier = ConnectionIdentifiers.next()
        self.remoteAddress = remoteAddress
        self.tlsVersion = tlsVersion
        self.cipher = cipher
        self.evaluation = evaluation
        self.lacksClientCertificate = lacksClientCertificate
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
