// SPDX-License-Identifier: Apache-2.0
public import HTTPCore
import IOCore
public import SessionCore

/// A `multipart/form-data` body (RFC 7578) of parts that are read while it is sent: files and sources are never
/// completely in memory.
///
/// ```swift
/// var form = MultipartFormData()
/// try form.append("Ada", name: "author")
/// try form.appendFile("/srv/report.pdf", name: "report")
/// let request = try form.request(.post, "https://api.example.com/reports")
/// ```
public struct MultipartFormData: Sendable {
    /// The separator of the parts, which must not occur in them: by default 128 random bits.
    public let boundary: String
    private var parts: [Part] = []

    private struct Part: Sendable {
        /// The bytes from the boundary's line to the empty line.
        let head: [UInt8]
        let content: RequestBody
    }

    /// A form with a random boundary.
    public init() {
        // The system's random generator is getrandom(2).
        var generator = SystemRandomNumberGenerator()
        let digits = (0..<2).map { _ in
            let word = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - word.utf8.count) + word
        }
        boundary = "SessionCore.boundary." + digits.joined()
    }

    /// A form with a given boundary, for bodies that have to be the same each time. It must not occur in any part.
    ///
    /// - Parameter boundary: 1 to 70 letters, digits and `'()+_,-./:=?` (RFC 2046, section 5.1.1).
    public init(boundary: String) throws(SessionError) {
        let marks = Array("'()+_,-./:=?".utf8)
        guard (1...70).contains(boundary.utf8.count),
            boundary.utf8.allSatisfy({ ASCII.isLetter($0) || ASCII.isDigit($0) || marks.contains($0) })
        else { throw SessionError(.requestInvalid, "A boundary is 1 to 70 letters, digits and '()+_,-./:=?.") }
        self.boundary = boundary
    }

    /// The value of Content-Type: with quotes where the boundary needs them.
    public var contentType: String {
        let isToken = boundary.utf8.allSatisfy(ASCII.isToken)
        return "multipart/form-data; boundary=" + (isToken ? boundary : "\"\(boundary)\"")
    }

    /// The number of parts.
    public var count: Int { parts.count }

    /// The length of the complete body in bytes; nil when a part's length is not known, and when the sum is no `Int` (sparse files
    /// can be as long as that).
    public var contentLength: Int? {
        guard !parts.isEmpty else { return 0 }
        var length = closing.count
        for part in parts {
            switch part.content.length {
            case .none: length = length.addingSaturated(part.head.count + 2)
            case .bytes(let count): length = length.addingSaturated(count).addingSaturated(part.head.count + 2)
            case .unknown: return nil
            }
        }
        return length < .max ? length : nil
    }

    // MARK: Parts

    /// Appends a text in UTF-8.
    public mutating func append(_ text: String, name: String) throws(SessionError) {
        try append(.bytes(Array(text.utf8)), name: name)
    }

    /// Appends any content.
    ///
    /// - Parameters:
    ///   - content: the content, read when the form is sent.
    ///   - name: the name of the form's field.
    ///   - fileName: the file name for the receiver; nil for content that is no file.
    ///   - mimeType: the Content-Type; nil for none, which means `text/plain` (RFC 7578, section 4.4).
    /// - Throws: `requestInvalid` when the type is no valid field value, or a name contains a control character other
    ///   than line breaks, which are escaped.
    public mutating func append(
        _ content: RequestBody,
        name: String,
        fileName: String? = nil,
        mimeType: String? = nil
    ) throws(SessionError) {
        var disposition = "form-data; name=\"\(try Self.escaped(name))\""
        if let fileName { disposition += "; filename=\"\(try Self.escaped(fileName))\"" }
        var headers: HTTPHeaders = ["Content-Disposition": disposition]
        if let mimeType { headers["Content-Type"] = mimeType }
        try append(content, headers: headers)
    }

    /// Appends a file's content. Its length is determined now; the content is read when it is sent.
    ///
    /// - Parameters:
    ///   - path: the path of a regular file.
    ///   - name: the name of the form's field.
    ///   - fileName: nil for the path's last component.
    ///   - mimeType: nil for the one that `MIMETypes` has for the file name's extension.
    /// - Throws: `requestInvalid` for a missing or unreadable file, and for one that is no regular file.
    public mutating func appendFile(
        _ path: String,
        name: String,
        fileName: String? = nil,
        mimeType: String? = nil
    ) throws(SessionError) {
        let fileName = fileName ?? path.split(separator: "/").last.map(String.init) ?? ""
        try append(
            .source(.file(path)),
            name: name,
            fileName: fileName,
            mimeType: mimeType ?? MIMETypes.type(ofFileNamed: fileName)
        )
    }

    /// Appends a part with the caller's own headers, with Content-Disposition among them.
    ///
    /// - Throws: `requestInvalid` for a header that cannot be sent.
    public mutating func append(_ content: RequestBody, headers: HTTPHeaders) throws(SessionError) {
        let fields = try headers.checked()
        var head = Array("--\(boundary)\r\n".utf8)
        for index in 0..<fields.count {
            head.append(fields.line(at: index))
            head += "\r\n".utf8
        }
        head += "\r\n".utf8
        parts.append(Part(head: head, content: content))
    }

    /// Escapes a name as browsers do: quotes and line breaks are percent-encoded (WHATWG HTML, "multipart/form-data
    /// encoding algorithm"), so that a name can neither end its parameter nor begin another field.
    private static func escaped(_ name: String) throws(SessionError) -> String {
        var escaped = ""
        for scalar in name.unicodeScalars {
            switch scalar {
            case "\"": escaped += "%22"
            case "\r": escaped += "%0D"
            case "\n": escaped += "%0A"
            case "\0"..."\u{1F}", "\u{7F}":
                throw SessionError(.requestInvalid, "The name of a part holds a control character.")
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    // MARK: The body

    private var closing: [UInt8] { Array("--\(boundary)--\r\n".utf8) }

    /// The body, which is read while it is sent. Without parts it is empty.
    public var body: RequestBody {
        guard !parts.isEmpty else { return .bytes([]) }
        var pieces: [RequestBody] = []
        for part in parts { pieces += [.bytes(part.head), part.content, .bytes(Array("\r\n".utf8))] }
        pieces.append(.bytes(closing))
        let whole = pieces
        return .source(BodySource(length: contentLength) { () in ConcatenatedBodyReader(whole) })
    }

    /// A request with the form as its body.
    ///
    /// - Throws: `requestInvalid` for a method that has no body.
    public func request(_ method: HTTPMethod, _ url: some URLConvertible) throws(SessionError) -> HTTPSessionRequest {
        var request = HTTPSessionRequest(url: url, method: method)
        try attach(to: &request)
        return request
    }

    func attach(to request: inout HTTPSessionRequest) throws(SessionError) {
        guard request.method != .get, request.method != .head else {
            throw SessionError(.requestInvalid, "A \(request.method) request carries no form. Use POST.")
        }
        try request.headers.setForRequest("Content-Type", contentType)
        request.body = body
    }
}
