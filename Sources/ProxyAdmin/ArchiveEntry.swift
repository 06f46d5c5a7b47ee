// SPDX-License-Identifier: Apache-2.0
import ProxyCore
import SessionCore
import StrictJSON

/// Entries of an HTTP archive (HAR 1.2, w3c.github.io/web-performance/specs/HAR), made of a line of the task log: one for
/// each request to an origin, or one for a task without any.
///
/// The log has no header fields and no bodies, so the lists of these are empty. Members with an underscore are
/// pinproxy's own.
enum ArchiveEntry {
    static func entries(of task: LineMembers) -> [JSONLine] {
        let transactions = task.objects("transactions")
        let last = transactions.indices.last
        guard let last else { return [entry(of: task, nil, next: nil, isLast: true)] }
        return transactions.indices.map { index in
            let next = index < last ? transactions[index + 1].text("url") : nil
            return entry(of: task, transactions[index], next: next, isLast: index == last)
        }
    }

    /// - Parameter next: the URL that a followed redirect led to.
    private static func entry(
        of task: LineMembers,
        _ transaction: LineMembers?,
        next: String?,
        isLast: Bool
    ) -> JSONLine {
        let url = transaction?.text("url") ?? task.text("url") ?? ""
        let version = transaction?.text("networkProtocolName") ?? ""
        let start = transaction?.number("fetchStart") ?? 0
        let timings = ArchiveTimings(metrics(transaction))
        // A task without any of these phases has waited all the time: for the cache, or in vain for an address.
        let pause = timings.total == 0 ? task.number("duration") ?? 0 : 0
        var entry = JSONLine()
        entry.add("startedDateTime", time(task.text("time") ?? "", plus: start))
        entry.add("time", number: Decimal3.text(timings.total + pause))
        entry.add("request", request(task, transaction, url: url, version: version))
        entry.add("response", response(task, transaction, next: next, version: version, isLast: isLast))
        entry.add("cache", JSONLine())
        entry.add("timings", json(timings, pause: pause))
        if let address = transaction?.text("remoteAddress"), let colon = address.lastIndex(of: ":") {
            entry.add("serverIPAddress", address[..<colon].filter { $0 != "[" && $0 != "]" })
        }
        if let client = task.text("client") { entry.add("_client", client) }
        if let pinning = task.object("pinning"), isLast {
            entry.add("_pinningVerdict", pinning.text("verdict") ?? "")
            if let pin = pinning.text("matched") { entry.add("_pinningMatched", pin) }
        }
        if let cache = task.text("cache") { entry.add("_cache", cache) }
        if isLast, let error = task.text("error") {
            entry.add("_error", error)
            entry.add("_errorDetails", task.text("errorDetails") ?? "")
        }
        return entry
    }

    /// The times of a transaction in the log, which are milliseconds there.
    private static func metrics(_ transaction: LineMembers?) -> TransactionMetrics {
        var metrics = TransactionMetrics()
        func time(_ name: String) -> Int64 {
            transaction?.number(name).map { Int64(($0 * 1000).rounded()) } ?? TransactionMetrics.absent
        }
        metrics.fetchStart = time("fetchStart")
        metrics.domainLookupStart = time("domainLookupStart")
        metrics.domainLookupEnd = time("domainLookupEnd")
        metrics.connectStart = time("connectStart")
        metrics.secureConnectionStart = time("secureConnectionStart")
        metrics.secureConnectionEnd = time("secureConnectionEnd")
        metrics.connectEnd = time("connectEnd")
        // A refused server has no end of the connection; the handshake's end is the refusal.
        if metrics.connectEnd == TransactionMetrics.absent { metrics.connectEnd = metrics.secureConnectionEnd }
        metrics.requestStart = time("requestStart")
        metrics.requestEnd = time("requestEnd")
        metrics.responseStart = time("responseStart")
        metrics.responseEnd = time("responseEnd")
        return metrics
    }

    private static func json(_ timings: ArchiveTimings, pause: Double) -> JSONLine {
        var line = JSONLine()
        for (name, milliseconds) in timings.phases {
            line.add(name, number: Decimal3.text((milliseconds ?? -1) + (name == "wait" ? pause : 0)))
        }
        return line
    }

    private static func request(
        _ task: LineMembers,
        _ transaction: LineMembers?,
        url: String,
        version: String
    ) -> JSONLine {
        var request = JSONLine()
        request.add("method", task.text("method") ?? "")
        request.add("url", url)
        request.add("httpVersion", version)
        addLists(to: &request)
        request.add("queryString", array: query(of: url))
        request.add("headersSize", transaction?.integer("requestHeaderBytesSent") ?? -1)
        request.add("bodySize", transaction?.integer("requestBodyBytesSent") ?? -1)
        return request
    }

    private static func response(
        _ task: LineMembers,
        _ transaction: LineMembers?,
        next: String?,
        version: String,
        isLast: Bool
    ) -> JSONLine {
        let status = (isLast ? task.integer("status") : nil) ?? transaction?.integer("status") ?? 0
        let size = transaction?.integer("responseBodyBytesReceived") ?? task.integer("bytesReceived") ?? 0
        var content = JSONLine()
        content.add("size", size)
        content.add("mimeType", "")
        var response = JSONLine()
        response.add("status", status)
        response.add("statusText", "")
        response.add("httpVersion", version)
        addLists(to: &response)
        response.add("content", content)
        response.add("redirectURL", next ?? "")
        response.add("headersSize", transaction?.integer("responseHeaderBytesReceived") ?? -1)
        response.add("bodySize", size)
        return response
    }

    private static func addLists(to message: inout JSONLine) {
        message.add("cookies", array: [])
        message.add("headers", array: [])
    }

    /// The parameters as they stand in the URL, with the masked values of the log.
    private static func query(of url: String) -> [String] {
        guard let mark = url.firstIndex(of: "?") else { return [] }
        return url[url.index(after: mark)...].split(separator: "&").map { pair in
            let equals = pair.firstIndex(of: "=") ?? pair.endIndex
            var parameter = JSONLine()
            parameter.add("name", String(pair[..<equals]))
            parameter.add("value", String(pair[equals...].dropFirst()))
            return parameter.object
        }
    }

    /// The time of the log, `2026-11-21T06:00:00.123Z`, moved by milliseconds. Only the time within the day is moved: a
    /// task over midnight keeps its start.
    private static func time(_ text: String, plus milliseconds: Double) -> String {
        let bytes = Array(text.utf8)
        guard milliseconds >= 1, bytes.count == 24 else { return text }
        func number(_ range: Range<Int>) -> Int {
            bytes[range].reduce(0) { $0 * 10 + Int($1) - 48 }
        }
        let parts = [number(11..<13), number(14..<16), number(17..<19)]
        let sum = ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1000 + number(20..<23) + Int(milliseconds)
        guard sum < 86_400_000 else { return text }
        func padded(_ value: Int, _ width: Int) -> String {
            String(repeating: "0", count: width - "\(value)".utf8.count) + "\(value)"
        }
        return text.prefix(11) + padded(sum / 3_600_000, 2) + ":" + padded(sum / 60_000 % 60, 2) + ":"
            + padded(sum / 1000 % 60, 2) + "." + padded(sum % 1000, 3) + "Z"
    }
}

/// Numbers with at most three decimals: differences of such numbers have others by rounding.
private enum Decimal3 {
    static func text(_ value: Double) -> String {
        let thousandths = Int((value * 1000).rounded())
        guard thousandths % 1000 != 0 else { return "\(thousandths / 1000)" }
        return "\(Double(thousandths) / 1000)"
    }
}
