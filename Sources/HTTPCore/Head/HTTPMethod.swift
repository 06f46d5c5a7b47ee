// SPDX-License-Identifier: Apache-2.0
package import IOCore

/// The method of a request (RFC 9110 9). Methods are case-sensitive: `get` is not `GET`.
public enum HTTPMethod: Hashable, Sendable {
    case get, head, post, put, delete, options, patch, connect, trace
    /// Another valid token; it is forwarded unchanged.
    case other([UInt8])

    /// - Returns: nil when `text` is not a token (RFC 9110 5.6.2).
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard HeaderFields.isValidName(bytes.span) else { return nil }
        self.init(validated: bytes.span)
    }

    /// Makes a method from bytes that are known to be a token.
    package init(validated bytes: borrowing Span<UInt8>) {
        if let known = Self.known(bytes) {
            self = known
        } else {
            var copy: [UInt8] = []
            copy.append(bytes)
            self = .other(copy)
        }
    }

    private static func known(_ bytes: borrowing Span<UInt8>) -> HTTPMethod? {
        switch bytes.count {
        case 3: bytes.equals("GET") ? .get : bytes.equals("PUT") ? .put : nil
        case 4: bytes.equals("POST") ? .post : bytes.equals("HEAD") ? .head : nil
        case 5: bytes.equals("PATCH") ? .patch : bytes.equals("TRACE") ? .trace : nil
        case 6: bytes.equals("DELETE") ? .delete : nil
        case 7: bytes.equals("OPTIONS") ? .options : bytes.equals("CONNECT") ? .connect : nil
        default: nil
        }
    }

    /// Whether the method is safe (RFC 9110 9.2.1). False for unknown methods.
    public var isSafe: Bool {
        switch self {
        case .get, .head, .options, .trace: true
        default: false
        }
    }

    /// A non-standard method that tells some caches to remove a response.
    package var isPurge: Bool {
        if case .other(let bytes) = self { bytes.span.equals("PURGE") } else { false }
    }

    /// Whether the method is idempotent (RFC 9110 9.2.2). False for unknown methods.
    public var isIdempotent: Bool {
        switch self {
        case .put, .delete: true
        default: isSafe
        }
    }

    /// Writes the bytes of the method.
    package func append(to buffer: inout ByteBuffer) {
        switch self {
        case .other(let bytes): buffer.append(bytes)
        default: buffer.append(knownText)
        }
    }

    /// The text of a known method; empty for `other`.
    package var knownText: StaticString {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .patch: "PATCH"
        case .connect: "CONNECT"
        case .trace: "TRACE"
        case .other: ""
        }
    }
}

extension HTTPMethod: CustomStringConvertible {
    public var description: String {
        switch self {
        case .other(let bytes): String(decoding: bytes, as: UTF8.self)
        default: "\(knownText)"
        }
    }
}
