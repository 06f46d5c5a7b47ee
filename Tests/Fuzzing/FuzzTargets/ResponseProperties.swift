// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import SessionCore

/// Responses over HTTP/1.1, as the bytes of a connection bring them.
enum ResponseProperties {
    /// The result is independent of the division into pieces, and every byte is accounted for once.
    static func responses(_ bytes: [UInt8]) throws(FuzzFinding) {
        for method in [HTTPMethod.get, .head] {
            let whole = try read(bytes, responding: method, pieceSize: max(1, bytes.count))
            for size in [1, 2 + bytes.count % 30] {
                let pieces = try read(bytes, responding: method, pieceSize: size)
                guard pieces.isSame(as: whole) else {
                    throw FuzzFinding("whole \(whole), and in pieces of \(size) \(pieces)")
                }
            }
        }
    }

    private enum Outcome: Equatable {
        case needMore
        case failed
        /// The number of bytes behind the end.
        case end(excess: Int)
    }

    private struct Reading {
        var informational: [Int] = []
        var status: Int?
        var fields = HeaderFields()
        var data: [UInt8] = []
        var trailers = HeaderFields()
        var isReusable = false
        var outcome = Outcome.needMore

        func isSame(as other: Reading) -> Bool {
            informational == other.informational && status == other.status && fields == other.fields
                && data == other.data && outcome == other.outcome && trailers == other.trailers
                && isReusable == other.isReusable
        }
    }

    private static func read(
        _ bytes: [UInt8],
        responding method: HTTPMethod,
        pieceSize: Int
    ) throws(FuzzFinding) -> Reading {
        var reader = HTTP1ResponseReader(limits: HeadLimits(headBytes: 2000, fieldCount: 20))
        reader.reset(answering: method)
        var reading = Reading()
        var held: [UInt8] = []
        var position = 0
        while position < bytes.count, reading.outcome == .needMore {
            let piece = bytes[position..<min(bytes.count, position + pieceSize)]
            position += piece.count
            held += piece
            let consumed = try consume(held, &reader, &reading)
            held.removeFirst(consumed)
            if case .end = reading.outcome { reading.outcome = .end(excess: held.count + bytes.count - position) }
        }
        reading.trailers = reader.trailers
        // A connection with excess is closed, whatever the response says.
        if reading.outcome == .end(excess: 0) { reading.isReusable = reader.keepsConnection }
        return reading
    }

    private static func consume(
        _ bytes: [UInt8],
        _ reader: inout HTTP1ResponseReader,
        _ reading: inout Reading
    ) throws(FuzzFinding) -> Int {
        var position = 0
        while true {
            let step = reader.next(bytes.span.extracting(position..<bytes.count))
            switch step {
            case .needMore(let consumed):
                try check(position + consumed, bytes)
                return position + consumed
            case .informational(let consumed):
                position += consumed
                reading.informational.append(reader.head.status)
            case .head(let consumed):
                position += consumed
                guard reading.status == nil else { throw FuzzFinding("two final heads") }
                reading.status = reader.head.status
                reading.fields = reader.head.fields
            case .data(let range, let consumed):
                guard range.upperBound <= consumed, !range.isEmpty else { throw FuzzFinding("data at no place") }
                reading.data += bytes[position + range.lowerBound..<position + range.upperBound]
                position += consumed
            case .end(let consumed):
                try check(position + consumed, bytes)
                reading.outcome = .end(excess: 0)
                guard reader.isComplete, reading.status != nil else { throw FuzzFinding("an end without a head") }
                return position + consumed
            case .failed(let why):
                guard !why.isEmpty else { throw FuzzFinding("a fault without words") }
                reading.outcome = .failed
                return bytes.count
            }
            try check(position, bytes)
        }
    }

    private static func check(_ position: Int, _ bytes: [UInt8]) throws(FuzzFinding) {
        guard (0...bytes.count).contains(position) else {
            throw FuzzFinding("\(position) of \(bytes.count) bytes consumed")
        }
    }
}
