// SPDX-License-Identifier: Apache-2.0
/// The head of a valid response.
public struct ResponseHead: Sendable {
    /// 100 to 999. What is above 599 no standard defines, and some servers send it: it counts as 5xx (RFC 9110, section 15).
    public internal(set) var status = 200
    public internal(set) var majorVersion: UInt8 = 1
    public internal(set) var minorVersion: UInt8 = 1
    public internal(set) var fields = HeaderFields()
    /// The framing of the body on the wire: none for HEAD, 1xx, 204 and 304, whatever the fields say.
    package internal(set) var framing = BodyFraming.none
    /// Whether the head is the whole message, although its framing has room for a body: its stream of HTTP/2 ended with it.
    package var isWholeMessage = false
    /// The value of Content-Length, also when no body follows (HEAD, 304).
    public internal(set) var contentLength: Int?
    package internal(set) var connection = ConnectionOptions()
    /// Whether the connection carries no further response: the head was read although it breaks a rule about where messages
    /// begin and end, and a server that is wrong there may be wrong about the next message, too.
    package internal(set) var endsConnection = false
    /// The length of the head on the wire, in bytes.
    package internal(set) var byteCount = 0

    package init() {}

    /// Makes the head of a response that does not come from a connection.
    ///
    /// - Parameters:
    ///   - fields: the fields, without those about the connection and framing, such as Content-Length.
    ///   - contentLength: the value of Content-Length; nil for none.
    ///   - hasBody: whether this number of bytes follows; without a number, a body of unknown length.
    package init(status: Int, fields: HeaderFields, contentLength: Int?, hasBody: Bool) {
        self.status = status
        self.fields = fields
        self.contentLength = contentLength
        if hasBody { framing = contentLength.map { .length($0) } ?? .chunked }
    }

    /// Resets it for the next response and keeps the memory.
    package mutating func removeAll() {
        status = 200
        majorVersion = 1
        minorVersion = 1
        fields.removeAll(keepingCapacity: true)
        framing = .none
        contentLength = nil
        endsConnection = false
        connection = ConnectionOptions()
        byteCount = 0
        isWholeMessage = false
    }

    mutating func exchangeFields(with others: inout HeaderFields) { swap(&fields, &others) }

    /// Replaces the fields; framing and connection stay as received.
    package mutating func changeFields(_ change: (inout HeaderFields) -> Void) { change(&fields) }

    /// Whether another head follows (100, 102, 103; 101 is final for HTTP).
    package var isInterim: Bool { status < 200 && status != 101 }

    /// Whether the response to `method` can have a body (RFC 9112 6.3, rule 50).
    static func allowsBody(status: Int, to method: HTTPMethod) -> Bool {
        if method == .head || status < 200 || status == 204 || status == 304 { return false }
        return !(method == .connect && status < 300)
    }
}
