// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The head of a valid request: method, target, host, fields, and the framing of its body.
///
/// One value is reused for every request of a connection, with its memory. Target and host are spans of its own
/// storage.
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
    /// The scheme of a target in absolute-form; nil in the other forms.
    package internal(set) var scheme: Scheme?
    /// The port in the target or, in origin-form, in Host; nil without one.
    package internal(set) var explicitPort: UInt16?
    /// 1, or 2 for a request of HTTP/2.
    package internal(set) var majorVersion: UInt8 = 1
    /// The minor version of HTTP/1, 0 or 1. A higher minor version counts as 1 (RFC 9110 2.5), and so does HTTP/2,
    /// whose clients support all features of HTTP/1.1.
    package internal(set) var minorVersion: UInt8 = 1
    package var fields = HeaderFields()
    package internal(set) var framing = BodyFraming.none
    /// Whether the client keeps the connection open, by version and Connection field.
    package internal(set) var keepAlive = true
    /// Whether it waits for 100 (Continue) before it sends its body.
    package internal(set) var expectsContinue = false
    /// Whether there is an Upgrade that Connection names (rule 52).
    package internal(set) var wantsUpgrade = false
    package internal(set) var connection = ConnectionOptions()
    /// The kind of the host; nil without a host (HTTP/1.0 in origin-form without Host).
    package internal(set) var hostKind: Host.Kind?
    /// The length of the head on the wire, in bytes.
    package internal(set) var byteCount = 0

    /// The received target, then derived bytes: a path instead of an empty one, and the host's normal form.
    var storage: [UInt8] = []
    var rawTargetRange = 0..<0
    var targetRange = 0..<0
    var hostRange = 0..<0
    /// The range of the target's host in `storage`.
    var rawHostRange = 0..<0
    /// The same with its port, of a target in absolute-form.
    var rawAuthorityRange = 0..<0
    /// The range of the value of Authorization that the target's user information makes; empty without it.
    var credentialsRange = 0..<0
    /// The scheme was ws or wss, which goes with an Upgrade only (rule 16).
    var isWebSocketURL = false
    /// The authority of a target before, which the next one often has again.
    var knownAuthority = KnownAuthority()
    private let inPlace = InPlace()

    package init() {}

    /// Resets it for the next request and keeps the memory.
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
        rawAuthorityRange = 0..<0
        credentialsRange = 0..<0
        isWebSocketURL = false
    }

    /// Resets it and frees the memory: for a connection that goes idle.
    package mutating func release() {
        self = RequestHead()
    }

    /// Path and query for a request line to the origin: at least `/`, or `*`; for CONNECT the authority.
    package var target: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(targetRange) }
    }

    package func copyOfTarget() -> [UInt8] { Array(copying: target) }

    /// The request target as the client wrote it, without user information and fragment.
    package var rawTarget: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(rawTargetRange) }
    }

    /// The host in its normal form, IPv6 without brackets; empty where `hostKind` is nil.
    package var hostBytes: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(hostRange) }
    }

    /// The host as the client wrote it, without the port, from the target or otherwise from Host.
    package var rawHost: Span<UInt8> {
        @_lifetime(borrow self) borrowing get { storage.span.extracting(rawHostRange) }
    }

    /// The host as a value, which allocates; for lookups use `hostBytes`.
    package var host: Host? {
        guard let hostKind else { return nil }
        return Host(normalForm: Array(storage[hostRange]), kind: hostKind)
    }

    /// The port of the authority, otherwise the default of the scheme; nil when neither is known (origin-form).
    package var port: UInt16? { explicitPort ?? scheme?.defaultPort }

    /// The value of Max-Forwards (RFC 9110 7.6.2), if there is exactly one and it is a number.
    package var maxForwards: Int? {
        guard let index = fields.first(.maxForwards), fields.next(.maxForwards, after: index) == nil else { return nil }
        return DecimalNumber.parse(fields.value(at: index))
    }
}
