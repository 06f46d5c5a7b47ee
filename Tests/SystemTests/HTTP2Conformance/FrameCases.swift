// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// Frames and streams (h2spec's group "http2", sections 3.5 to 5.5, 29 cases).
enum FrameCases {
    private typealias Raw = RawFrames

    private static let ping: ConformanceCase.Step = .send(Raw.ping)
    private static let acknowledged: ConformanceCase.Step = .expect(.pingAcknowledgement)
    private static let request: ConformanceCase.Step = .send(Raw.headers(1, Raw.get))
    private static let finished: ConformanceCase.Step = .expect(.end(stream: 1))
    private static let unknown = Raw.frame(type: 0x16, [UInt8](repeating: 0, count: 8))
    private static let field = Raw.field("x-dummy", "test")

    private static func fails(_ codes: HTTP2Code...) -> ConformanceCase.Step { .expect(.connectionError(codes)) }
    private static func failsStream(_ codes: HTTP2Code...) -> ConformanceCase.Step {
        .expect(.streamError(codes, stream: 1))
    }

    static let format: [ConformanceCase] = [
        ConformanceCase("4.1 a frame of unknown type", .send(unknown), ping, acknowledged),
        ConformanceCase(
            "4.1 a frame with an undefined flag",
            .send(Raw.frame(type: 6, flags: 0x16, Raw.number(0) + Raw.number(0))),
            acknowledged
        ),
        ConformanceCase(
            "4.1 a frame with the reserved bit",
            .send([0, 0, 8, 6, 0, 0x80, 0, 0, 0] + Raw.number(0) + Raw.number(0)),
            acknowledged
        ),
        ConformanceCase(
            "4.2 DATA of 2^14 bytes",
            .send(Raw.open(1) + Raw.data(1, letters(1 << 14))),
            .expect(.head(stream: 1))
        ),
        ConformanceCase(
            "4.2 DATA above the frame size",
            .send(Raw.open(1) + Raw.data(1, letters(1 << 14 + 1))),
            failsStream(.frameSizeError)
        ),
        ConformanceCase(
            "4.2 HEADERS above the frame size",
            .send(
                Raw.headers(
                    1,
                    Raw.get + (0..<5).flatMap { _ in Raw.field("x-dummy", String(repeating: "x", count: 4096)) }
                )
            ),
            fails(.frameSizeError)
        ),
        ConformanceCase("4.3 an invalid field block", .send(Raw.headers(1, [0x40])), fails(.compressionError)),
        ConformanceCase(
            "4.3 PRIORITY amid a field block",
            .send(Raw.headers(1, Raw.get, flags: 0) + Raw.priority(1) + Raw.continuation(1, field)),
            fails(.protocolError)
        ),
        ConformanceCase(
            "4.3 HEADERS of another stream amid a field block",
            .send(Raw.headers(1, Raw.get, flags: 0) + Raw.headers(3, Raw.get) + Raw.continuation(1, field)),
            fails(.protocolError)
        ),
    ]

    static let states: [ConformanceCase] = [
        ConformanceCase("5.1 idle: DATA", .send(Raw.data(1, Raw.test)), fails(.protocolError)),
        ConformanceCase("5.1 idle: RST_STREAM", .send(Raw.reset(1)), fails(.protocolError)),
        ConformanceCase("5.1 idle: WINDOW_UPDATE", .send(Raw.windowUpdate(1, 100)), fails(.protocolError)),
        ConformanceCase("5.1 idle: CONTINUATION", .send(Raw.continuation(1, Raw.get)), fails(.protocolError)),
        ConformanceCase(
            "5.1 half-closed (remote): DATA",
            .send(Raw.headers(1, Raw.get) + Raw.data(1, Raw.test)),
            failsStream(.streamClosed)
        ),
        ConformanceCase(
            "5.1 half-closed (remote): HEADERS",
            .send(Raw.headers(1, Raw.get) + Raw.headers(1, Raw.get)),
            failsStream(.streamClosed)
        ),
        ConformanceCase(
            "5.1 half-closed (remote): CONTINUATION",
            .send(Raw.headers(1, Raw.get) + Raw.continuation(1, Raw.get)),
            failsStream(.streamClosed, .protocolError)
        ),
        ConformanceCase(
            "5.1 closed by RST_STREAM: DATA",
            .send(Raw.open(1) + Raw.reset(1) + Raw.data(1, Raw.test)),
            failsStream(.streamClosed)
        ),
        ConformanceCase(
            "5.1 closed by RST_STREAM: HEADERS",
            .send(Raw.open(1) + Raw.reset(1) + Raw.headers(1, Raw.get)),
            failsStream(.streamClosed)
        ),
        ConformanceCase(
            "5.1 closed by RST_STREAM: CONTINUATION",
            .send(Raw.open(1) + Raw.reset(1) + Raw.continuation(1, field)),
            failsStream(.streamClosed, .protocolError)
        ),
        ConformanceCase("5.1 closed: DATA", request, finished, .send(Raw.data(1, Raw.test)), fails(.streamClosed)),
        ConformanceCase("5.1 closed: HEADERS", request, finished, request, fails(.streamClosed)),
        ConformanceCase(
            "5.1 closed: CONTINUATION",
            request,
            finished,
            .send(Raw.continuation(1, field)),
            fails(.streamClosed, .protocolError)
        ),
        ConformanceCase("5.1.1 an even stream", .send(Raw.headers(2, Raw.get)), fails(.protocolError)),
        ConformanceCase(
            "5.1.1 a stream with a lower number",
            .send(Raw.headers(5, Raw.get)),
            .send(Raw.headers(3, Raw.get)),
            fails(.protocolError)
        ),
        ConformanceCase(
            "5.1.2 a stream above the limit",
            .send(Raw.settings([(4, 0)]) + (0...100).flatMap { Raw.headers(2 * $0 + 1, Raw.get) }),
            .expect(.reset(.refusedStream, stream: 201)),
            ping,
            acknowledged
        ),
        ConformanceCase(
            "5.3.1 HEADERS that depend on their own stream",
            .send(Raw.headers(1, Raw.number(1) + [255] + Raw.get, flags: Raw.whole | Raw.priority)),
            failsStream(.protocolError)
        ),
        ConformanceCase(
            "5.3.1 PRIORITY that depends on its own stream",
            .send(Raw.priority(1, dependsOn: 1)),
            failsStream(.protocolError)
        ),
        ConformanceCase(
            "5.4.1 an invalid PING, for the end of the connection",
            .send(Raw.frame(type: 6, stream: 3, Raw.number(0) + Raw.number(0))),
            .expect(.closed)
        ),
        ConformanceCase(
            "5.4.1 (strict) an invalid PING, for GOAWAY",
            .send(Raw.frame(type: 6, stream: 3, Raw.number(0) + Raw.number(0))),
            fails(.protocolError)
        ),
        ConformanceCase("5.5 an unknown frame", .send(unknown), ping, acknowledged),
        ConformanceCase(
            "5.5 an unknown frame amid a field block",
            .send(Raw.headers(1, Raw.get, flags: Raw.endStream) + unknown),
            fails(.protocolError)
        ),
    ]

    private static func letters(_ count: Int) -> [UInt8] { [UInt8](repeating: UInt8(ascii: "x"), count: count) }
}
