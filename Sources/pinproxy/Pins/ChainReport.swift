import Glibc
import IOCore
import ServerTrust
import SessionCore

/// A server's chain for people.
struct ChainReport {
    var server: ServerAddress
    var probe: ServerProbe
    var style: TerminalStyle

    private var evaluation: TrustEvaluation { probe.evaluation }

    var text: String {
        var text = style("\(server)", .bold)
        if let connection = probe.connection {
            text += " at \(connection.remoteAddressText)"
            if let version = connection.tlsVersion { text += ", \(version)" }
        }
        text += "\n\n" + verdict + "\n"
        for (depth, certificate) in evaluation.chain.enumerated() { text += entry(certificate, depth) }
        return text
    }

    private var verdict: String {
        guard let failure = evaluation.failure else {
            return paragraph(
                "The chain is VALID: it leads to a trust anchor, and it is made out to \(server.host).",
                .green
            )
        }
        let chain =
            evaluation.isChainValidated
            ? "The certificates below are the chain that was judged."
            : "The certificates below are as the server sent them: nobody vouches for them."
        return paragraph(
            "The chain is NOT VALID: \(failure.rawValue): \(evaluation.reason) (\(evaluation.remedy)). \(chain)",
            .red
        )
    }

    private func paragraph(_ text: String, _ mark: TerminalStyle.Mark) -> String {
        TextLayout.lines(text, width: TextLayout.width).map { style($0, mark) + "\n" }.joined()
    }

    private func entry(_ certificate: Certificate, _ depth: Int) -> String {
        func row(_ label: String, _ text: String, _ mark: TerminalStyle.Mark? = nil) -> String {
            TextLayout.row("    \(label)", text, column: 12) { line in mark.map { style(line, $0) } ?? line }
        }
        var text = TextLayout.row("\(depth)", certificate.subject, column: 4) { style($0, .bold) }
        text += row("issuer", certificate.issuer)
        if depth == 0 {
            let names = certificate.subjectAlternativeNames
            let shown = names.prefix(12).map(\.description).joined(separator: ", ")
            text += row("names", names.count > 12 ? "\(shown) and \(names.count - 12) more" : shown)
        }
        text += row("dates", dates(certificate))
        text += row("key", certificate.keyDescription)
        text += row("pin", certificate.publicKeyPin.description, .bold)
        return text + "\n"
    }

    private func dates(_ certificate: Certificate) -> String {
        let left = certificate.notAfter - Clock.realtime / 1_000_000
        let days = left / 86_400
        let end =
            switch left {
            case ...0: "expired"
            case ..<172_800: "ends in \(left / 3600) hours"
            default: "ends in \(days) days"
            }
        return "\(certificate.firstDay) to \(certificate.lastDay) (\(end))"
    }
}

extension Certificate {
    var firstDay: String { Certificate.day(notBefore) }
    var lastDay: String { Certificate.day(notAfter) }

    /// `2026-11-21`, UTC.
    static func day(_ seconds: Int64) -> String {
        var moment = time_t(seconds)
        var parts = tm()
        guard gmtime_r(&moment, &parts) != nil else { return "?" }
        let day = CalendarDate(year: Int(parts.tm_year) + 1900, month: Int(parts.tm_mon) + 1, day: Int(parts.tm_mday))
        return day?.description ?? "?"
    }
}
