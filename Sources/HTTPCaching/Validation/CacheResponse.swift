// SPDX-License-Identifier: Apache-2.0
public import HTTPCore

/// The response that is made from a stored one: status, fields, and the part of the body.
public struct CacheResponse: Sendable {
    /// The status for the client: that of the stored response, or 206, 304 or 416.
    public let status: Int
    /// The stored fields to send, without Age and Content-Length.
    package internal(set) var keptFields: HeaderFields
    /// The value of Age, in seconds.
    public let age: Int
    /// The bytes of the stored body to send; empty for HEAD, 304 and 416. Without an end that is known, up to `Int.max`.
    public internal(set) var body: Range<Int>
    /// The value of Content-Length; nil when none is sent (304), or when it is not known yet.
    public let contentLength: Int?

    /// The fields with Age, but without Content-Length, which is `contentLength`.
    public var fields: HeaderFields {
        var fields = keptFields
        fields.append(.age, decimal: age)
        return fields
    }

    /// The fields that a 304 omits: those about the body, except the ones that RFC 9110 15.4.5 requires.
    private static let representation: FieldNameSet = [
        .contentType, .contentEncoding, .contentLanguage, .contentRange, .contentDisposition, .acceptRanges,
    ]

    /// - Parameters:
    ///   - stored: the head of the stored response.
    ///   - length: the length of the stored body, in bytes.
    ///   - request: the request.
    ///   - age: in seconds.
    public init(_ stored: borrowing StoredResponse, length: Int, to request: borrowing CacheRequest, age: Int) {
        self.init(stored, growing: length, to: request, age: age)
    }

    /// The same of a response whose body is still being received. Without its length, a request for a part gets the
    /// whole, and there is no Content-Length.
    init(_ stored: borrowing StoredResponse, growing length: Int?, to request: borrowing CacheRequest, age: Int) {
        if ClientConditions.areMet(request.fields, by: stored) {
            var fields = HeaderFields()
            for index in 0..<stored.fields.count where !Self.representation.contains(stored.fields.id(at: index)) {
                fields.append(contentsOf: stored.fields, at: index)
            }
            self.init(status: 304, fields: fields, age: age, body: 0..<0, contentLength: nil)
            return
        }
        if request.method == .get, let length {
            switch ByteRangeRequest(request.fields, of: stored, length: length) {
            case .whole: break
            case .part(let range):
                var value = Array("bytes ".utf8)
                value.appendDecimal(range.lowerBound)
                value.append("-")
                value.appendDecimal(range.upperBound - 1)
                value.append("/")
                value.appendDecimal(length)
                var fields = stored.fields
                fields.remove(.contentRange)
                fields.removeDigestsOfContent()
                fields.append(.contentRange, value.span)
                self.init(status: 206, fields: fields, age: age, body: range, contentLength: range.count)
                return
            case .unsatisfiable:
                var value = Array("bytes */".utf8)
                value.appendDecimal(length)
                var refusal = HeaderFields()
                if let date = stored.fields.first(.date) { refusal.append(contentsOf: stored.fields, at: date) }
                refusal.append(.contentRange, value.span)
                self.init(status: 416, fields: refusal, age: age, body: 0..<0, contentLength: 0)
                return
            }
        }
        self.init(
            status: stored.status,
            fields: stored.fields,
            age: age,
            body: request.method == .head ? 0..<0 : 0..<(length ?? Int.max),
            contentLength: stored.status == 204 ? nil : length
        )
    }

    private init(status: Int, fields: HeaderFields, age: Int, body: Range<Int>, contentLength: Int?) {
        self.status = status
        keptFields = fields
        self.age = age
        self.body = body
        self.contentLength = contentLength
    }
}
