public import HTTPCore

/// The answer that a stored response makes: status, fields, and which part of its body.
public struct CacheAnswer: Sendable {
    public let status: Int
    /// Without Content-Length, which `contentLength` is.
    public internal(set) var fields: HTTPFields
    /// The bytes of the stored body to send; empty for HEAD, 304 and 416.
    public let body: Range<Int>
    /// What Content-Length says; nil where none is sent (304).
    public let contentLength: Int?

    /// What 304 leaves out: fields of the body, beyond those that RFC 9110 15.4.5 wants.
    private static let representation: FieldNameSet = [
        .contentType, .contentEncoding, .contentLanguage, .contentRange, .contentDisposition, .acceptRanges,
    ]

    /// - Parameters:
    ///   - length: of the stored body, in bytes.
    ///   - age: in seconds.
    public init(_ stored: StoredResponse, length: Int, to request: CacheRequest, age: Int) {
        if ClientConditions.areMet(request.fields, by: stored) {
            var fields = HTTPFields()
            for index in 0..<stored.fields.count where !Self.representation.contains(stored.fields.id(at: index)) {
                fields.append(contentsOf: stored.fields, at: index)
            }
            fields.append(.age, decimal: age)
            self.init(status: 304, fields: fields, body: 0..<0, contentLength: nil)
            return
        }
        var fields = stored.fields
        if request.method == .get {
            switch ByteRangeRequest(request.fields, of: stored, length: length) {
            case .whole: break
            case .part(let range):
                var value = Array("bytes ".utf8)
                value.appendDecimal(range.lowerBound)
                value.append("-")
                value.appendDecimal(range.upperBound - 1)
                value.append("/")
                value.appendDecimal(length)
                fields.remove(.contentRange)
                fields.append(.contentRange, value.span)
                fields.append(.age, decimal: age)
                self.init(status: 206, fields: fields, body: range, contentLength: range.count)
                return
            case .unsatisfiable:
                var value = Array("bytes */".utf8)
                value.appendDecimal(length)
                var refusal = HTTPFields()
                if let date = fields.first(.date) { refusal.append(contentsOf: fields, at: date) }
                refusal.append(.contentRange, value.span)
                refusal.append(.age, decimal: age)
                self.init(status: 416, fields: refusal, body: 0..<0, contentLength: 0)
                return
            }
        }
        fields.append(.age, decimal: age)
        self.init(
            status: stored.status,
            fields: fields,
            body: request.method == .head ? 0..<0 : 0..<length,
            contentLength: stored.status == 204 ? nil : length
        )
    }

    private init(status: Int, fields: HTTPFields, body: Range<Int>, contentLength: Int?) {
        self.status = status
        self.fields = fields
        self.body = body
        self.contentLength = contentLength
    }
}
