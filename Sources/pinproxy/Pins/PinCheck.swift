import IOCore
import ServerTrust
import SessionCore

/// What one connection to a pinned server showed.
struct PinCheck {
    /// How it ended.
    enum Outcome {
        /// The policy has judged a chain, and refused it or not.
        case evaluated(TrustEvaluation)
        /// There was no connection to judge, or it broke before its handshake was over.
        case unreachable(Unreached)
    }

    /// Why there was no verdict, in the words of the task log.
    struct Unreached: Error {
        var code: String
        /// What happened and what to do.
        var reason: String
    }

    var server: PinnedServer
    var outcome: Outcome
    var connection: ConnectionInfo?
    /// Seconds since 1970, when it was done.
    var time: Int64

    /// The policy's own word for what it found.
    var verdict: String {
        switch outcome {
        case .evaluated(let evaluation): evaluation.verdict.rawValue
        case .unreachable: "unreachable"
        }
    }

    /// Whether the server shows what its policy asks for. Requests may go out all the same where pins are only
    /// reported or have expired: a pin set that does not hold is not verified.
    var isGood: Bool {
        guard case .evaluated(let evaluation) = outcome else { return false }
        switch evaluation.verdict {
        case .pass, .notPinned, .unverified: return true
        case .fail, .reportOnly, .expired: return false
        }
    }

    /// The code, the reason and the remedy of what is not good.
    var problem: (code: String, reason: String, remedy: String)? {
        switch outcome {
        case .unreachable(let error):
            // A domain that stands for those below it need not be a server itself.
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

    /// What will need attention although it passes now.
    var warnings: [(code: String, text: String)] {
        var warnings: [(String, String)] = []
        if match?.isBackupOnly == true {
            warnings.append(
                ("backup_only", "only a backup pin matched: make it the current one, and add a new backup")
            )
        }
        let ends = [("certificate", certificateEnd), ("pin_set", pinSetEnd)]
        for (name, end) in ends {
            guard let end, case let days = days(until: end), (0..<ChainWarning.notice).contains(days) else { continue }
            let what = name == "certificate" ? "a certificate of the chain" : "the pin set"
            warnings.append(("\(name)_near_expiry", "\(what) is near its end: renew it in time"))
        }
        return warnings
    }

    /// The keys that the server has shown, its own first, when its pins have failed: one of them may be the new pin.
    var offeredPins: [PublicKeyPin] {
        guard case .evaluated(let evaluation) = outcome, !isGood else { return [] }
        return evaluation.offeredPins.map(\.pin)
    }

    /// The pin that matched, with what the pin file says of it.
    var match: (pin: PublicKeyPin, comment: String, isBackupOnly: Bool)? {
        guard case .evaluated(let evaluation) = outcome, let pin = evaluation.matchedPin else { return nil }
        let configuration = server.policy.configuration
        let comment =
            configuration.pins.first { $0.key == pin && !$0.comment.isEmpty }?.comment
            ?? configuration.pinnedCertificates.first { $0.publicKeyPin == pin }?.subject ?? ""
        return (pin, comment, evaluation.matchedBackupOnly)
    }

    /// The first end of a certificate's validity in the chain that was judged, in seconds since 1970. Of a chain that
    /// nobody vouches for, the server's own certificate alone counts.
    var certificateEnd: Int64? {
        guard case .evaluated(let evaluation) = outcome else { return nil }
        return (evaluation.isChainValidated ? evaluation.chain : Array(evaluation.chain.prefix(1))).map(\.notAfter)
            .min()
    }

    /// The first second after the pin set's last day.
    var pinSetEnd: Int64? { server.policy.configuration.expiration?.end }

    /// Whole days from now; negative when it is over.
    func days(until second: Int64) -> Int64 {
        let left = second - time
        return left >= 0 ? left / 86_400 : -((-left + 86_399) / 86_400)
    }
}
