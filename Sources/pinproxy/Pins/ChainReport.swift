// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import StrictJSON

/// A server's chain, for people.
struct ChainReport {
    var server: ServerAddress
    var probe: ServerProbe
    /// The trust anchors for chains, in words.
    var anchorSource: String
    var style: TerminalStyle

    private var evaluation: TrustEvaluation { probe.evaluation }

    var text: String {
        var text = style("\(server)", .bold)
        if let connection = probe.connection {
            text += " at \(connection.remoteAddressText)"
            if let version = connection.tlsVersion, let cipher = connection.cipher { text += ", \(version), \(cipher)" }
            if let group = connection.tlsGroup { text += ", \(group.rawValue)" }
        }
        text += "\n\n" + verdict + "\n"
        for (depth, certificate) in evaluation.chain.enumerated() { text += entry(certificate, depth) }
        if evaluation.isChainValidated { text += sent + otherPaths }
        for warning in probe.warnings {
            text += TextLayout.row("warning:", TextLayout.printable(warning.text), column: 9) { style($0, .yellow) }
        }
        return text
    }

    private var verdict: String {
        guard let failure = evaluation.failure else {
            let root = evaluation.chain.last.map { " It ends in \"\($0.subject)\", from \(anchorSource)." } ?? ""
            return paragraph(
                "The chain is VALID: it leads to a trust anchor, and it is made out to \(server.host).\(root)",
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

    /// Compares the chain as sent with the validated one.
    private var sent: String {
        let sent = evaluation.presentedChain
        let chain = evaluation.chain
        if sent.count <= chain.count, zip(sent, chain).allSatisfy({ $0.isSame(as: $1) }) {
            let rest = chain.count - sent.count
            if rest == 0 { return "The server sent all of these, in this order.\n\n" }
            return
                "The server sent the first \(sent.count) of these, in this order; the rest is from \(anchorSource).\n\n"
        }
        var text = "The server sent, in this order:\n"
        for (index, certificate) in sent.enumerated() {
            let found = chain.firstIndex { $0.isSame(as: certificate) }
            let note = found.map { "the chain's \($0)" } ?? "not in the chain"
            text += TextLayout.row("    \(index)", "\(certificate.subject) (\(note))", column: 12)
            text += TextLayout.row("", "\(certificate.publicKeyPin)", column: 12)
        }
        return text + "\n"
    }

    /// The other valid paths, with the pins that the chain above does not have. A pin holds if any valid path has its key.
    private var otherPaths: String {
        let chain = evaluation.chain
        let others = probe.paths.paths.filter { path in
            path.count != chain.count || !zip(path, chain).allSatisfy { $0.isSame(as: $1) }
        }
        var text = ""
        for path in others {
            text += TextLayout.row("Another valid path:", "", column: 4)
            for (depth, certificate) in path.enumerated() {
                text += TextLayout.row("    \(depth)", certificate.subject, column: 12)
                if !chain.contains(where: { $0.publicKeyPin == certificate.publicKeyPin }) {
                    text += TextLayout.row("", "\(certificate.publicKeyPin)", column: 12)
                }
            }
            text += "\n"
        }
        if !probe.paths.areAll { text += "There are more valid paths than are tried for one server.\n\n" }
        return text
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
        let lists = certificate.revocationListURLs
        if !lists.isEmpty { text += row("lists", lists.joined(separator: ", ")) }
        return text + "\n"
    }

    private func dates(_ certificate: Certificate) -> String {
        let left = certificate.notAfter?.subtractingSaturated(probe.time)
        let end =
            switch left {
            case nil: "the end cannot be read"
            case .some(...0): "expired"
            case .some(let left) where left < 172_800: "ends in \(left / 3600) hours"
            case .some(let left): "ends in \(left / 86_400) days"
            }
        return "\(certificate.firstDay) to \(certificate.lastDay) (\(end))"
    }

    // MARK: For programs

    var jsonLine: String {
        var line = JSONLine()
        line.add("host", server.host.description)
        line.add("port", server.port)
        line.add("valid", evaluation.isAccepted)
        if let failure = evaluation.failure {
            line.add("code", failure.rawValue)
            line.add("reason", evaluation.reason)
            line.add("remedy", evaluation.remedy)
        }
        if let connection = probe.connection {
            line.add("address", connection.remoteAddressText)
            if let version = connection.tlsVersion { line.add("tlsVersion", "\(version)") }
            if let cipher = connection.cipher { line.add("cipher", "\(cipher)") }
            if let group = connection.tlsGroup { line.add("tlsGroup", group.rawValue) }
        }
        let sent = evaluation.presentedChain
        if evaluation.isChainValidated {
            line.add("anchors", anchorSource)
            line.add(
                "chain",
                array: evaluation.chain.map { certificate in
                    json(certificate, wasSent: sent.contains { $0.isSame(as: certificate) })
                }
            )
        }
        line.add("sent", array: sent.map { json($0) })
        line.add(
            "paths",
            array: probe.paths.paths.map { path in JSONString.array(path.map(\.publicKeyPin.description)) }
        )
        line.add(
            "warnings",
            array: probe.warnings.map { warning in
                var line = JSONLine()
                line.add("code", warning.code)
                line.add("text", warning.text)
                return line.object
            }
        )
        return line.text
    }

    private func json(_ certificate: Certificate, wasSent: Bool? = nil) -> String {
        var line = JSONLine()
        line.add("subject", certificate.subject)
        line.add("issuer", certificate.issuer)
        line.add("serialNumber", certificate.serialNumber)
        line.add("names", strings: certificate.subjectAlternativeNames.map(\.description))
        let lists = certificate.revocationListURLs
        if !lists.isEmpty { line.add("revocationLists", strings: lists) }
        if let begin = certificate.notBefore { line.add("notBefore", Certificate.day(begin)) }
        if let end = certificate.notAfter { line.add("notAfter", Certificate.day(end)) }
        line.add("key", certificate.keyDescription)
        line.add("pin", certificate.publicKeyPin.description)
        line.add("isCA", certificate.isCA)
        if let wasSent { line.add("sent", wasSent) }
        return line.object
    }
}

extension Certificate {
    var firstDay: String { notBefore.map(Certificate.day) ?? "(not a time)" }
    var lastDay: String { notAfter.map(Certificate.day) ?? "(not a time)" }

    /// `2026-11-21`, UTC.
    static func day(_ seconds: Int64) -> String { String(Timestamp.text(unixSeconds: seconds).prefix(10)) }
}
