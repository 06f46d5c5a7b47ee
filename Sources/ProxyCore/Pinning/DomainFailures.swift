// SPDX-License-Identifier: Apache-2.0
import ServerTrust

/// What went wrong with a domain's servers, for the metrics: refused handshakes by reason, requests that got no connection by
/// error, and handshakes in which only a backup pin has matched.
package struct DomainFailures: Equatable, Sendable {
    /// The errors of requests that got no connection to their origin, for another reason than its certificates.
    static let connectErrors: [Problem.Code] = [
        .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout, .tlsHandshakeFailed, .clientCertificateRefused,
        .proxyUntrusted,
        .proxyHandshakeFailed, .proxyRefused,
    ]

    /// Refused handshakes, in the order of `TrustFailure`.
    package private(set) var refusals = Self.noRefusals
    /// Requests without a connection, in the order of `connectErrors`.
    package private(set) var unconnected = Self.noneUnconnected
    package private(set) var backupOnly = 0

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
    /// - Parameter error: one of `connectErrors`; another one counts for nothing.
    mutating func note(_ error: Problem.Code) {
        if let index = Self.connectErrors.firstIndex(of: error) { unconnected[index] += 1 }
    }

    static func += (sum: inout DomainFailures, other: DomainFailures) {
        guard other != DomainFailures() else { return }
        for (index, count) in other.refusals.enumerated() { sum.refusals[index] += count }
        for (index, count) in other.unconnected.enumerated() { sum.unconnected[index] += count }
        sum.backupOnly += other.backupOnly
    }
}
