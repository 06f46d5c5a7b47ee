// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// What went wrong with a domain's servers, for the metrics: refused handshakes by reason, requests that got no connection by
/// error, the last of these, and handshakes in which only a backup pin has matched.
package struct DomainFailures: Equatable, Sendable {
    /// The errors of requests that got no connection to their origin, for another reason than its certificates.
    package static let connectErrors: [Problem.Code] = [
        .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout, .tlsHandshakeFailed, .clientCertificateRefused,
        .proxyUntrusted,
        .proxyHandshakeFailed, .proxyRefused,
    ]

    /// Refused handshakes, in the order of `TrustFailure`.
    package private(set) var refusals = Self.noRefusals
    /// Requests without a connection, in the order of `connectErrors`.
    package private(set) var unconnected = Self.noneUnconnected
    package private(set) var backupOnly = 0
    /// Nil before the first request without a connection.
    package private(set) var lastUnconnected: Unconnected?

    /// A request that got no connection.
    package struct Unconnected: Equatable, Sendable {
        package var error: Problem.Code
        /// Seconds since 1970.
        package var time: Int64
    }

    package init() {}

    // Shared by all domains without a failure, of which there may be ten thousand.
    private static let noRefusals = Array(repeating: 0, count: TrustFailure.allCases.count)
    private static let noneUnconnected = Array(repeating: 0, count: connectErrors.count)

    /// Counts a handshake, if it was refused or only a backup pin has matched.
    mutating func note(_ evaluation: TrustEvaluation) {
        if evaluation.verdict == .fail, let failure = evaluation.failure,
            let index = TrustFailure.allCases.firstIndex(of: failure)
        {
            refusals[index] += 1
        }
        if evaluation.matchedBackupOnly { backupOnly += 1 }
    }

    /// Counts a request that got no connection.
    ///
    /// - Parameters:
    ///   - error: one of `connectErrors`; another one counts for nothing.
    ///   - time: seconds since 1970.
    mutating func note(_ error: Problem.Code, at time: Int64) {
        guard let index = Self.connectErrors.firstIndex(of: error) else { return }
        unconnected[index] += 1
        lastUnconnected = Unconnected(error: error, time: time)
    }

    static func += (sum: inout DomainFailures, other: DomainFailures) {
        guard other != DomainFailures() else { return }
        for (index, count) in other.refusals.enumerated() { sum.refusals[index] += count }
        for (index, count) in other.unconnected.enumerated() { sum.unconnected[index] += count }
        sum.backupOnly += other.backupOnly
        // The loops hand their counts over one after the other.
        if let last = other.lastUnconnected, last.time >= sum.lastUnconnected?.time ?? .min {
            sum.lastUnconnected = last
        }
    }
}
