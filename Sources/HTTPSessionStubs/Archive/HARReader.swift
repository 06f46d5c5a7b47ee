// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSessionCore
import SessionCore

/// Reads an archive of HAR 1.2: of a `HARRecorder`, of a browser, or of another tool.
struct HARReader {
    /// The archive's name in errors.
    let name: String

    /// - Throws: `requestInvalid` for a text that is no archive, and for an exchange that cannot be replayed.
    func exchanges(_ bytes: [UInt8]) throws(SessionError) -> [ReplayedExchange] {
        let document: JSONValue
        do {
            document = try JSONValue(parsing: bytes)
        } catch {
            throw refusal("is no JSON: \(error)")
        }
        guard let entries = document["log"]?["entries"]?.array else { throw refusal("has no log.entries") }
        var exchanges: [ReplayedExchange] = []
        for (index, entry) in entries.enumerated() {
            if let exchange = try exchange(entry, "log.entries[\(index)]") { exchanges.append(exchange) }
        }
        return exchanges
    }

    private func refusal(_ what: String) -> SessionError {
        SessionError(
            .requestInvalid,
            "\(name) \(what). It has to be an HTTP Archive (HAR 1.2), as a HARRecorder or a browser's developer tools write it."
        )
    }

    /// - Returns: nil for an exchange that no session makes: of another scheme, or one that changes the protocol.
    private func exchange(_ entry: JSONValue, _ place: String) throws(SessionError) -> ReplayedExchange? {
        guard let request = entry["request"], let response = entry["response"],
            let method = request["method"]?.string.flatMap({ HTTPMethod($0) }), let text = request["url"]?.string,
            let status = response["status"]?.int
        else { throw refusal("has no request.method, request.url or response.status in \(place)") }
        guard text.hasPrefix("http:") || text.hasPrefix("https:") else { return nil }
        guard let url = AbsoluteURL(String(text.prefix { $0 != "#" })) else {
            throw refusal("has a request.url in \(place) that no request can have")
        }
        guard let reply = try reply(entry, response, status, method, place) else { return nil }
        return ReplayedExchange(
            method: method,
            url: url,
            body: try requestBody(request["postData"], place),
            isForm: MediaType(request["postData"]?["mimeType"]?.string ?? "")?.isForm == true,
            reply: reply
        )
    }

    private func requestBody(_ data: JSONValue?, _ place: String) throws(SessionError) -> [UInt8] {
        guard let data, let text = data["text"]?.string else { return [] }
        guard data["_encoding"]?.string == "base64" else { return Array(text.utf8) }
        return try decoded(text, "\(place).request.postData")
    }

    private func reply(
        _ entry: JSONValue,
        _ response: JSONValue,
        _ status: Int,
        _ method: HTTPMethod,
        _ place: String
    ) throws(SessionError) -> ReplayedExchange.Reply? {
        let code = entry["_error"]?.string.flatMap { SessionError.Code(rawValue: $0) }
        let details = entry["_errorDetails"]?.string ?? "The recording shows this failure: \(place)."
        if status == 0 { return .failure(StubFailure(code ?? .connectFailed, details: details)) }
        guard (200...599).contains(status) else { return nil }
        let content = response["content"]
        let isStillCoded = content?["_isEncoded"]?.bool == true
        var fields = HeaderFields()
        for field in response["headers"]?.array ?? [] {
            guard let name = field["name"]?.string, let value = field["value"]?.string else { continue }
            guard Self.isReplayed(name, isStillCoded: isStillCoded, method) else { continue }
            // Browsers join fields of one name with line feeds.
            for line in value.split(separator: "\n", omittingEmptySubsequences: false) {
                do throws(HTTPFieldFault) {
                    try fields.append(name: name, value: Self.trimmed(line))
                } catch {
                    throw refusal("has a response in \(place) that cannot be sent: \(error)")
                }
            }
        }
        guard
            let body = try content.map({ content throws(SessionError) in
                try responseBody(content, fields, "\(place).response.content")
            }) ?? .some([])
        else {
            return .missingBody(place)
        }
        let made = StubResponse(status: status, headers: HTTPHeaders(fields), body: .bytes(body))
        guard let code else { return .response(made) }
        return .response(made.cut(afterBytes: body.count, error: SessionError(code, details)))
    }

    /// - Returns: nil when the archive does not have the body.
    private func responseBody(
        _ content: JSONValue,
        _ fields: HeaderFields,
        _ place: String
    ) throws(SessionError) -> [UInt8]? {
        guard let text = content["text"]?.string else { return (content["size"]?.int ?? 0) <= 0 ? [] : nil }
        if content["encoding"]?.string == "base64" { return try decoded(text, place) }
        let type = fields.value(for: "Content-Type") ?? content["mimeType"]?.string ?? ""
        // The text stands in the archive as Unicode, whatever its charset was.
        let encoding = MediaType(type)?.charset.flatMap { TextEncoding(charset: $0) } ?? .utf8
        return encoding.encode(text) ?? Array(text.utf8)
    }

    private func decoded(_ text: String, _ place: String) throws(SessionError) -> [UInt8] {
        if text.isEmpty { return [] }
        guard let bytes = Base64.decode(Array(text.utf8)) else { throw refusal("has no base64 in \(place)") }
        return bytes
    }

    private static func trimmed(_ value: Substring) -> String {
        let blank: (Character) -> Bool = { $0 == " " || $0 == "\t" || $0 == "\r" }
        let rest = value.drop(while: blank)
        let end = rest.lastIndex { !blank($0) }.map { rest.index(after: $0) } ?? rest.startIndex
        return String(rest[..<end])
    }

    /// The body is there without codings, and the stub frames it; pseudo-header fields are those of HTTP/2.
    private static func isReplayed(_ name: String, isStillCoded: Bool, _ method: HTTPMethod) -> Bool {
        switch name.lowercased() {
        case "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade": false
        case "content-length": method == .head
        case "content-encoding": isStillCoded
        default: !name.hasPrefix(":")
        }
    }
}
