// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// The member of a log line about the evaluation of a server. It is made once for each connection (`ConnectionInfo.note`), not for
/// each request.
enum PinningText {
    /// - Parameter now: seconds since 1970; used when the text is made.
    static func write(_ task: LoopTask, at now: Int64, to line: inout ByteBuffer) {
        if let note = task.metrics.transaction.connection?.note, !note.isEmpty { return line.append(note) }
        if let evaluation = task.evaluation { line.append(make(evaluation, now)) }
    }

    static func make(_ evaluation: TrustEvaluation, _ now: Int64) -> [UInt8] {
        var text = ByteBuffer()
        text.append(",\"pinning\":{\"mode\":\"")
        text.append(text: evaluation.mode.rawValue)
        text.append("\",\"verdict\":\"")
        text.append(text: evaluation.verdict.rawValue)
        text.append("\"")
        if let domain = evaluation.domain {
            text.append(",\"domain\":")
            text.append(jsonString: domain.description)
        }
        if let matched = evaluation.matchedPin {
            text.append(",\"matched\":\"")
            text.append(text: matched.description)
            text.append("\"")
        }
        if evaluation.isChainValidated {
            text.append(",\"path\":[")
            for (place, certificate) in evaluation.chain.enumerated() {
                if place > 0 { text.append(",") }
                text.append(jsonString: certificate.subject)
            }
            text.append("]")
        }
        if evaluation.isOtherPath { text.append(",\"matchedBy\":\"otherPath\"") }
        if evaluation.matchedBackupOnly { text.append(",\"matchedBackupOnly\":true") }
        if let expiry = evaluation.nearExpiry(at: now) {
            text.append(",\"expiresInDays\":")
            text.append(decimal: expiry.days)
        }
        if let failure = evaluation.failure, evaluation.verdict == .reportOnly {
            text.append(",\"wouldFail\":")
            text.append(jsonString: failure.rawValue)
        }
        text.append("}")
        return text.withUnsafeBytes { Array($0) }
    }
}
