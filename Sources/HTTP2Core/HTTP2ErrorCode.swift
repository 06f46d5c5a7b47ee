// SPDX-License-Identifier: Apache-2.0
/// The error code with which a stream or a connection ended (RFC 9113, section 7). Public because open classes use it
/// in their signatures.
public enum HTTP2ErrorCode: UInt32, Sendable {
    case noError = 0
    case protocolError, internalError, flowControlError, settingsTimeout, streamClosed, frameSizeError, refusedStream
    case cancel, compressionError, connectError, enhanceYourCalm, inadequateSecurity, http11Required

    /// A code that the standard does not name counts as `internalError`.
    package init(onWire code: UInt32) {
        self = HTTP2ErrorCode(rawValue: code) ?? .internalError
    }

    /// Its name in the standard.
    package var name: StaticString {
        switch self {
        case .noError: "NO_ERROR"
        case .protocolError: "PROTOCOL_ERROR"
        case .internalError: "INTERNAL_ERROR"
        case .flowControlError: "FLOW_CONTROL_ERROR"
        case .settingsTimeout: "SETTINGS_TIMEOUT"
        case .streamClosed: "STREAM_CLOSED"
        case .frameSizeError: "FRAME_SIZE_ERROR"
        case .refusedStream: "REFUSED_STREAM"
        case .cancel: "CANCEL"
        case .compressionError: "COMPRESSION_ERROR"
        case .connectError: "CONNECT_ERROR"
        case .enhanceYourCalm: "ENHANCE_YOUR_CALM"
        case .inadequateSecurity: "INADEQUATE_SECURITY"
        case .http11Required: "HTTP_1_1_REQUIRED"
        }
    }
}
