// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
package import SessionCore

/// The data to resume a download, in this process or another: the request, the length of the received part, and the
/// validator by which the origin recognises the same version (RFC 9110, section 13.1.5).
///
/// It is text with one item on each line. It contains no credentials: `Authorization`, `Cookie` and the like have to be
/// given again. It contains the name of the file, not its path, so that resume data cannot make a session write outside
/// its folder.
package struct ResumeData: Equatable, Sendable {
    var url: String
    var headers: HTTPHeaders
    /// The name of the partial file in `Configuration.temporaryFolder`.
    package var fileName: String
    var received: Int
    /// XXH64 of the received part: a file that was changed since is not completed.
    var checksum: UInt64
    /// The value of `If-Range`: a strong entity tag, or a date.
    var validator: String
    /// The length of the complete file; nil when it was not known.
    var total: Int?

    static let filePrefix = "pinproxy-download-"
    /// Version 1 had no checksum.
    private static let firstLine = "pinproxy resume data 2"
    private static let sizeLimit = 1 << 20

    init(
        url: String,
        headers: HTTPHeaders,
        fileName: String,
        received: Int,
        checksum: UInt64,
        validator: String,
        total: Int?
    ) {
        self.url = url
        self.headers = headers
        for name in ["Authorization", "Proxy-Authorization", "Cookie", "Range", "If-Range"] {
            self.headers.remove(name: name)
        }
        self.fileName = fileName
        self.received = received
        self.checksum = checksum
        self.validator = validator
        self.total = total
    }

    package var bytes: [UInt8] {
        var lines = [
            Self.firstLine, "url: \(url)", "file: \(fileName)", "received: \(received)", "checksum: \(checksum)",
            "validator: \(validator)",
        ]
        if let total { lines.append("total: \(total)") }
        for (name, value) in headers { lines.append("field: \(name): \(value)") }
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    /// - Throws: `requestInvalid` for data that no session has made, or that is incomplete.
    package init(_ bytes: [UInt8]) throws(SessionError) {
        guard bytes.count <= Self.sizeLimit, bytes.last == UInt8(ascii: "\n"),
            let text = String(validating: bytes, as: UTF8.self)
        else { throw Self.unreadable }
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        guard lines.popFirst().map(String.init) == Self.firstLine else { throw Self.unreadable }
        var values: [String: String] = [:]
        var headers = HTTPHeaders()
        for line in lines {
            guard let (key, value) = Self.pair(line) else { throw Self.unreadable }
            if key == "field" {
                guard let (name, content) = Self.pair(value[...]) else { throw Self.unreadable }
                headers.append(name: name, value: content)
            } else {
                guard values.updateValue(value, forKey: key) == nil else { throw Self.unreadable }
            }
        }
        guard (try? headers.validate()) != nil else { throw Self.unreadable }
        let known: Set = ["url", "file", "received", "checksum", "validator", "total"]
        guard Set(values.keys).isSubset(of: known), let url = values["url"], let file = values["file"],
            let received = values["received"].flatMap({ Int($0) }), received > 0,
            let checksum = values["checksum"].flatMap({ UInt64($0) }), let validator = values["validator"],
            !validator.isEmpty,
            file.hasPrefix(Self.filePrefix), file.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else { throw Self.unreadable }
        let total = values["total"].map { Int($0) }
        if let total { guard let total, total >= received else { throw Self.unreadable } }
        self.init(
            url: url,
            headers: headers,
            fileName: file,
            received: received,
            checksum: checksum,
            validator: validator,
            total: total ?? nil
        )
    }

    private static func pair(_ line: Substring) -> (String, String)? {
        guard let colon = line.firstIndex(of: ":") else { return nil }
        let value = line[line.index(after: colon)...]
        return value.first == " " ? (String(line[..<colon]), String(value.dropFirst())) : nil
    }

    private static var unreadable: SessionError {
        SessionError(.requestInvalid, "This is no complete resume data of a session. Start the download again.")
    }

    /// The request for the rest.
    func request(_ headers: HTTPHeaders) throws(SessionError) -> HTTPSessionRequest {
        var all = headers
        all.appendMissing(of: self.headers)
        try all.setForRequest("Range", "bytes=\(received)-")
        try all.setForRequest("If-Range", validator)
        return HTTPSessionRequest(url: url, headers: all)
    }

    // MARK: Making it

    /// The validator for `If-Range`: a strong entity tag; otherwise a date that is old enough (RFC 9110, section
    /// 8.8.2.2). Nil: the rest of this response cannot be requested.
    static func validator(of head: borrowing ResponseHead) -> String? {
        let fields = head.fields
        if let index = fields.first(.etag) {
            let tag = String(copying: fields.value(at: index))
            return fields.next(.etag, after: index) == nil && tag.count >= 2 && tag.hasPrefix("\"")
                && tag.hasSuffix("\"")
                ? tag : nil
        }
        let now = Int(Clock.seconds)
        guard let index = fields.first(.lastModified), let date = fields.first(.date),
            let modified = HTTPDate.parse(fields.value(at: index), now: now),
            let answered = HTTPDate.parse(fields.value(at: date), now: now),
            answered.subtractingSaturated(modified) >= 60
        else { return nil }
        return String(copying: fields.value(at: index))
    }

    // MARK: The response

    enum Decision: Equatable {
        /// The response is the rest of the file.
        case resume(total: Int)
        /// The response is the complete file, because the version is another one, or the origin does not support
        /// ranges.
        case startOver
        /// The response is not the expected rest: request the complete file.
        case askForTheWhole
        case fail(String)
    }

    /// The meaning of the response to `request`. If there is any doubt that the part belongs to the received one, the
    /// complete file is requested.
    func decision(on head: borrowing ResponseHead) -> Decision {
        switch head.status {
        case 200: return .startOver
        case 416: return .askForTheWhole
        case 206: return isRest(head.fields, head.framing).map { .resume(total: $0) } ?? .askForTheWhole
        default: return .fail("The origin answered \(head.status) to the request for the rest of the download.")
        }
    }

    /// - Returns: the length of the complete file; nil when the part is not the expected rest.
    private func isRest(_ fields: borrowing HeaderFields, _ framing: BodyFraming) -> Int? {
        guard let index = fields.first(.contentRange), fields.next(.contentRange, after: index) == nil,
            let range = ContentRange(fields.value(at: index)), range.first == received
        else { return nil }
        if let whole = range.total, range.last != whole - 1 { return nil }
        if let total {
            guard range.last == total - 1, range.total == nil || range.total == total else { return nil }
        }
        if case .length(let count) = framing, count != range.last - range.first + 1 { return nil }
        // A part bears the entity tag that the complete response would bear (RFC 9110, section 15.3.7); without it the
        // origin may not have looked at If-Range. The date may be missing.
        let name: FieldName = validator.hasPrefix("\"") ? .etag : .lastModified
        let whole = range.total ?? total ?? range.last + 1
        guard let own = fields.first(name) else { return name == .etag ? nil : whole }
        guard fields.next(name, after: own) == nil, fields.value(at: own).equals(Array(validator.utf8).span) else {
            return nil
        }
        return whole
    }
}
