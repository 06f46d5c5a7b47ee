// SPDX-License-Identifier: Apache-2.0
import TestSupport
import Testing

/// A client of HTTP/2 that sends the frames that it is told to send, and reads those that come.
final class ConformanceClient {
    struct Frame {
        let type: UInt8
        let flags: UInt8
        let stream: Int
        let payload: [UInt8]

        var code: HTTP2Code? {
            let bytes = type == 7 ? payload.dropFirst(4).prefix(4) : payload.prefix(4)
            return HTTP2Code(rawValue: bytes.reduce(0) { $0 << 8 | UInt32($1) })
        }
    }

    private struct Unexpected: Error, CustomStringConvertible { let description: String }

    private let client: TestClient
    private var bytes: [UInt8] = []
    private var hasEnded = false
    private(set) var log: [String] = []

    init(_ client: TestClient) { self.client = client }

    /// Both prefaces, both acknowledged.
    func shakeHands() throws {
        try client.send(RawFrames.opening)
        var isWelcome = false
        var isAcknowledged = false
        while !isWelcome || !isAcknowledged {
            guard let frame = try next() else { throw Unexpected(description: "no handshake") }
            guard frame.type == 4 else { continue }
            if frame.flags & 1 == 0 { isWelcome = true } else { isAcknowledged = true }
        }
        try client.send(RawFrames.frame(type: 4, flags: 1))
    }

    /// - Returns: what is wrong; nil when all has come as expected.
    func run(_ steps: [ConformanceCase.Step]) -> String? {
        for step in steps {
            do {
                switch step {
                // A proxy that has ended the connection amid them is judged by what it has said.
                case .send(let bytes): try? client.send(bytes)
                case .expect(let expectation): try wait(for: expectation)
                }
            } catch {
                return "\(step): \(error); came: \(log.joined(separator: " "))"
            }
        }
        return nil
    }

    /// The next frame; nil at the end of the connection.
    func next() throws -> Frame? {
        while !hasEnded {
            if bytes.count >= 9 {
                let length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
                if bytes.count >= 9 + length {
                    let stream = bytes[5..<9].reduce(0) { $0 << 8 | Int($1) }
                    let payload = Array(bytes[9..<(9 + length)])
                    let frame = Frame(type: bytes[3], flags: bytes[4], stream: stream, payload: payload)
                    bytes.removeFirst(9 + length)
                    let code = [3, 7].contains(frame.type) ? "(\(frame.code.map { "\($0)" } ?? "?"))" : ""
                    log.append("\(frame.type)/\(frame.flags)@\(stream)+\(length)\(code)")
                    return frame
                }
            }
            let more = try client.receive()
            if more.isEmpty {
                hasEnded = true
                log.append("end")
            }
            bytes += more
        }
        return nil
    }

    private func wait(for expectation: ConformanceCase.Expectation) throws {
        while let frame = try next() {
            switch (expectation, frame.type) {
            case (.connectionError(let codes), 7):
                guard let code = frame.code, codes.contains(code) else { throw wrong(frame) }
                while try next() != nil {}
                return
            case (.streamError(let codes, let stream), 3) where frame.stream == stream:
                guard let code = frame.code, codes.contains(code) else { throw wrong(frame) }
                return
            case (.streamError(let codes, _), 7):
                guard let code = frame.code, codes.contains(code) else { throw wrong(frame) }
                return
            case (.reset(let code, let stream), 3) where frame.stream == stream:
                guard frame.code == code else { throw wrong(frame) }
                return
            case (.head(let stream), 1) where frame.stream == stream: return
            case (.data(let stream, let count), 0) where frame.stream == stream:
                guard count == nil || count == frame.payload.count else { throw wrong(frame) }
                return
            case (.end(let stream), 0) where frame.stream == stream && frame.flags & 1 != 0,
                (.end(let stream), 1) where frame.stream == stream && frame.flags & 1 != 0,
                (.end(let stream), 3) where frame.stream == stream:
                return
            case (.pingAcknowledgement, 6) where frame.flags & 1 != 0,
                (.pingAcknowledgementOrClosed, 6) where frame.flags & 1 != 0:
                return
            case (.settingsAcknowledgement, 4) where frame.flags & 1 != 0: return
            case (.closed, _), (.pingAcknowledgementOrClosed, _): continue
            case (_, 7): throw wrong(frame)
            case (.head(let stream), 3) where frame.stream == stream,
                (.data(let stream, _), 3) where frame.stream == stream:
                throw wrong(frame)
            default: continue
            }
        }
        switch expectation {
        case .closed, .pingAcknowledgementOrClosed: return
        default: throw Unexpected(description: "the connection has ended")
        }
    }

    private func wrong(_ frame: Frame) -> Unexpected { Unexpected(description: "that is not it: \(frame.type)") }
}
