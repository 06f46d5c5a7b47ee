// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// Everything besides the origin's response that decides how the response is written for the client.
struct ResponseContext {
    /// The proxy's own name in Via.
    let pseudonym: [UInt8]
    /// Whether the response gets a Via.
    var addsVia = true
    /// The value of Date for a response without one; nil for others.
    let date: [UInt8]?
    /// Whether the client's connection may be used again: the request body has been received completely, and the proxy is
    /// not about to end.
    let mayPersist: Bool
    /// Changes fields; nil when none of them has to be changed.
    var rewriter: ResponseRewriter?
    /// The result of the cache for Cache-Status; nil when nothing is cached.
    var cacheStatus: CacheStatus?
    /// The value of Age for a stored response. Its fields contain neither Age nor Content-Length.
    var storedAge: Int?
}

/// The response to one request as it is sent to the client: its head, the framing of its body, its end.
///
/// A value: the origin's response goes in, bytes or fields for the client come out.
struct ClientResponse {
    /// The decisions about a response that belong to the client's connection.
    struct Form {
        fileprivate enum Framing {
            /// The body's bytes as they are: the length is known, the end of the stream is the end, or there is no body.
            case plain
            case chunked
            /// HTTP/1.0 with unknown length: the end of the connection ends the body.
            case untilClose
        }

        fileprivate var framing = Framing.plain
        /// Whether the connection can be used for another request after this response.
        fileprivate(set) var persists = true
    }

    private(set) var form = Form()
    private(set) var trailers: HeaderFields?
    private(set) var hasBegun = false
    private(set) var status = 0

    var persists: Bool { form.persists }

    /// Begins with the head of the origin's response, which `writeHead` writes.
    mutating func begin(
        _ response: borrowing ResponseHead,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext
    ) {
        hasBegun = true
        status = response.status
        form.persists = request.keepAlive && context.mayPersist
        switch response.framing {
        case .none, .length: form.framing = .plain
        case .chunked, .untilClose:
            if request.majorVersion == 2 {
                form.framing = .plain
            } else if request.minorVersion >= 1 {
                form.framing = .chunked
            } else {
                form.framing = .untilClose
                form.persists = false
            }
        }
    }

    /// Begins with a response of the proxy's own.
    mutating func begin(_ own: borrowing OwnResponse) {
        hasBegun = true
        status = own.status
        form = Form()
        form.persists = own.keepAlive
    }

    /// Writes the head for the client: end-to-end fields, Via, Date, and the framing that this hop has.
    static func writeHead<Output: HeadOutput & ~Copyable>(
        _ response: borrowing ResponseHead,
        _ form: Form,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext,
        output: inout Output
    ) {
        output.begin(status: response.status)
        if let rewriter = context.rewriter {
            writeFields(of: response, omitting: omitted(of: response), through: rewriter, to: &output)
        } else {
            output.appendEndToEnd(response.fields, response.connection, omitting: omitted(of: response))
        }
        if context.addsVia {
            output.append("Via") { ViaField.write(of: response, pseudonym: context.pseudonym, to: &$0) }
        }
        if let date = context.date { output.append("Date", date) }
        if let age = context.storedAge {
            output.append("Age", decimal: age)
            if let length = response.contentLength { output.append("Content-Length", decimal: length) }
        }
        if let status = context.cacheStatus { output.append("Cache-Status") { status.serialize(into: &$0) } }
        if case .chunked = form.framing { output.append(hop: "Transfer-Encoding: chunked") }
        if !form.persists {
            output.append(hop: "Connection: close")
        } else if request.minorVersion == 0 {
            output.append(hop: "Connection: keep-alive")
        }
        output.end()
    }

    /// RFC 9110, section 8.6: a 204 has no Content-Length; a client might wait for that many bytes.
    private static func omitted(of response: borrowing ResponseHead) -> FieldName? {
        response.status == 204 ? .contentLength : nil
    }

    private static func writeFields<Output: HeadOutput & ~Copyable>(
        of response: borrowing ResponseHead,
        omitting omitted: FieldName?,
        through rewriter: ResponseRewriter,
        to output: inout Output
    ) {
        for index in 0..<response.fields.count {
            let id = response.fields.id(at: index)
            if id == omitted || response.fields.isHopByHop(at: index, response.connection) { continue }
            if rewriter.rewrite(id, at: index, of: response.fields, to: &output) { continue }
            output.append(response.fields, at: index)
        }
    }

    /// Writes a 1xx head.
    static func writeInformational<Output: HeadOutput & ~Copyable>(
        _ informational: borrowing ResponseHead,
        context: borrowing ResponseContext,
        output: inout Output
    ) {
        output.begin(status: informational.status)
        // The links of 103 lead somewhere, too.
        if let rewriter = context.rewriter {
            writeFields(of: informational, omitting: .contentLength, through: rewriter, to: &output)
        } else {
            output.appendEndToEnd(informational.fields, informational.connection, omitting: .contentLength)
        }
        if context.addsVia {
            output.append("Via") { ViaField.write(of: informational, pseudonym: context.pseudonym, to: &$0) }
        }
        output.end()
    }

    /// Whether each piece of the body has framing of its own.
    var isChunked: Bool {
        if case .chunked = form.framing { true } else { false }
    }

    /// Writes the framing that precedes a piece of the body.
    func writePieceHead(_ count: Int, output: inout ByteBuffer) {
        if isChunked { output.appendChunkHead(size: count) }
    }

    /// Writes the framing that follows a piece of the body.
    func writePieceEnd(output: inout ByteBuffer) {
        if isChunked { output.appendChunkEnd() }
    }

    mutating func addTrailers(_ fields: borrowing HeaderFields) {
        trailers = copy fields
    }

    /// Whether the end of the connection ends the body for the client: a truncated response must not end like that.
    var endsWithConnection: Bool {
        if case .untilClose = form.framing { return hasBegun }
        return false
    }

    /// Writes the framing that follows the body.
    func writeEnd(output: inout ByteBuffer) {
        guard isChunked else { return }
        if let trailers { output.appendLastChunk(trailers: trailers) } else { output.appendLastChunk() }
    }

    // MARK: Responses that end HTTP/1.1 on the connection

    /// Writes the head of a 101 response with the fields of this hop. The bytes behind it are no longer HTTP.
    mutating func writeSwitchingProtocols(
        _ response: borrowing ResponseHead,
        context: borrowing ResponseContext,
        output: inout ByteBuffer
    ) {
        hasBegun = true
        status = response.status
        form.persists = false
        output.begin(status: response.status)
        for index in 0..<response.fields.count {
            let id = response.fields.id(at: index)
            if id != .upgrade {
                if id == .contentLength || response.fields.isHopByHop(at: index, response.connection) { continue }
                if context.rewriter?.rewrite(id, at: index, of: response.fields, to: &output) == true { continue }
            }
            output.append(response.fields, at: index)
        }
        if context.addsVia {
            output.append("Via") { ViaField.write(of: response, pseudonym: context.pseudonym, to: &$0) }
        }
        output.append(hop: "Connection: Upgrade")
        output.end()
    }

    /// Writes the response to a successful CONNECT: no framing fields, no body, and no HTTP behind it (rule 50).
    mutating func writeConnected(to output: inout ByteBuffer, date: [UInt8], _ identity: RequestIdentity? = nil) {
        hasBegun = true
        status = 200
        form.persists = false
        output.begin(status: 200)
        output.append("Date", date)
        identity?.write(to: &output)
        output.end()
    }
}
