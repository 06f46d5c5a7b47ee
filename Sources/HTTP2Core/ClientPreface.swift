// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore

/// The connection preface of a client with prior knowledge of HTTP/2 (RFC 9113, section 3.4). No HTTP/1.1 request
/// begins with it.
package enum ClientPreface {
    package enum Match: Sendable {
        case isPreface, isNot
        /// The bytes so far are the beginning of a preface.
        case needsMore
    }

    package static let text: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    /// Compares the first bytes of a connection with the preface.
    package static func match(_ bytes: borrowing Span<UInt8>) -> Match {
        let preface = text.bytes
        let count = min(bytes.count, preface.count)
        guard bytes.extracting(0..<count).equals(preface.extracting(0..<count)) else { return .isNot }
        return count == preface.count ? .isPreface : .needsMore
    }
}
