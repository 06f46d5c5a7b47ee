// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import SessionCore

/// The phases of a request on one time scale, for people.
struct Waterfall {
    var metrics: TaskMetrics
    /// The requested URLs, one for each transaction; all except the last were redirects.
    var urls: [String]

    private static let width = 32

    private struct Phase {
        var name: String
        var start: Int64
        var end: Int64
    }

    var text: String {
        let transactions = metrics.earlierTransactions + [metrics.transaction]
        var text = ""
        for (index, transaction) in transactions.enumerated() {
            text += Self.heading(transaction, index < urls.count ? urls[index] : "") + "\n"
            let verdicts = [transaction.connection?.proxy?.evaluation, transaction.connection?.evaluation]
            for case let evaluation? in verdicts where !evaluation.isAccepted {
                for offered in evaluation.offeredPins {
                    text += TextLayout.printable("  offered      \(offered.pin)  \(offered.subject)") + "\n"
                }
            }
            for phase in Self.phases(transaction) { text += row(phase) }
        }
        let received = transactions.reduce(0) { $0 + $1.responseBodyBytesReceived }
        let sent = transactions.reduce(0) { $0 + $1.requestBodyBytesSent }
        text += "  total \(Self.milliseconds(metrics.duration)) ms, \(TransferMeter.size(received)) received"
        return text + (sent > 0 ? ", \(TransferMeter.size(sent)) sent\n" : "\n")
    }

    private static func heading(_ transaction: TransactionMetrics, _ url: String) -> String {
        var words = [url]
        if transaction.status > 0 { words.append("\(transaction.status)") }
        switch transaction.protocolVersion {
        case 10: words.append("HTTP/1.0")
        case 11: words.append("HTTP/1.1")
        case 20: words.append("HTTP/2")
        default: break
        }
        if let connection = transaction.connection {
            if let version = connection.tlsVersion { words.append("\(version)") }
            words.append(connection.remoteAddressText)
            if let proxy = connection.proxy {
                let verdict = proxy.evaluation?.verdict.rawValue ?? "none"
                words.append("proxy \(proxy.authority): \(verdict)")
            }
            if let evaluation = connection.evaluation { words.append("pinning: \(evaluation.verdict.rawValue)") }
        }
        if transaction.isReusedConnection { words.append("kept connection") }
        return words.filter { !$0.isEmpty }.joined(separator: "  ")
    }

    /// The phases that took place, in the order of their starts.
    private static func phases(_ transaction: TransactionMetrics) -> [Phase] {
        // A proxy that is refused is not asked for a tunnel.
        let isProxyTrusted = transaction.connection?.proxy?.evaluation?.isAccepted ?? true
        let tunnelStart = isProxyTrusted ? transaction.proxySecureConnectionEnd : TransactionMetrics.absent
        let all = [
            ("name lookup", transaction.domainLookupStart, transaction.domainLookupEnd),
            ("connect", transaction.connectStart, transaction.proxySecureConnectionStart),
            ("proxy TLS", transaction.proxySecureConnectionStart, transaction.proxySecureConnectionEnd),
            ("tunnel", tunnelStart, transaction.secureConnectionStart),
            ("tunnel", tunnelStart, transaction.connectEnd),
            ("connect", transaction.connectStart, transaction.secureConnectionStart),
            ("connect", transaction.connectStart, transaction.connectEnd),
            ("TLS", transaction.secureConnectionStart, transaction.secureConnectionEnd),
            ("request", transaction.requestStart, transaction.requestEnd),
            ("waiting", transaction.requestEnd, transaction.responseStart),
            ("response", transaction.responseStart, transaction.responseEnd),
        ]
        var phases: [Phase] = []
        for (name, start, end) in all
        where start != TransactionMetrics.absent && end != TransactionMetrics.absent && end >= start {
            // TCP, or a proxy's tunnel, ends where TLS begins; without TLS at `connectEnd`.
            guard !phases.contains(where: { $0.name == name }) else { continue }
            phases.append(Phase(name: name, start: start, end: end))
        }
        return phases
    }

    private func row(_ phase: Phase) -> String {
        let whole = Double(max(metrics.duration, 1))
        func column(_ time: Int64) -> Int {
            min(max(Int(Double(time) / whole * Double(Self.width)), 0), Self.width - 1)
        }
        let (first, last) = (column(phase.start), column(phase.end))
        let bar =
            String(repeating: " ", count: first) + String(repeating: "#", count: last - first + 1)
            + String(repeating: " ", count: Self.width - 1 - last)
        let time = Self.milliseconds(phase.end - phase.start)
        func padded(_ text: String, _ width: Int) -> String {
            String(repeating: " ", count: max(width - text.count, 0))
        }
        return "  \(phase.name)\(padded(phase.name, 12)) \(padded(time, 9))\(time) ms  |\(bar)|\n"
    }

    /// Microseconds as `12.345`.
    static func milliseconds(_ microseconds: Int64) -> String {
        let rest = "\(abs(microseconds) % 1000)"
        let padding = String(repeating: "0", count: 3 - rest.count)
        return "\(microseconds < 0 ? "-" : "")\(abs(microseconds) / 1000).\(padding)\(rest)"
    }
}
