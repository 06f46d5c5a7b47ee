// SPDX-License-Identifier: Apache-2.0
import IOCore
import WebSocketCore

/// The frames of a WebSocket's peer.
enum WebSocketProperties {
    private static let limit = 4096

    /// The first byte chooses the side and the compression, the rest are frames. Whole and in pieces they mean the same; a message keeps
    /// to the limit and is text where it says so; and behind a failure or a Close frame nothing counts.
    static func frames(_ bytes: [UInt8]) throws(FuzzFinding) {
        guard let choice = bytes.first else { return }
        let frames = Array(bytes.dropFirst())
        let whole = try events(frames, choice, pieceSize: max(frames.count, 1))
        let pieces = try events(frames, choice, pieceSize: 1 + Int(choice >> 4))
        guard whole == pieces else { throw FuzzFinding("in pieces: \(pieces), whole: \(whole)") }
    }

    private static func events(_ frames: [UInt8], _ choice: UInt8, pieceSize: Int) throws(FuzzFinding)
        -> [WebSocketMachine.Event]
    {
        var settings = WebSocketMachine.Settings()
        settings.role = choice & 1 == 0 ? .client : .server
        settings.maximumMessageSize = limit
        if choice & 2 != 0 {
            let keepsNone = choice & 4 != 0
            settings.deflate = PermessageDeflate(clientNoContextTakeover: keepsNone, serverNoContextTakeover: keepsNone)
        }
        var machine = WebSocketMachine(settings)
        var found: [WebSocketMachine.Event] = []
        var isOver = false
        var start = 0
        while start < frames.count {
            let piece = Array(frames[start..<min(start + pieceSize, frames.count)])
            start += piece.count
            var position = 0
            reading: while true {
                let event = machine.next(piece.span, &position)
                switch event {
                case .needsInput:
                    guard position == piece.count else { throw FuzzFinding("input was left") }
                    break reading
                case .message(let message):
                    guard message.bytes.count <= limit else {
                        throw FuzzFinding("a message of \(message.bytes.count) bytes")
                    }
                    if message.isText, String(validating: message.bytes, as: UTF8.self) == nil {
                        throw FuzzFinding("text that is no UTF-8")
                    }
                case .ping(let payload), .pong(let payload):
                    guard payload.count <= 125 else { throw FuzzFinding("a control frame of \(payload.count) bytes") }
                case .closed, .failed:
                    guard machine.hasSentClose, !machine.isReceiving else {
                        throw FuzzFinding("it goes on behind its end")
                    }
                }
                guard !isOver else { throw FuzzFinding("an event behind the end: \(event)") }
                if case .closed = event { isOver = true }
                if case .failed = event { isOver = true }
                found.append(event)
                // The output would grow with the input.
                machine.output.removeAll()
            }
        }
        return found
    }
}
