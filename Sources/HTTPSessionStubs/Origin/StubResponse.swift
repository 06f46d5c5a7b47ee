// SPDX-License-Identifier: Apache-2.0
import HTTPCore
public import HTTPSessionCore
public import SessionCore

/// The response of a `StubOrigin`.
public struct StubResponse: Sendable {
    /// 200 to 599; another status fails the request with `response_invalid`.
    public var status: Int
    /// The headers. `Content-Length` is added where the body's length is known; a wrong one of your own does what it does on a
    /// connection: a body that is shorter is `response_truncated`. `Transfer-Encoding` and `Connection` are the stub's own.
    public var headers: HTTPHeaders
    /// The body: bytes, or a source that is read as fast as the consumer takes them (`.source(.sequence(…))`,
    /// `.source(.file(path))`).
    public var body: RequestBody
    /// Sent behind a body whose length is not known beforehand.
    public var trailers: HTTPHeaders = [:]
    /// The time from the end of the request to the head.
    public var delay = Duration.zero
    private(set) var cut: (count: Int, error: SessionError)?

    /// A response from its parts.
    public init(status: Int = 200, headers: HTTPHeaders = [:], body: RequestBody = .none) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Bytes with a content type; by default an `application/octet-stream`.
    public static func bytes(
        _ bytes: [UInt8],
        status: Int = 200,
        contentType: String = "application/octet-stream"
    ) -> StubResponse {
        StubResponse(status: status, body: .bytes(bytes)).adding("Content-Type", contentType)
    }

    /// Text in UTF-8.
    public static func text(
        _ text: String,
        status: Int = 200,
        contentType: String = "text/plain; charset=utf-8"
    ) -> StubResponse {
        bytes(Array(text.utf8), status: status, contentType: contentType)
    }

    /// JSON of an `Encodable` value: of a type of your own, a literal (`JSONValue`), an array.
    ///
    /// - Throws: `requestInvalid` when the value cannot be encoded.
    public static func json(
        _ value: some Encodable,
        status: Int = 200,
        encoder: ParameterValueEncoder = ParameterValueEncoder()
    ) throws(SessionError) -> StubResponse {
        let written: [UInt8]
        do {
            written = try JSONValue(try encoder.encode(value)).serialized()
        } catch {
            throw SessionError(.requestInvalid, "The stub's JSON cannot be written: \(error).")
        }
        return bytes(written, status: status, contentType: "application/json")
    }

    /// The contents of a file.
    ///
    /// - Throws: `requestInvalid` when it cannot be read.
    public static func file(
        _ path: String,
        contentType: String = "application/octet-stream"
    ) throws(SessionError) -> StubResponse {
        StubResponse(body: .source(try .file(path))).adding("Content-Type", contentType)
    }

    /// A status without a body.
    public static func status(_ status: Int) -> StubResponse { StubResponse(status: status) }

    /// A redirect; `location` is written as it is.
    public static func redirect(to location: String, status: Int = 302) -> StubResponse {
        StubResponse(status: status).adding("Location", location)
    }

    /// Bytes with a strong entity tag, or the part of them that the request asks for (RFC 9110, section 14): for downloads that
    /// are resumed. Of ranges only `bytes=N-` is known; another one gets the whole.
    public static func resumable(
        _ bytes: [UInt8],
        to request: StubRequest,
        entityTag: String = "\"1\""
    ) -> StubResponse {
        var response = StubResponse.bytes(bytes).adding("ETag", entityTag).adding("Accept-Ranges", "bytes")
        guard let range = request.value(for: "Range"), range.hasPrefix("bytes="), range.hasSuffix("-"),
            let start = Int(range.dropFirst(6).dropLast()), request.value(for: "If-Range") ?? entityTag == entityTag
        else { return response }
        guard start >= 0, start < bytes.count else {
            return StubResponse.status(416).adding("Content-Range", "bytes */\(bytes.count)")
        }
        response.status = 206
        response.body = .bytes(Array(bytes[start...]))
        return response.adding("Content-Range", "bytes \(start)-\(bytes.count - 1)/\(bytes.count)")
    }

    /// The same with a header more. One that cannot be sent fails the request that gets the response.
    public func adding(_ name: String, _ value: String) -> StubResponse {
        var response = self
        response.headers.append(name: name, value: value)
        return response
    }

    /// The same with a `delay`.
    public func delayed(by delay: Duration) -> StubResponse {
        var response = self
        response.delay = delay
        return response
    }

    /// The same, broken off behind a number of bytes of its body.
    ///
    /// - Parameters:
    ///   - count: how many bytes of the body come before the end of the connection.
    ///   - error: `response_truncated` unless given.
    public func cut(afterBytes count: Int, error: SessionError? = nil) -> StubResponse {
        var response = self
        response.cut = (
            count,
            error ?? SessionError(.responseTruncated, "The stub has broken off its response after \(count) bytes.")
        )
        return response
    }
}
