// SPDX-License-Identifier: Apache-2.0

/// Why a connection is failed (RFC 6455, section 7.1.7): what the Close frame says that goes to the peer.
package struct WebSocketFault: Error, Equatable, Sendable {
    /// The status code of the Close frame.
    package let code: UInt16
    /// For people: what the peer has done. Of ASCII, and short enough for a Close frame.
    package let reason: String

    package static func protocolError(_ reason: String) -> WebSocketFault {
        WebSocketFault(code: WebSocketClose.protocolError, reason: reason)
    }

    static let invalidText = WebSocketFault(code: WebSocketClose.invalidPayload, reason: "a text is not valid UTF-8")

    static func tooLong(_ limit: Int) -> WebSocketFault {
        WebSocketFault(code: WebSocketClose.messageTooBig, reason: "a message has more than \(limit) bytes")
    }
}

/// The content of a Close frame (RFC 6455, section 5.5.1).
package struct WebSocketClose: Equatable, Sendable {
    /// nil: the frame has no payload.
    package let code: UInt16?
    /// UTF-8, of at most 123 bytes.
    package let reason: [UInt8]

    package init(code: UInt16?, reason: [UInt8] = []) {
        self.code = code
        self.reason = reason
    }

    package static let normalClosure: UInt16 = 1000
    package static let protocolError: UInt16 = 1002
    package static let noStatusReceived: UInt16 = 1005
    package static let abnormalClosure: UInt16 = 1006
    static let invalidPayload: UInt16 = 1007
    package static let messageTooBig: UInt16 = 1009
    package static let internalError: UInt16 = 1011
    /// The longest reason in bytes: the frame has 125, and the code two of them.
    static let longestReason = 123

    /// Whether a Close frame may have the code (RFC 6455, section 7.4, and IANA's registry up to 1014).
    package static func mayBeSent(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// Reads the payload of a Close frame.
    static func read(_ payload: [UInt8]) -> Result<WebSocketClose, WebSocketFault> {
        if payload.isEmpty { return .success(WebSocketClose(code: nil)) }
        guard payload.count >= 2 else { return .failure(.protocolError("a Close frame has one byte")) }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        guard mayBeSent(code) else { return .failure(.protocolError("no Close frame has the code \(code)")) }
        let reason = Array(payload[2...])
        var validator = UTF8Validator()
        guard validator.append(reason.span), validator.isComplete else { return .failure(.invalidText) }
        return .success(WebSocketClose(code: code, reason: reason))
    }

    /// The payload of a Close frame.
    var payload: [UInt8] {
        guard let code else { return [] }
        return [UInt8(code >> 8), UInt8(truncatingIfNeeded: code)] + Self.shortened(reason)
    }

    /// The longest beginning that a Close frame can have and that ends with a whole character.
    package static func shortened(_ reason: [UInt8]) -> [UInt8] {
        guard reason.count > longestReason else { return reason }
        var end = longestReason
        while end > 0, reason[end] & 0xC0 == 0x80 { end -= 1 }
        return Array(reason[..<end])
    }
}
