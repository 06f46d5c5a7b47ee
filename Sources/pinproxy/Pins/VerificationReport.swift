// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore
import StrictJSON

/// The output of `pins verify`: for people, or one JSON object on each line.
struct VerificationReport {
    var checks: [PinCheck]
    var style: TerminalStyle

    var text: String {
        let failed = checks.count { !$0.isGood }
        let summary =
            failed == 0 ? "all \(checks.count) passed" : "\(failed) of \(checks.count) FAILED"
        return checks.map(entry).joined() + "\n" + style(summary, failed == 0 ? .green : .red) + "\n"
    }

    private func entry(_ check: PinCheck) -> String {
        let word = check.isGood ? style("PASS", .green) : style("FAIL", .red)
        var text = "\(word)  \(style("\(check.server.address)", .bold))  \(check.verdict)\n"
        func row(_ label: String, _ line: String, _ mark: TerminalStyle.Mark? = nil) {
            text += TextLayout.row("      \(label)", line, column: 16) { line in mark.map { style(line, $0) } ?? line }
        }
        if let problem = check.problem {
            let remedy = problem.remedy.isEmpty ? "" : " (\(problem.remedy))"
            row("reason", TextLayout.printable("\(problem.code): \(problem.reason)\(remedy)"), .red)
        }
        if !check.isGood, let connection = check.connection {
            let words = [
                connection.remoteAddressText, connection.tlsVersion?.description, connection.cipher?.description,
                connection.tlsGroup?.rawValue,
            ]
            row("server", words.compactMap { $0 }.joined(separator: ", "))
        }
        for (index, pin) in check.offeredPins.enumerated() { row(index == 0 ? "offered" : "", "\(pin)") }
        if let match = check.match {
            row("pin", "\(match.pin)")
            if !match.comment.isEmpty { row("", TextLayout.printable(match.comment)) }
        }
        if let path = check.path, path.isOther {
            row("path", TextLayout.printable(path.subjects.map { "\"\($0)\"" }.joined(separator: " < ")))
            row("", "not the server's first path: that one is invalid, or holds no pin")
        }
        if let end = check.certificateEnd {
            let days = check.days(until: end)
            let isNear = days < 0 || check.certificateExpiry != nil
            row("chain", Self.left(days, "the first certificate"), isNear ? .yellow : nil)
        } else if check.hasUnreadableEnd {
            row("chain", "the end of a certificate cannot be read: it is not a time", .yellow)
        }
        if let end = check.pinSetEnd {
            let days = check.days(until: end)
            let isNear = days < 0 || check.server.policy.pinSetExpiry(at: check.time) != nil
            row("pin set", Self.left(days, "the pin set"), isNear ? .yellow : nil)
        }
        for warning in check.warnings { row("warning", warning.text, .yellow) }
        return text
    }

    private static func left(_ days: Int64, _ what: String) -> String {
        if days < 0 { return "\(what) has expired" }
        return days == 1 ? "\(what) ends in 1 day" : "\(what) ends in \(days) days"
    }

    var jsonLines: String {
        checks.map { check in
            var line = JSONLine()
            line.add("host", check.server.address.host.description)
            line.add("port", check.server.address.port)
            if let domain = check.server.policy.domain { line.add("domain", domain.description) }
            line.add("passed", check.isGood)
            line.add("verdict", check.verdict)
            line.add("pinningMode", check.server.policy.pinningMode.rawValue)
            if let problem = check.problem {
                line.add("code", problem.code)
                line.add("reason", problem.reason)
                if !problem.remedy.isEmpty { line.add("remedy", problem.remedy) }
            }
            if let match = check.match {
                line.add("matchedPin", match.pin.description)
                line.add("matchedBackupOnly", match.isBackupOnly)
                if !match.comment.isEmpty { line.add("matchedPinComment", match.comment) }
            }
            if let path = check.path {
                line.add("path", strings: path.subjects)
                if path.isOther { line.add("matchedBy", "otherPath") }
            }
            if let end = check.certificateEnd {
                line.add("certificateExpiry", Certificate.day(end))
                line.add("daysToCertificateExpiry", check.days(until: end))
                if let left = check.certificateExpiry?.share { line.add("certificateLifetimeLeft", left.rawValue) }
            } else if check.hasUnreadableEnd {
                line.add("certificateEndUnreadable", true)
            }
            if let end = check.pinSetEnd, let last = check.server.policy.configuration.expiration {
                line.add("pinSetExpiry", last.description)
                line.add("daysToPinSetExpiry", check.days(until: end))
            }
            if !check.warnings.isEmpty {
                line.add("warnings", strings: check.warnings.map(\.code))
            }
            if let connection = check.connection {
                line.add("address", connection.remoteAddressText)
                if let version = connection.tlsVersion { line.add("tlsVersion", "\(version)") }
                if let cipher = connection.cipher { line.add("cipher", "\(cipher)") }
                if let group = connection.tlsGroup { line.add("tlsGroup", group.rawValue) }
            }
            if !check.offeredPins.isEmpty {
                line.add("offeredPins", strings: check.offeredPins.map { "\($0)" })
            }
            return line.text
        }.joined()
    }
}
