// SPDX-License-Identifier: Apache-2.0
import IOCore

/// The state of reading a peer's frames.
struct HTTP2Input: ~Copyable {
    /// The bytes of an incomplete frame head.
    var partialHead: [UInt8] = []
    /// The remaining bytes of the frame's payload; initially those of the client's preface.
    var payloadLeft: Int
    /// Head and payload so far of a frame that is held until it is complete, because its field block has several
    /// frames.
    var gathered: [UInt8] = []
    var isGathering = false
    /// Present between HEADERS without END_HEADERS and the frame that has it.
    var filter: FieldBlockFilter?
    /// Bytes of the field block, as sent.
    var blockBytes = 0
    /// The size of the section, as RFC 9113, section 6.5.2 counts it.
    var sectionBytes = 0
    /// Whether a part of the section was removed because of its size.
    var hasOmitted = false
    /// Whether reading has stopped, because the end of the connection was announced.
    var isOver = false
    var ledger = StreamLedger()
    /// The bytes of fields, as `sectionBytes` counts them, that may be decoded before the delegate is asked for more.
    var decodingAllowance = 0
    var hasDecodedTooMuch = false
    /// Whether the current frame has a part of a field block.
    var isOfBlock = false
    var isPaused = false
    /// What a pause has left: bytes that nghttp2 has to get, and those behind them, of which no frame was inspected.
    var unfed = ByteBuffer()
    var unread = ByteBuffer()

    /// The bytes of a field block that nghttp2 gets at once: as references, they are two megabytes of fields.
    static let blockPiece = 512

    /// So much is asked for at once.
    static let decodingStep = 64 << 10
    /// A section up to this size is not counted when its stream has taken it.
    static let smallSection = 8 << 10

    init(_ role: HTTP2Session.Role) {
        payloadLeft = role == .server ? ClientPreface.text.utf8CodeUnitCount : 0
    }
}

/// The weights of frames that advance no request or response. A frame that needs a reply or a lookup weighs 1.
enum HTTP2Burden {
    static let frame = 1.0
    /// DATA with fewer bytes than the smallest gRPC message, or for a stream that was reset.
    static let smallData = 0.125
    static let leastMessage = 5
    /// CONTINUATION with fewer bytes than that.
    static let leastContinuation = 32
    /// The number of bytes of a field block beyond the limit that weigh 1.
    static let excessBytes = 1024.0
    /// The number of bytes of an ignored field block that weigh 1.
    static let ignoredBytes = 64.0
    /// A field beyond the limit of the section.
    static let excessField = 1.0 / 32
}
