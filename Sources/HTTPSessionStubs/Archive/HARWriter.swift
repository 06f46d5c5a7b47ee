// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore
import SessionCore

/// Writes exchanges in the form of HAR 1.2. Names that begin with an underscore are additions, which the format allows.
struct HARWriter {
    let redactor: Redactor

    func archive(of exchanges: [RecordedExchange], dropped: Int) -> JSONValue {
        let ordered = exchanges.sorted { start($0) < start($1) }
        var log: OrderedMembers<JSONValue> = [
            "version": "1.2",
            "creator": ["name": "pinproxy HTTPSession", "version": "0.1.0"],
            // Some readers need the list, although it may be left out.
            "pages": [],
            "entries": .array(ordered.map(entry)),
        ]
        if dropped > 0 { log["comment"] = .string("\(dropped) earlier exchanges gave way to these.") }
        return .object(["log": .object(log)])
    }

    /// Microseconds since 1970.
    private func start(_ exchange: RecordedExchange) -> Int64 {
        exchange.metrics.fetchStart + max(0, exchange.metrics.transaction.fetchStart)
    }

    private func entry(_ exchange: RecordedExchange) -> JSONValue {
        let transaction = exchange.metrics.transaction
        let timings = ArchiveTimings(transaction)
        var entry: OrderedMembers<JSONValue> = [
            "startedDateTime": .string(Self.date(start(exchange))),
            "time": Self.number(timings.total),
            "request": request(exchange, transaction),
            "response": response(exchange, transaction),
            "cache": [:],
        ]
        var phases = OrderedMembers<JSONValue>()
        for (name, milliseconds) in timings.phases { phases[name] = Self.number(milliseconds) }
        entry["timings"] = .object(phases)
        if let connection = transaction.connection {
            entry["serverIPAddress"] = .string(Self.address(connection.remoteAddressText))
            entry["connection"] = .string("\(connection.identifier)")
        }
        if transaction.resourceFetchType == .localCache { entry["_fromCache"] = "memory" }
        if let error = exchange.error {
            entry["_error"] = .string(error.code.rawValue)
            entry["_errorDetails"] = .string(redactor.redacted(error.details))
        }
        return .object(entry)
    }

    // MARK: Request

    private func request(_ exchange: RecordedExchange, _ transaction: TransactionMetrics) -> JSONValue {
        let url = redactor.redacted(exchange.url.text)
        var request: OrderedMembers<JSONValue> = [
            "method": .string(exchange.method.description),
            "url": .string(url),
            "httpVersion": Self.version(transaction),
            "cookies": .array(cookies(exchange.fields.values(for: "Cookie"), field: "Cookie")),
            "headers": fields(exchange.fields),
            "queryString": Self.query(of: url),
            "headersSize": Self.size(transaction.requestHeaderBytesSent),
            "bodySize": .number(JSONNumber(exchange.sent.count)),
        ]
        if exchange.sent.count > 0 {
            let type = exchange.fields.value(for: "Content-Type") ?? "application/octet-stream"
            var data: OrderedMembers<JSONValue> = ["mimeType": .string(type), "params": []]
            if exchange.sent.isKept {
                let (text, isBase64) = written(exchange.sent.bytes, type)
                data["text"] = .string(text)
                if isBase64 { data["_encoding"] = "base64" }
            } else {
                data["text"] = ""
                data["comment"] = .string(tooLong(exchange.sent))
            }
            request["postData"] = .object(data)
        }
        return .object(request)
    }

    /// A query in its parts, percent-encoded as they were sent.
    private static func query(of url: String) -> JSONValue {
        let rest = url.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).dropFirst().first ?? ""
        return .array(
            rest.split(separator: "&").map { part in
                let parts = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                return ["name": .string(String(parts[0])), "value": .string(String(parts.dropFirst().first ?? ""))]
            }
        )
    }

    // MARK: Response

    private func response(_ exchange: RecordedExchange, _ transaction: TransactionMetrics) -> JSONValue {
        guard let head = exchange.response else {
            return [
                "status": 0, "statusText": "", "httpVersion": Self.version(transaction), "cookies": [], "headers": [],
                "content": ["size": 0, "mimeType": "x-unknown"], "redirectURL": "", "headersSize": -1, "bodySize": -1,
            ]
        }
        return [
            "status": .number(JSONNumber(head.status)),
            "statusText": "",
            "httpVersion": Self.version(transaction),
            "cookies": .array(cookies(head.fields.values(for: "Set-Cookie"), field: "Set-Cookie")),
            "headers": fields(head.fields),
            "content": content(exchange, head),
            "redirectURL": .string(redactor.redacted(head.fields.value(for: "Location") ?? "")),
            "headersSize": Self.size(transaction.responseHeaderBytesReceived),
            "bodySize": .number(JSONNumber(exchange.received.count)),
        ]
    }

    private func content(_ exchange: RecordedExchange, _ head: ResponseHead) -> JSONValue {
        let type = head.fields.value(for: "Content-Type") ?? "x-unknown"
        let body = exchange.received
        var content: OrderedMembers<JSONValue> = ["size": .number(JSONNumber(body.count)), "mimeType": .string(type)]
        guard body.isKept else {
            content["comment"] = .string(tooLong(body))
            return .object(content)
        }
        var bytes = body.bytes
        let isCoded = head.fields.contains(.contentEncoding) && !bytes.isEmpty
        if isCoded,
            let decoded = DecodedContent.decode(bytes, head.fields, limit: body.limit.multipliedSaturated(by: 8))
        {
            content["size"] = .number(JSONNumber(decoded.count))
            content["compression"] = .number(JSONNumber(decoded.count - bytes.count))
            bytes = decoded
        } else if isCoded {
            content["_isEncoded"] = true
            content["comment"] = "The bytes are in the Content-Encoding of the response."
        }
        let isStillCoded = content["_isEncoded"] != nil
        let (text, isBase64) = isStillCoded ? (Base64.encode(bytes), true) : written(bytes, type)
        content["text"] = .string(text)
        if isBase64 { content["encoding"] = "base64" }
        return .object(content)
    }

    // MARK: Parts of both

    private func fields(_ fields: HeaderFields) -> JSONValue {
        .array(
            fields.list.filter { !redactor.drops(field: $0.name) }
                .map { ["name": .string($0.name), "value": .string(redactor.redacted($0.value))] }
        )
    }

    /// The cookies of `Cookie`, or those of `Set-Cookie`.
    private func cookies(_ values: [String], field: String) -> [JSONValue] {
        guard !redactor.drops(field: field) else { return [] }
        let pairs = values.flatMap { value in
            field == "Cookie" ? value.split(separator: ";") : Array(value.split(separator: ";", maxSplits: 1).prefix(1))
        }
        return pairs.map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0].drop(while: { $0 == " " }))
            return ["name": .string(name), "value": .string(String(parts.dropFirst().first ?? ""))]
        }
    }

    /// A body as text, or in base64 when it is none.
    private func written(_ bytes: [UInt8], _ type: String) -> (text: String, isBase64: Bool) {
        let media = MediaType(type)
        let encoding = media?.charset.map { TextEncoding(charset: $0) } ?? .utf8
        // Text of another charset than UTF-8 would not have the same bytes again.
        guard let encoding, encoding.extendsASCII, encoding == .utf8 || bytes.allSatisfy({ $0 < 0x80 }),
            !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self), text.utf8.count == bytes.count
        else { return bytes.isEmpty ? ("", false) : (Base64.encode(bytes), true) }
        if let media, media.isJSON, let value = try? JSONValue(parsing: bytes) {
            let redacted = redactor.redacted(value)
            // The spelling of the origin, where nothing had to be left out.
            guard redacted != value else { return (text, false) }
            return (String(decoding: redacted.serialized([.withoutEscapingSlashes]), as: UTF8.self), false)
        }
        return (media?.isForm == true ? redactor.redacted(text) : text, false)
    }

    private func tooLong(_ body: RecordedBody) -> String {
        "The body is longer than the recorder's maximumBodySize of \(body.limit) bytes."
    }

    /// RFC 3339 with milliseconds.
    private static func date(_ microseconds: Int64) -> String {
        let fraction = String(microseconds / 1000 % 1000)
        let zeros = String(repeating: "0", count: max(0, 3 - fraction.utf8.count))
        return Timestamp.text(unixSeconds: microseconds / 1_000_000).dropLast() + ".\(zeros)\(fraction)Z"
    }

    private static func number(_ milliseconds: Double?) -> JSONValue {
        .number(milliseconds.flatMap { JSONNumber($0) } ?? JSONNumber(-1))
    }

    private static func size(_ count: Int64) -> JSONValue { .number(JSONNumber(count > 0 ? Int(count) : -1)) }

    private static func version(_ transaction: TransactionMetrics) -> JSONValue {
        transaction.protocolVersion == 20 ? "HTTP/2" : transaction.protocolVersion == 10 ? "HTTP/1.0" : "HTTP/1.1"
    }

    /// `192.0.2.1:443` and `[2001:db8::1]:443` without port and brackets.
    private static func address(_ text: String) -> String {
        let host = text.lastIndex(of: ":").map { text[..<$0] } ?? text[...]
        return String(host.filter { $0 != "[" && $0 != "]" })
    }
}

extension MediaType {
    var isJSON: Bool { essence == "application/json" || essence == "text/json" || essence.hasSuffix("+json") }
    var isForm: Bool { essence == "application/x-www-form-urlencoded" }
}
