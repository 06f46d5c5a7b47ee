/// The head of a request as the parser found it valid: what it asks for, of whom, and how its body is framed.
///
/// One value serves every request of a connection: its memory is kept between them. The target and the host are bytes
/// of its own storage, handed out as spans.
package struct RequestHead: ~Copyable, Sendable {
    /// The four forms of a request target (RFC 9112 3.2).
    package enum Form: UInt8, Sendable {
        /// `/path?query`
        case origin
        /// `http://host/path?query`
        case absolute
        /// `host:port`, with CONNECT
        case authority
        /// `*`, with OPTIONS
        case asterisk
    }

    package enum Scheme: UInt8, Sendable {
        case http, https

        package var defaultPort: UInt16 { self == .http ? 80 : 443 }
        package var text: StaticString { self == .http ? "http" : "https" }
    }

    package internal(set) var method = HTTPMethod.get
    package internal(set) var form = Form.origin
    /// Of an absolute-form target; nil in the other forms.
    package internal(set) var scheme: Scheme?
    /// The port as written in the target or, in origin-form, in Host; nil where none is written.
    package internal(set) var explicitPort: UInt16?
    /// 1, or 2 for a request of HTTP/2.
    package internal(set) var majorVersion: UInt8 = 1
    /// 0 or 1: what the client speaks of HTTP/1. A higher minor version counts as 1 (RFC 9110 2.5), and so does HTTP/2,
    /// whose clients know all that those of HTTP/1.1 do.
    package internal(set) var minorVersion: UInt8 = 1
    package var fields = HTTPFields()
    package internal(set) var framing = BodyFraming.none
    /// Whether the client lets the connection live on: version and Connection field.
    package internal(set) var keepAlive = true
    /// Whether it waits for 100 (Continue) before it sends its body.
    package internal(set) var expectsContinue = false
    /// Whether Upgrade is there and Connection names it (rule 52).
    package internal(set) var wantsUpgrade = false
    package internal(set) var connection = ConnectionOptions()
    /// Of the host; nil where there is none (HTTP/1.0 in origin-form without Host).
    package internal(set) var hostKind: Host.Kind?
    /// How many bytes the head had on the wire.
    package internal(set) var byteCount = 0

    /// The target as it came, then what had to be made: a path for an empty one, the host's normal form.
    var storage: [UInt8] = []
    var rawTargetRange = 0..<0
    var targetRange = 0..<0
    var hostRange = 0..<0
    /// In `storage`, for a host of the target.
    var rawHostRange = 0..<0

    package init() {}

    /// Empties it for the next request and keeps the memory.
    package mutating func removeAll() {
        method = .get
        form = .origin
        scheme = nil
        explicitPort = nil
        majorVersion = 1
        minorVersion = 1
        fields.removeAll(keepingCapacity: true)
        framing = .none
        keepAlive = true
        expectsContinue = false
        wantsUpgrade = false
        connection = ConnectionOptions()
        hostKind = nil
        byteCount = 0
        storage.removeAll(keepingCapacity: true)
        rawTargetRange = 0..<0
        targetRange = 0..<0
        hostRange = 0..<0
        rawHostRange = 0..<0
    }

    /// Empties it and gives the memory back: for a connection that goes idle.
    package mutating func release() {
        self = RequestHead()
    }

    /// Path and query as they go into a request line to the origin: at least `/`, or `*`. The authority for CONNECT.
    package var target: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(targetRange) }
    }

    /// The request target as the client wrote it.
    package var rawTarget: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(rawTargetRange) }
    }

    /// The host in its normal form, IPv6 without brackets; empty where `hostKind` is nil.
    package var hostBytes: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(hostRange) }
    }

    /// The host as the client wrote it, without the port: of the target, else of Host.
    package var rawHost: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(rawHostRange) }
    }

    /// The host as a value of its own: allocates; for lookups use `hostBytes`.
    package var host: Host? {
        guard let hostKind else { return nil }
        return Host(normalForm: Array(storage[hostRange]), kind: hostKind)
    }

    /// The port of the authority: as written, else that of the scheme; nil where neither is known (origin-form).
    package var port: UInt16? { explicitPort ?? scheme?.defaultPort }

    /// The value of Max-Forwards (RFC 9110 7.6.2), where there is exactly one and it is a number.
    package var maxForwards: Int? {
        guard let index = fields.first(.maxForwards), fields.next(.maxForwards, after: index) == nil else { return nil }
        return DecimalNumber.parse(fields.value(at: index))
    }
}
