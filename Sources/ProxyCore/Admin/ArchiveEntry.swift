import HTTPCore
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
        let timings = ArchiveTimings(transaction, duration: task.number("duration") ?? 0)
        var entry = JSONLine()
        entry.add("startedDateTime", time(task.text("time") ?? "", plus: start))
        entry.add("time", number: Decimal3.text(timings.total))
        entry.add("request", request(task, transaction, url: url, version: version))
        entry.add("response", response(task, transaction, next: next, version: version, isLast: isLast))
        entry.add("cache", JSONLine())
        entry.add("timings", timings.json)
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

/// The phases of an entry, in milliseconds; -1 for those that did not happen.
private struct ArchiveTimings {
    private var blocked = -1.0
    private var lookup = -1.0
    /// With the TLS handshake.
    private var connect = -1.0
    private var handshake = -1.0
    private var send = 0.0
    private var wait = 0.0
    private var receive = 0.0

    /// - Parameter duration: of the task; for a task without a request to an origin, all of it is waiting.
    init(_ transaction: LineMembers?, duration: Double) {
        guard let transaction else {
            wait = duration
            return
        }
        func span(_ start: String, _ end: String) -> Double? {
            guard let start = transaction.number(start), let end = transaction.number(end) else { return nil }
            return max(0, end - start)
        }
        let start = transaction.number("fetchStart") ?? 0
        let firsts = ["domainLookupStart", "connectStart", "requestStart"].compactMap { transaction.number($0) }
        guard let first = firsts.first else {
            wait = duration
            return
        }
        blocked = max(0, first - start)
        lookup = span("domainLookupStart", "domainLookupEnd") ?? -1
        // A refused server has no end of the connection; the handshake's end is the refusal.
        connect = span("connectStart", "connectEnd") ?? span("connectStart", "secureConnectionEnd") ?? -1
        handshake = span("secureConnectionStart", "secureConnectionEnd") ?? -1
        send = span("requestStart", "requestEnd") ?? 0
        wait = span("requestEnd", "responseStart") ?? span("requestStart", "responseStart") ?? 0
        receive = span("responseStart", "responseEnd") ?? 0
    }

    /// `connect` has the handshake in it.
    var total: Double { [blocked, lookup, connect, send, wait, receive].reduce(0) { $0 + max(0, $1) } }

    var json: JSONLine {
        var line = JSONLine()
        for (name, value) in [
            ("blocked", blocked), ("dns", lookup), ("connect", connect), ("ssl", handshake), ("send", send),
            ("wait", wait), ("receive", receive),
        ] {
            line.add(name, number: Decimal3.text(value))
        }
        return line
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
