/// The head of a response as it was found valid.
public struct ResponseHead: Sendable {
    /// 100 to 599.
    public internal(set) var status = 200
    public internal(set) var majorVersion: UInt8 = 1
    public internal(set) var minorVersion: UInt8 = 1
    public internal(set) var fields = HTTPFields()
    /// Of the body that follows on the wire: none for HEAD, 1xx, 204 and 304, whatever the fields say.
    package internal(set) var framing = BodyFraming.none
    /// What Content-Length says, also where no body follows (HEAD, 304).
    public internal(set) var contentLength: Int?
    package internal(set) var connection = ConnectionOptions()
    /// How many bytes the head had on the wire.
    package internal(set) var byteCount = 0

    package init() {}

    /// The head of an answer that did not come from a connection just now.
    ///
    /// - Parameters:
    ///   - fields: without those of a connection and of framing, Content-Length among them.
    ///   - contentLength: what Content-Length says; nil for none.
    ///   - hasBody: whether as many bytes follow.
    package init(status: Int, fields: HTTPFields, contentLength: Int?, hasBody: Bool) {
        self.status = status
        self.fields = fields
        self.contentLength = contentLength
        if let contentLength, hasBody { framing = .length(contentLength) }
    }

    /// Empties it for the next response and keeps the memory.
    package mutating func removeAll() {
        status = 200
        majorVersion = 1
        minorVersion = 1
        fields.removeAll(keepingCapacity: true)
        framing = .none
        contentLength = nil
        connection = ConnectionOptions()
        byteCount = 0
    }

    /// Puts other fields in the place of those that came; framing and connection stay as they were read.
    package mutating func changeFields(_ change: (inout HTTPFields) -> Void) { change(&fields) }

    /// Whether another head follows (100, 102, 103; 101 is final for HTTP).
    package var isInterim: Bool { status < 200 && status != 101 }

    /// Whether the answer to `method` has a body at all (RFC 9112 6.3, rule 50).
    static func allowsBody(status: Int, to method: HTTPMethod) -> Bool {
        if method == .head || status < 200 || status == 204 || status == 304 { return false }
        return !(method == .connect && status < 300)
    }
}
