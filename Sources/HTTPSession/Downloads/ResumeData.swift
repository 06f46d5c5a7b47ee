import HTTPCore
import IOCore
package import SessionCore

/// What is needed to go on with a download that broke off, in this process or another: which request, how much of the
/// answer there is, and by what the origin will know whether it is still the same (RFC 9110, section 13.1.5).
///
/// Text, a line each. Credentials are not in it: `Authorization`, `Cookie` and the like have to be given anew. The file
/// is told by its name in the session's folder, so that no resume data can make a session write elsewhere.
package struct ResumeData: Equatable, Sendable {
    var url: String
    var fields: HTTPFields
    /// The name of the partial file in `Configuration.temporaryFolder`.
    package var fileName: String
    var received: Int
    /// For `If-Range`: a strong entity tag, or a date.
    var validator: String
    /// Of the whole; nil when it was not known.
    var total: Int?

    static let filePrefix = "pinproxy-download-"
    private static let firstLine = "pinproxy resume data 1"
    private static let sizeLimit = 1 << 20

    init(url: String, fields: HTTPFields, fileName: String, received: Int, validator: String, total: Int?) {
        self.url = url
        self.fields = fields
        self.fields.removeAll { fields, index in
            switch fields.id(at: index) {
            case .authorization, .proxyAuthorization, .cookie, .range, .ifRange: true
            default: false
            }
        }
        self.fileName = fileName
        self.received = received
        self.validator = validator
        self.total = total
    }

    package var bytes: [UInt8] {
        var lines = [
            Self.firstLine, "url: \(url)", "file: \(fileName)", "received: \(received)", "validator: \(validator)",
        ]
        if let total { lines.append("total: \(total)") }
        for (name, value) in fields.list { lines.append("field: \(name): \(value)") }
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    /// - Throws: `requestInvalid` for what no session has made, or not all of it.
    package init(_ bytes: [UInt8]) throws(SessionError) {
        guard bytes.count <= Self.sizeLimit, bytes.last == UInt8(ascii: "\n"),
            let text = String(validating: bytes, as: UTF8.self)
        else { throw Self.unreadable }
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        guard lines.popFirst().map(String.init) == Self.firstLine else { throw Self.unreadable }
        var values: [String: String] = [:]
        var fields = HTTPFields()
        for line in lines {
            guard let (key, value) = Self.pair(line) else { throw Self.unreadable }
            if key == "field" {
                guard let (name, content) = Self.pair(value[...]),
                    (try? fields.append(name: name, value: content)) != nil
                else { throw Self.unreadable }
            } else {
                guard values.updateValue(value, forKey: key) == nil else { throw Self.unreadable }
            }
        }
        let known: Set = ["url", "file", "received", "validator", "total"]
        guard Set(values.keys).isSubset(of: known), let url = values["url"], let file = values["file"],
            let received = values["received"].flatMap({ Int($0) }), received > 0,
            let validator = values["validator"], !validator.isEmpty,
            file.hasPrefix(Self.filePrefix), file.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else { throw Self.unreadable }
        let total = values["total"].map { Int($0) }
        if let total { guard let total, total >= received else { throw Self.unreadable } }
        self.init(
            url: url,
            fields: fields,
            fileName: file,
            received: received,
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
        SessionError(.requestInvalid, "This is no resume data of a session, or not all of it. Begin the download anew.")
    }

    /// The request for the rest.
    func request(_ fields: HTTPFields) throws(SessionError) -> HTTPRequest {
        var all = fields
        all.appendMissing(of: self.fields)
        try all.setForRequest("Range", "bytes=\(received)-")
        try all.setForRequest("If-Range", validator)
        return HTTPRequest(url: url, fields: all)
    }

    // MARK: Making it

    /// What `If-Range` may be sent with: a strong entity tag; else a date that is old enough to be one (RFC 9110,
    /// section 8.8.2.2). Nil: the rest of this answer cannot be asked for.
    static func validator(of head: borrowing ResponseHead) -> String? {
        let fields = head.fields
        if let index = fields.first(.etag) {
            let tag = String(copying: fields.value(at: index))
            return fields.next(.etag, after: index) == nil && tag.count >= 2 && tag.hasPrefix("\"")
                && tag.hasSuffix("\"")
                ? tag : nil
        }
        let now = Int(Clock.realtime / 1_000_000)
        guard let index = fields.first(.lastModified), let date = fields.first(.date),
            let modified = HTTPDate.parse(fields.value(at: index), now: now),
            let answered = HTTPDate.parse(fields.value(at: date), now: now),
            answered - modified >= 60
        else { return nil }
        return String(copying: fields.value(at: index))
    }

    // MARK: The answer

    enum Decision: Equatable {
        /// The rest follows.
        case resume(total: Int?)
        /// The whole follows, because it is another by now, or the origin knows no ranges.
        case startOver
        /// What follows is not the rest of what was begun: ask for the whole.
        case askForTheWhole
        case fail(String)
    }

    /// What the answer to `request` means. Where there is any doubt whether the part belongs to what is there, the
    /// whole is asked for.
    func decision(on head: borrowing ResponseHead) -> Decision {
        switch head.status {
        case 200: return .startOver
        case 416: return .askForTheWhole
        case 206: return isRest(head.fields, head.framing).map { .resume(total: $0) } ?? .askForTheWhole
        default: return .fail("The origin answered \(head.status) to the request for the rest of the download.")
        }
    }

    /// - Returns: the length of the whole; nil when the part is not the rest of what was begun.
    private func isRest(_ fields: borrowing HTTPFields, _ framing: BodyFraming) -> Int? {
        guard let index = fields.first(.contentRange), fields.next(.contentRange, after: index) == nil,
            let range = ContentRange(fields.value(at: index)), range.first == received
        else { return nil }
        if let whole = range.total, range.last != whole - 1 { return nil }
        if let total {
            guard range.last == total - 1, range.total == nil || range.total == total else { return nil }
        }
        if case .length(let count) = framing, count != range.last - range.first + 1 { return nil }
        let own = validator.hasPrefix("\"") ? fields.first(.etag) : fields.first(.lastModified)
        if let own, !fields.value(at: own).equals(Array(validator.utf8).span) { return nil }
        return range.total ?? total ?? range.last + 1
    }
}
