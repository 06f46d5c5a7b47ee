// SPDX-License-Identifier: Apache-2.0
import ServerTrust
import SessionCore
import StrictJSON

/// The result of `fetch` as one JSON line for programs, with the names and times of the task log.
struct FetchAccount {
    var url: String
    var status: Int?
    var file: String?
    var error: SessionError?
    var metrics: TaskMetrics?

    var text: String {
        var line = JSONLine()
        line.add("url", url)
        if let status { line.add("status", status) }
        if let file { line.add("file", file) }
        if let error {
            line.add("error", error.code.rawValue)
            line.add("details", error.details)
        }
        if let metrics {
            line.add("duration", milliseconds: metrics.duration)
            line.add("redirectCount", metrics.redirectCount)
            let transactions = metrics.earlierTransactions + [metrics.transaction]
            line.add("transactions", array: transactions.map { Self.transaction($0).object })
        }
        return line.text
    }

    private static func transaction(_ transaction: TransactionMetrics) -> JSONLine {
        var line = JSONLine()
        if transaction.status > 0 { line.add("status", transaction.status) }
        let times: [(String, Int64)] = [
            ("fetchStart", transaction.fetchStart), ("domainLookupStart", transaction.domainLookupStart),
            ("domainLookupEnd", transaction.domainLookupEnd), ("connectStart", transaction.connectStart),
            ("proxySecureConnectionStart", transaction.proxySecureConnectionStart),
            ("proxySecureConnectionEnd", transaction.proxySecureConnectionEnd),
            ("secureConnectionStart", transaction.secureConnectionStart),
            ("secureConnectionEnd", transaction.secureConnectionEnd), ("connectEnd", transaction.connectEnd),
            ("requestStart", transaction.requestStart), ("requestEnd", transaction.requestEnd),
            ("responseStart", transaction.responseStart), ("responseEnd", transaction.responseEnd),
        ]
        for (name, time) in times where time != TransactionMetrics.absent { line.add(name, milliseconds: time) }
        line.add("reusedConnection", transaction.isReusedConnection)
        line.add("requestBodyBytesSent", transaction.requestBodyBytesSent)
        line.add("responseBodyBytesReceived", transaction.responseBodyBytesReceived)
        if let connection = transaction.connection {
            line.add("remoteAddress", connection.remoteAddressText)
            if let version = connection.tlsVersion { line.add("tlsVersion", version.description) }
            if let cipher = connection.cipher { line.add("cipher", cipher.description) }
            if let group = connection.tlsGroup { line.add("tlsGroup", group.rawValue) }
            if let proxy = connection.proxy { line.add("proxy", account(of: proxy)) }
            if let evaluation = connection.evaluation { add(evaluation, to: &line) }
        }
        return line
    }

    private static func account(of proxy: ProxyConnectionInfo) -> JSONLine {
        var line = JSONLine()
        line.add("authority", proxy.authority.description)
        if let version = proxy.tlsVersion { line.add("tlsVersion", version.description) }
        if let cipher = proxy.cipher { line.add("cipher", cipher.description) }
        if let group = proxy.tlsGroup { line.add("tlsGroup", group.rawValue) }
        if let evaluation = proxy.evaluation { add(evaluation, to: &line) }
        return line
    }

    private static func add(_ evaluation: TrustEvaluation, to line: inout JSONLine) {
        line.add("verdict", evaluation.verdict.rawValue)
        if let pin = evaluation.matchedPin { line.add("matchedPin", pin.description) }
        if !evaluation.isAccepted {
            line.add("offeredPins", strings: evaluation.offeredPins.map { "\($0.pin)" })
        }
    }
}

extension JSONLine {
    /// - Parameter milliseconds: microseconds, written as milliseconds.
    fileprivate mutating func add(_ name: String, milliseconds: Int64) {
        add(name, number: Waterfall.milliseconds(milliseconds))
    }
}
