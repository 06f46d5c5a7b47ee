import COpenSSL
public import HTTPCore
import StrictJSON

/// The report of an evaluation in which the pins failed: the JSON object of RFC 7469, section 3, extended by
/// `enforce-pinning` and `validation-result`.
public struct PinValidationReport: Sendable {
    /// When the server was judged, in seconds since 1970.
    public let time: Int64
    /// The host that the request was for.
    public let host: Host
    /// The port that the request was for.
    public let port: UInt16
    /// The domain whose pins they are.
    public let notedHost: Host
    /// Whether the pins are those of the subdomains of `notedHost` too.
    public let includesSubdomains: Bool
    /// The last day on which the pins hold, in UTC; nil when they have none.
    public let expiration: CalendarDate?
    /// As the server sent it, its own certificate first; at most 32.
    public let servedChain: [Certificate]
    /// As OpenSSL validated it, leaf first; empty where none was valid or none was asked for.
    public let validatedChain: [Certificate]
    /// The pins of the domain, one of which would have had to match.
    public let knownPins: [PublicKeyPin]
    /// False when the server was let in all the same (`"enforcePinning": false`).
    public let enforcesPinning: Bool
    /// Why the pins failed.
    public let result: TrustFailure

    /// - Parameters:
    ///   - trust: what a handshake found.
    ///   - port: the one that the request was for.
    ///   - time: seconds since 1970.
    /// - Returns: nil when there is nothing to report: the pins did not fail. A chain that is not valid is no matter of
    ///   the pins (RFC 7469, section 2.6: it fails before they are looked at).
    public init?(_ trust: ConnectionTrust, port: UInt16, at time: Int64) {
        self.init(trust.evaluation, of: trust.policy, port: port, at: time)
    }

    /// The same for an evaluation that was made offline.
    public init?(_ evaluation: TrustEvaluation, of policy: SecurityPolicy, port: UInt16, at time: Int64) {
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
        "{\"date-time\":\(JSONString.quoted(Timestamp.text(unixSeconds: time))),\(jsonWithoutTime)}"
    }

    /// All but the time: what makes two reports the same.
    private var jsonWithoutTime: String {
        let end = expiration.map { JSONString.quoted(Timestamp.text(unixSeconds: $0.end - 1)) } ?? "null"
        return [
            "\"hostname\":\(JSONString.quoted(host.description))",
            "\"port\":\(port)",
            "\"effective-expiration-date\":\(end)",
            "\"include-subdomains\":\(includesSubdomains)",
            "\"noted-hostname\":\(JSONString.quoted(notedHost.description))",
            "\"served-certificate-chain\":\(Self.list(servedChain.map(\.pem)))",
            "\"validated-certificate-chain\":\(Self.list(validatedChain.map(\.pem)))",
            "\"known-pins\":\(Self.list(knownPins.map { "pin-sha256=\"\($0.base64)\"" }))",
            "\"enforce-pinning\":\(enforcesPinning)",
            "\"validation-result\":\(JSONString.quoted(result.rawValue))",
        ].joined(separator: ",")
    }

    private static func list(_ texts: [String]) -> String {
        "[" + texts.map(JSONString.quoted).joined(separator: ",") + "]"
    }

    /// What a report says apart from its time, as 32 bytes: equal for reports that say the same.
    public var digest: [UInt8] {
        let text = Array(jsonWithoutTime.utf8)
        return [UInt8](unsafeUninitializedCapacity: 32) { bytes, count in
            let done = EVP_Digest(text, text.count, bytes.baseAddress, nil, EVP_sha256(), nil)
            precondition(done == 1, "EVP_Digest failed")
            count = 32
        }
    }
}
