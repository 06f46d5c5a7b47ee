import HTTPCore
import Testing

/// What became of some bytes: the heads that were accepted, and the fault that ended it, if any.
struct RequestReading: Equatable {
    var heads: [RequestSummary] = []
    var fault: RequestFault?
    /// Whether a head was begun and not finished.
    var isUnfinished = false
}

/// Everything that a head says, in comparable form.
struct RequestSummary: Equatable {
    let method: HTTPMethod
    let form: RequestHead.Form
    let scheme: RequestHead.Scheme?
    let port: UInt16?
    let minorVersion: UInt8
    let fields: HTTPFields
    let framing: BodyFraming
    let keepAlive: Bool
    let expectsContinue: Bool
    let wantsUpgrade: Bool
    let host: Host?
    let target: String
    let rawTarget: String
    let rawHost: String
    let byteCount: Int

    init(_ head: borrowing RequestHead) {
        method = head.method
        form = head.form
        scheme = head.scheme
        port = head.port
        minorVersion = head.minorVersion
        fields = head.fields
        framing = head.framing
        keepAlive = head.keepAlive
        expectsContinue = head.expectsContinue
        wantsUpgrade = head.wantsUpgrade
        host = head.host
        target = String(copying: head.target)
        rawTarget = String(copying: head.rawTarget)
        rawHost = String(copying: head.rawHost)
        byteCount = head.byteCount
    }
}

/// Feeds `bytes` in pieces of `pieceSize` and reads heads until all is consumed (as if every body were empty).
func read(_ bytes: [UInt8], pieceSize: Int, limits: HeadLimits = HeadLimits()) -> RequestReading {
    var parser = RequestParser(limits: limits)
    var head = RequestHead()
    var reading = RequestReading()
    var position = 0
    while position < bytes.count {
        let end = min(bytes.count, position + pieceSize)
        let (consumed, outcome) = parser.parse(bytes.span.extracting(position..<end), into: &head)
        position += consumed
        switch outcome {
        case .needMore: #expect(position == end)
        case .complete: reading.heads.append(RequestSummary(head))
        case .failed(let fault):
            reading.fault = fault
            return reading
        }
    }
    reading.isUnfinished = parser.isInsideHead
    return reading
}

/// Feeds the bytes whole and byte by byte, and holds both to the same result.
func readBothWays(
    _ bytes: [UInt8],
    limits: HeadLimits = HeadLimits(),
    sourceLocation: SourceLocation = #_sourceLocation
) -> RequestReading {
    let whole = read(bytes, pieceSize: max(1, bytes.count), limits: limits)
    let single = read(bytes, pieceSize: 1, limits: limits)
    #expect(whole == single, "whole and byte by byte differ", sourceLocation: sourceLocation)
    return whole
}

/// The head of bytes that must hold exactly one valid head.
func accept(
    _ text: String,
    limits: HeadLimits = HeadLimits(),
    sourceLocation: SourceLocation = #_sourceLocation
) throws -> RequestHead {
    let bytes = Array(text.utf8)
    let reading = readBothWays(bytes, limits: limits, sourceLocation: sourceLocation)
    #expect(reading.fault == nil, sourceLocation: sourceLocation)
    #expect(reading.heads.count == 1, sourceLocation: sourceLocation)
    var parser = RequestParser(limits: limits)
    var head = RequestHead()
    let (consumed, outcome) = parser.parse(bytes.span, into: &head)
    try #require(outcome == .complete, sourceLocation: sourceLocation)
    #expect(consumed == bytes.count, sourceLocation: sourceLocation)
    return head
}

/// The fault of bytes that must be refused.
func refuse(
    _ text: String,
    limits: HeadLimits = HeadLimits(),
    sourceLocation: SourceLocation = #_sourceLocation
) -> RequestFault? {
    let reading = readBothWays(Array(text.utf8), limits: limits, sourceLocation: sourceLocation)
    #expect(reading.fault != nil, "accepted: \(text.debugDescription)", sourceLocation: sourceLocation)
    return reading.fault
}
