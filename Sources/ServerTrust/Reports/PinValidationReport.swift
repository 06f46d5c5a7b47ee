// SPDX-License-Identifier: Apache-2.0
import COpenSSL
public import HTTPCore
import StrictJSON

/// The report of an evaluation in which the pins failed: the JSON object of RFC 7469, section 3, extended by
/// `enforce-pinning` and `validation-result`.
public struct PinValidationReport: Sendable {
    /// The time of the evaluation, in seconds since 1970.
    package let time: Int64
    /// The host that the request was for.
    public let host: Host
    /// The port that the request was for.
    public let port: UInt16
    /// The domain of the pins.
    public let notedHost: Host
    /// Whether the pins hold for the subdomains of `notedHost` too.
    public let includesSubdomains: Bool
    /// The last day on which the pins hold, in UTC; nil for pins without an end.
    public let expiration: CalendarDate?
    /// The certificates as the server sent them, its own first; at most 32.
    public let servedChain: [Certificate]
    /// The chain that OpenSSL validated, leaf first; empty when there is none or none was required.
    public let validatedChain: [Certificate]
    /// The pins of the domain; one of these had to match.
    public let knownPins: [PublicKeyPin]
    /// False when the server was accepted nevertheless (`"enforcePinning": false`).
    public let enforcesPinning: Bool
    /// The reason why the pins failed.
    public let result: TrustFailure

    /// - Parameters:
    ///   - trust: the result of a handshake.
    ///   - port: the one that the request was for.
    ///   - time: seconds since 1970.
    /// - Returns: nil when there is nothing to report: the pins did not fail. An invalid chain is not a pin failure
    ///   (RFC 7469, section 2.6: it fails before the pins are checked).
    package init?(_ trust: ConnectionTrust, port: UInt16, at time: Int64) {
        self.init(trust.evaluation, of: trust.policy, port: port, at: time)
    }

    /// The same for an evaluation that was made offline.
    package init?(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, port: UInt16, at time: Int64) {
        guard evaluation.isPinFailure, let result = evaluation.failure else { return nil }
        self.time = time
        self.port = port
        self.result = result
        host = evaluation.host
        notedHost = evaluation.domain ?? evaluation.host
        includesSubdomains = policy.configuration.includesSubdomains
        expiration = policy.configuration.expiration
        servedChain = evaluation.presentedChain
        validatedChain = evaluation.isChainValidated ? evaluation.chain : []
        knownPins = evaluation.expectedPins
        enforcesPinning = policy.configuration.enforcePinning
    }

    /// The JSON object, on one line. `effective-expiration-date` is the last second of the last day, or null.
    public var json: String {
        var line = JSONLine()
        line.add("date-time", Timestamp.text(unixSeconds: time))
        line.add(membersOf: content)
        return line.object
    }

    /// All members but the time, for the comparison of reports.
    private var content: JSONLine {
        var line = JSONLine()
        line.add("hostname", host.description)
        line.add("port", port)
        if let expiration {
            line.add("effective-expiration-date", Timestamp.text(unixSeconds: expiration.end - 1))
        } else {
            line.addNull("effective-expiration-date")
        }
        line.add("include-subdomains", includesSubdomains)
        line.add("noted-hostname", notedHost.description)
        line.add("served-certificate-chain", strings: servedChain.map(\.pem))
        line.add("validated-certificate-chain", strings: validatedChain.map(\.pem))
        line.add("known-pins", strings: knownPins.map { "pin-sha256=\"\($0.base64)\"" })
        line.add("enforce-pinning", enforcesPinning)
        line.add("validation-result", result.rawValue)
        return line
    }

    /// A digest of a report without its time, 32 bytes: equal for reports with the same content.
    public var digest: [UInt8] {
        let text = Array(content.object.utf8)
        return [UInt8](unsafeUninitializedCapacity: 32) { bytes, count in
            let done = EVP_Digest(text, text.count, bytes.baseAddress, nil, EVP_sha256(), nil)
            precondition(done == 1, "EVP_Digest failed")
            count = 32
        }
    }
}
