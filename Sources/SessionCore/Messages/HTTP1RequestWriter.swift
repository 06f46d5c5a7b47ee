// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// A request as HTTP/1.1 writes it (RFC 9112): the head, then the body with a length or in chunks.
///
/// A value: bytes go in, bytes for the connection come out.
struct HTTP1RequestWriter {
    enum Fault: Error {
        /// The body is longer than the length in the request's head says.
        case bodyTooLong
        /// The body has ended before that length.
        case bodyTooShort
    }

    private enum Framing {
        case none
        /// The number of bytes that are missing.
        case length(Int)
        case chunked
    }

    private var framing = Framing.none
    /// The last byte of the request has been written.
    private(set) var isComplete = true

    /// Writes the request line and the fields. `Host` comes from the endpoint, the framing fields from the length of the body.
    ///
    /// - Parameter guarded: fields for this connection, whose verdict allows them.
    mutating func begin(
        _ request: borrowing SessionRequest,
        _ guarded: GuardedFields? = nil,
        into output: inout ByteBuffer
    ) {
        request.method.append(to: &output)
        output.append(UInt8(ascii: " "))
        if request.endpoint.isForwarded {
            Self.forward(request, into: &output)
        } else {
            output.append(request.target.span)
            output.append(" HTTP/1.1\r\n")
            output.append(request.endpoint.hostLine)
        }
        request.fields.serialize(into: &output)
        guarded?.fields.serialize(into: &output)
        isComplete = false
        switch request.bodyLength {
        case .none:
            framing = .none
            isComplete = true
            // Servers want a length with these even without a body, and some refuse with 411 (RFC 9110, section 8.6).
            if Self.wantsLength(request.method) { output.append("Content-Length: 0\r\n") }
        case .bytes(let count):
            framing = .length(count)
            output.append("Content-Length: ")
            output.append(decimal: count)
            output.append("\r\n")
            isComplete = count == 0
        case .unknown:
            framing = .chunked
            output.append("Transfer-Encoding: chunked\r\n")
        }
        output.append("\r\n")
    }

    /// Whether the method gives a body a meaning.
    private static func wantsLength(_ method: HTTPMethod) -> Bool {
        switch method {
        case .post, .put, .patch: true
        default: false
        }
    }

    /// Writes target and `Host` for a proxy that requests it itself, and the proxy's credentials.
    private static func forward(_ request: borrowing SessionRequest, into output: inout ByteBuffer) {
        output.append(request.endpoint.targetPrefix)
        // OPTIONS for the server as a whole (RFC 9112, section 3.2.4).
        if request.target != [UInt8(ascii: "*")] { output.append(request.target.span) }
        output.append(" HTTP/1.1\r\n")
        output.append(request.endpoint.hostLine)
        // The program's own go before those of the session.
        if request.fields.first(.proxyAuthorization) == nil {
            output.append(request.endpoint.proxyAuthorizationLine)
        }
    }

    /// Writes a piece of the body.
    mutating func append(_ bytes: borrowing Span<UInt8>, into output: inout ByteBuffer) throws(Fault) {
        guard !bytes.isEmpty else { return }
        switch framing {
        case .none:
            throw .bodyTooLong
        case .length(let missing):
            guard bytes.count <= missing else { throw .bodyTooLong }
            output.append(bytes)
            framing = .length(missing - bytes.count)
            isComplete = missing == bytes.count
        case .chunked:
            output.append(hexadecimal: bytes.count)
            output.append("\r\n")
            output.append(bytes)
            output.append("\r\n")
        }
    }

    /// Writes the end of the body.
    ///
    /// - Parameter trailers: only a body in chunks has them (RFC 9112, section 7.1.2); elsewhere they are dropped.
    mutating func end(trailers: borrowing HeaderFields, into output: inout ByteBuffer) throws(Fault) {
        guard !isComplete else { return }
        if case .length = framing { throw .bodyTooShort }
        output.append("0\r\n")
        trailers.serialize(into: &output)
        output.append("\r\n")
        isComplete = true
    }
}
