import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

/// Everything besides the origin's response that decides how the response is written for the client.
struct ResponseContext {
    let route: Route
    let listener: WorkerListener
    let worker: Worker
    /// Host and port as the client wrote them in Host.
    let clientAuthority: [UInt8]
    /// The request body has been received completely; otherwise the connection cannot be reused.
    let requestIsWhole: Bool
    /// The URL that the response came from when redirects were followed: relative URLs in it are relative to this one.
    var base: AbsoluteURL?
    /// The result of the cache for Cache-Status; nil when nothing is cached.
    var cacheStatus: CacheStatus?
    /// The value of Age for a stored response. Its fields contain neither Age nor Content-Length.
    var storedAge: Int?
}

/// The response to one request as it is sent to the client: its head, the framing of its body, its end.
///
/// A value: the origin's response goes in, bytes for the client come out.
struct ClientResponse {
    private enum Framing {
        /// The body's bytes as they are: the length is known, or there is no body.
        case plain
        case chunked
        /// HTTP/1.0 with unknown length: the end of the connection ends the body.
        case untilClose
    }

    private var framing = Framing.plain
    private(set) var trailers: HTTPFields?
    private(set) var hasBegun = false
    private(set) var status = 0
    /// Whether the connection can be used for another request after this response.
    private(set) var persists = true

    /// Writes the head for the client: end-to-end fields, Via, Date, and the framing that this hop has.
    mutating func writeHead(
        _ response: borrowing ResponseHead,
        to request: borrowing RequestHead,
        context: borrowing ResponseContext,
        output: inout ByteBuffer
    ) {
        hasBegun = true
        status = response.status
        persists = request.keepAlive && context.requestIsWhole && !context.worker.isDraining
        output.appendStatusLine(response.status)
        if ResponseRewriter.isNeeded(for: response.fields, context) {
            writeFields(of: response, through: ResponseRewriter(context), to: &output)
        } else {
            response.fields.serializeEndToEnd(response.connection, omitting: Self.omitted(of: response), into: &output)
        }
        ViaField.write(of: response, pseudonym: context.worker.pseudonym, to: &output)
        if !response.fields.contains(.date) {
            output.append("Date: ")
            output.append(context.worker.httpDate)
            output.append("\r\n")
        }
        if let age = context.storedAge {
            output.append("Age: ")
            output.append(decimal: age)
            if let length = response.contentLength {
                output.append("\r\nContent-Length: ")
                output.append(decimal: length)
            }
            output.append("\r\n")
        }
        context.cacheStatus?.writeField(to: &output)
        switch response.framing {
        case .none, .length:
            framing = .plain
        case .chunked, .untilClose:
            if request.majorVersion == 2 {
                // The end of the stream is the end of the body.
                framing = .plain
            } else if request.minorVersion >= 1 {
                framing = .chunked
                output.append("Transfer-Encoding: chunked\r\n")
            } else {
                framing = .untilClose
                persists = false
            }
        }
        if !persists {
            output.append("Connection: close\r\n")
        } else if request.minorVersion == 0 {
            output.append("Connection: keep-alive\r\n")
        }
        output.append("\r\n")
    }

    /// RFC 9110, section 8.6: a 204 has no Content-Length; a client might wait for that many bytes.
    private static func omitted(of response: borrowing ResponseHead) -> FieldName? {
        response.status == 204 ? .contentLength : nil
    }

    private static func isForwarded(_ index: Int, of response: borrowing ResponseHead) -> Bool {
        if response.fields.id(at: index) == omitted(of: response) { return false }
        return !response.fields.isHopByHop(at: index, response.connection)
    }

    private func writeFields(
        of response: borrowing ResponseHead,
        through rewriter: borrowing ResponseRewriter,
        to output: inout ByteBuffer
    ) {
        for index in 0..<response.fields.count where Self.isForwarded(index, of: response) {
            let id = response.fields.id(at: index)
            if rewriter.rewrite(id, at: index, of: response.fields, to: &output) { continue }
            response.fields.serializeField(at: index, into: &output)
        }
    }

    /// Writes a 1xx head. HTTP/1.0 does not have these, so such a client gets none (rule 49).
    func writeInformational(
        _ informational: borrowing ResponseHead,
        to request: borrowing RequestHead,
        output: inout ByteBuffer,
        pseudonym: [UInt8]
    ) {
        guard request.minorVersion >= 1 else { return }
        output.appendStatusLine(informational.status)
        for index in 0..<informational.fields.count {
            if informational.fields.id(at: index) != .contentLength,
                !informational.fields.isHopByHop(at: index, informational.connection)
            {
                informational.fields.serializeField(at: index, into: &output)
            }
        }
        ViaField.write(of: informational, pseudonym: pseudonym, to: &output)
        output.append("\r\n")
    }

    /// Writes the framing that precedes a piece of the body.
    func writePieceHead(_ count: Int, output: inout ByteBuffer) {
        if case .chunked = framing { output.appendChunkHead(size: count) }
    }

    /// Writes the framing that follows a piece of the body.
    func writePieceEnd(output: inout ByteBuffer) {
        if case .chunked = framing { output.appendChunkEnd() }
    }

    mutating func addTrailers(_ fields: borrowing HTTPFields) {
        trailers = copy fields
    }

    /// Whether the end of the connection ends the body for the client: a truncated response must not end like that.
    var endsWithConnection: Bool {
        if case .untilClose = framing { return hasBegun }
        return false
    }

    /// Writes the framing that follows the body.
    func writeEnd(output: inout ByteBuffer) {
        guard case .chunked = framing else { return }
        if let trailers { output.appendLastChunk(trailers: trailers) } else { output.appendLastChunk() }
    }

    /// Writes the head of a 101 response with the fields of this hop. The bytes behind it are no longer HTTP.
    mutating func writeSwitchingProtocols(
        _ response: borrowing ResponseHead,
        context: borrowing ResponseContext,
        output: inout ByteBuffer
    ) {
        hasBegun = true
        status = response.status
        persists = false
        output.appendStatusLine(response.status)
        let rewriter = ResponseRewriter(context)
        for index in 0..<response.fields.count {
            let id = response.fields.id(at: index)
            if id == .upgrade {
                response.fields.serializeField(at: index, into: &output)
                continue
            }
            if id == .contentLength || response.fields.isHopByHop(at: index, response.connection) { continue }
            if rewriter.rewrite(id, at: index, of: response.fields, to: &output) { continue }
            response.fields.serializeField(at: index, into: &output)
        }
        ViaField.write(of: response, pseudonym: context.worker.pseudonym, to: &output)
        output.append("Connection: Upgrade\r\n\r\n")
    }

    /// Writes the response to a successful CONNECT: no framing fields, no body, and no HTTP behind it (rule 50).
    mutating func writeConnected(to output: inout ByteBuffer, date: [UInt8]) {
        hasBegun = true
        status = 200
        persists = false
        output.appendStatusLine(200)
        output.append("Date: ")
        output.append(date)
        output.append("\r\n\r\n")
    }

    /// Writes the response to OPTIONS: the methods that this proxy forwards.
    mutating func writeOptions(keepAlive: Bool, to output: inout ByteBuffer, date: [UInt8]) {
        hasBegun = true
        status = 200
        persists = keepAlive
        output.appendStatusLine(200)
        output.append("Date: ")
        output.append(date)
        output.append("\r\nAllow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\nContent-Length: 0\r\n")
        output.append(keepAlive ? "\r\n" : "Connection: close\r\n\r\n")
    }

    /// Writes the response that replaces one whose body was saved to a file.
    mutating func writeDownload(
        _ outcome: ResponseDownload.Outcome,
        keepAlive: Bool,
        to output: inout ByteBuffer,
        date: [UInt8]
    ) {
        hasBegun = true
        status = 201
        persists = keepAlive
        var body = ByteBuffer()
        body.append("{\"path\":")
        body.append(jsonString: outcome.path)
        body.append(",\"bytes\":")
        body.append(decimal: outcome.count)
        body.append(",\"sha256\":\"")
        body.append(text: outcome.digest)
        body.append("\"}\n")
        output.appendStatusLine(201)
        output.append("Date: ")
        output.append(date)
        output.append("\r\nLocation: ")
        output.append(text: outcome.url)
        output.append("\r\nContent-Type: application/json\r\nContent-Length: ")
        output.append(decimal: body.count)
        output.append("\r\nCache-Control: no-store\r\n")
        output.append(keepAlive ? "\r\n" : "Connection: close\r\n\r\n")
        output.append(body.bytes)
    }

    /// Writes an error response of the proxy's own.
    mutating func writeError(
        _ problem: Problem,
        head: borrowing RequestHead,
        keepAlive: Bool,
        cacheStatus: CacheStatus?,
        to output: inout ByteBuffer,
        date: [UInt8]
    ) {
        hasBegun = true
        status = problem.status
        persists = keepAlive
        ErrorResponse.write(
            problem,
            to: &output,
            isHead: head.method == .head,
            isPage: problem.code != .requestInvalid && ErrorPage.isWanted(by: head.fields),
            keepAlive: keepAlive,
            cacheStatus: cacheStatus,
            date: date.span
        )
    }
}
