// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// The result of one connection to a pinned server.
struct PinCheck {
    /// How it ended.
    enum Outcome {
        /// The policy has evaluated a chain, and accepted or refused it.
        case evaluated(TrustEvaluation)
        /// There was no connection, or it failed before its handshake was complete.
        case unreachable(Unreached)
    }

    /// The reason why there is no verdict, in the words of the task log.
    struct Unreached: Error {
        var code: String
        /// The cause and the remedy.
        var reason: String
    }

    var server: PinnedServer
    var outcome: Outcome
    var connection: ConnectionInfo?
    /// Used where the policy has no anchors of its own.
    var anchors: TrustAnchors
    /// The time of the check, in seconds since 1970.
    var time: Int64

    /// The verdict in the policy's words.
    var verdict: String {
        switch outcome {
        case .evaluated(let evaluation): evaluation.verdict.rawValue
        case .unreachable: "unreachable"
        }
    }

    /// Whether the server meets its policy. Requests may be sent nevertheless if the pins are report-only or expired,
    /// but such pins are not verified.
    var isGood: Bool {
        guard case .evaluated(let evaluation) = outcome else { return false }
        switch evaluation.verdict {
        case .pass, .notPinned, .unverified: return true
        case .fail, .reportOnly, .expired: return false
        }
    }

    /// The code, the reason and the remedy of a failed check.
    var problem: (code: String, reason: String, remedy: String)? {
        switch outcome {
        case .unreachable(let error):
            // A domain that stands for its subdomains need not be a server itself.
            let isParent = server.includesSubdomains && server.address.host == server.policy.domain
            return (error.code, error.reason, isParent ? "if it has no server itself, name a host below it" : "")
        case .evaluated(let evaluation):
            if let failure = evaluation.failure {
                return (failure.rawValue, evaluation.reason, evaluation.remedy)
            }
            guard evaluation.verdict == .expired else { return nil }
            let last = server.policy.configuration.expiration.map { " on \($0)" } ?? ""
            return (
                TrustFailure.pinSetExpired.rawValue,
                "the pin set has expired\(last), and no pin is looked at: chain and host hold",
                "check the server's pins and renew the date"
            )
        }
    }

    /// Facts that will need attention although the check passes now.
    var warnings: [(code: String, text: String)] {
        var warnings: [(String, String)] = []
        if match?.isBackupOnly == true {
            warnings.append(
                ("backup_only", "only a backup pin matched: make it the current one, and add a new backup")
            )
        }
        if let share = certificateExpiry?.share {
            warnings.append(
                ("certificate_near_expiry", "a certificate of the chain is near its end: \(share.words)")
            )
        }
        if server.policy.pinSetExpiry(at: time) != nil {
            warnings.append(("pin_set_near_expiry", "the pin set is near its end: renew it in time"))
        }
        return warnings + advice.map { ($0.code, "\($0.text) (\($0.remedy))") }
    }

    /// What will not last about the pins, seen together with the server's chain.
    private var advice: [PinAdvice] {
        var chain: [Certificate] = []
        if case .evaluated(let evaluation) = outcome, evaluation.isChainValidated { chain = evaluation.chain }
        return PinAdvice.all(server.policy, chain: chain, anchors: anchors, at: time)
    }

    /// The keys that the server presented, its own first, if its pins have failed: one of them may be the new pin.
    var offeredPins: [PublicKeyPin] {
        guard case .evaluated(let evaluation) = outcome, !isGood else { return [] }
        return evaluation.offeredPins.map(\.pin)
    }

    /// The matched pin, with its comment in the pin file.
    var match: (pin: PublicKeyPin, comment: String, isBackupOnly: Bool)? {
        guard case .evaluated(let evaluation) = outcome, let pin = evaluation.matchedPin else { return nil }
        let configuration = server.policy.configuration
        let comment =
            configuration.pins.first { $0.key == pin && !$0.comment.isEmpty }?.comment
            ?? configuration.pinnedCertificates.first { $0.publicKeyPin == pin }?.subject ?? ""
        return (pin, comment, evaluation.matchedBackupOnly)
    }

    /// The validated path, leaf first, and whether it is another one than OpenSSL builds by itself; nil where none is valid.
    var path: (subjects: [String], isOther: Bool)? {
        guard case .evaluated(let evaluation) = outcome, evaluation.isChainValidated else { return nil }
        return (evaluation.chain.map(\.subject), evaluation.isOtherPath)
    }

    /// The first expiry of a certificate in the evaluated chain, in seconds since 1970. Nil when one of them cannot be read.
    var certificateEnd: Int64? { hasUnreadableEnd ? nil : certificateEnds.compactMap { $0 }.min() }

    /// Whether a certificate has an end that is not a time.
    var hasUnreadableEnd: Bool { certificateEnds.contains(nil) }

    private var certificateEnds: [Int64?] { certificates.map(\.notAfter) }

    /// The most urgent end of a certificate, if one is near.
    var certificateExpiry: Expiry? {
        certificates.compactMap { Expiry.certificate($0, at: time) }.min { $0.isMoreUrgent(than: $1) }
    }

    /// In a chain without a trusted anchor only the server's own certificate counts.
    private var certificates: [Certificate] {
        guard case .evaluated(let evaluation) = outcome else { return [] }
        return evaluation.isChainValidated ? evaluation.chain : Array(evaluation.chain.prefix(1))
    }

    /// The first second after the pin set's last day.
    var pinSetEnd: Int64? { server.policy.configuration.expiration?.end }

    /// Whole days from now; negative for a time in the past.
    func days(until second: Int64) -> Int64 {
        let left = second.subtractingSaturated(time)
        return left >= 0 ? left / 86_400 : left.subtractingSaturated(86_399) / 86_400
    }
}
