// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import TestSupport
import Testing

/// Parses `bytes` in pieces of `pieceSize`, as a sequence of heads without bodies.
func read(_ bytes: [UInt8], pieceSize: Int, limits: HeadLimits = HeadLimits()) -> RequestReading {
    let reading = RequestReading(bytes, pieceSize: pieceSize, limits: limits)
    #expect(!reading.leftBytesBehind)
    return reading
}

/// Parses the bytes in one piece and byte by byte, and requires the same result.
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

/// The head from bytes that must contain exactly one valid head.
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
