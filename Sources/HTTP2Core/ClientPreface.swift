import HTTPCore
import IOCore

/// What a client sends first when it knows that the server speaks HTTP/2 (RFC 9113, section 3.4). It was chosen so that
/// no HTTP/1.1 request begins with it.
package enum ClientPreface {
    package enum Match: Sendable {
        case isPreface, isNot
        /// So far it is the beginning of one.
        case needsMore
    }

    package static let text: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    /// Judges the first bytes of a connection.
    package static func match(_ bytes: borrowing Span<UInt8>) -> Match {
        let preface = text.bytes
        let count = min(bytes.count, preface.count)
        guard bytes.extracting(0..<count).equals(preface.extracting(0..<count)) else { return .isNot }
        return count == preface.count ? .isPreface : .needsMore
    }
}
