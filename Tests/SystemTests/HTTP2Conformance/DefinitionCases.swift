// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// Each kind of frame (h2spec's group "http2", sections 6 and 7, 47 cases).
enum DefinitionCases {
    private typealias Raw = RawFrames

    private static let ping: ConformanceCase.Step = .send(Raw.ping)
    private static let acknowledged: ConformanceCase.Step = .expect(.pingAcknowledgement)
    private static let request: ConformanceCase.Step = .send(Raw.headers(1, Raw.get))
    private static let open: ConformanceCase.Step = .send(Raw.open(1))
    private static let field = Raw.field("x-dummy", "test")

    private static func fails(_ codes: HTTP2Code...) -> ConformanceCase.Step { .expect(.connectionError(codes)) }
    private static func failsStream(_ codes: HTTP2Code...) -> ConformanceCase.Step {
        .expect(.streamError(codes, stream: 1))
    }

    static let bodiesAndHeads: [ConformanceCase] = [
        ConformanceCase("6.1 DATA on stream 0", open, .send(Raw.data(0, Raw.test)), fails(.protocolError)),
        ConformanceCase(
            "6.1 DATA on a stream that is not open",
            request,
            .expect(.end(stream: 1)),
            .send(Raw.data(1, Raw.test)),
            failsStream(.streamClosed)
        ),
        ConformanceCase(
            "6.1 DATA with too much padding",
            .send(Raw.open(1) + [0, 0, 5, 0, 0x0B, 0, 0, 0, 1, 6, 0x54, 0x65, 0x73, 0x74]),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.2 HEADERS without END_HEADERS, then PRIORITY",
            .send(Raw.headers(1, Raw.get, flags: 0) + Raw.priority(1) + Raw.continuation(1, field)),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.2 HEADERS of another stream amid a field block",
            .send(Raw.headers(1, Raw.get, flags: 0) + Raw.headers(3, Raw.get)),
            fails(.protocolError)
        ),
        ConformanceCase("6.2 HEADERS on stream 0", .send(Raw.headers(0, Raw.get)), fails(.protocolError)),
        ConformanceCase(
            "6.2 HEADERS with too much padding",
            .send(
                Raw.headers(1, [UInt8(Raw.get.count + 1)] + Raw.get, flags: Raw.whole | Raw.padded)
            ),
            fails(.protocolError)
        ),
        ConformanceCase("6.3 PRIORITY on stream 0", .send(Raw.priority(0)), fails(.protocolError)),
        ConformanceCase(
            "6.3 PRIORITY that has not 5 bytes",
            .send(Raw.frame(type: 2, stream: 1, [0x80, 0, 0, 1])),
            failsStream(.frameSizeError)
        ),
        ConformanceCase("6.4 RST_STREAM on stream 0", .send(Raw.reset(0)), fails(.protocolError)),
        ConformanceCase("6.4 RST_STREAM on an idle stream", .send(Raw.reset(1)), fails(.protocolError)),
        ConformanceCase(
            "6.4 RST_STREAM that has not 4 bytes",
            .send(Raw.open(1) + Raw.frame(type: 3, stream: 1, [0, 0, 0])),
            fails(.frameSizeError)
        ),
    ]

    static let settings: [ConformanceCase] = [
        ConformanceCase(
            "6.5 SETTINGS with ACK and payload",
            .send(Raw.frame(type: 4, flags: 1, [0])),
            fails(.frameSizeError)
        ),
        ConformanceCase(
            "6.5 SETTINGS on a stream",
            .send(Raw.frame(type: 4, stream: 1, [0, 3, 0, 0, 0, 100])),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.5 SETTINGS that have not a multiple of 6 bytes",
            .send(Raw.frame(type: 4, [0, 3, 0])),
            fails(.frameSizeError)
        ),
        ConformanceCase("6.5.2 ENABLE_PUSH of 2", .send(Raw.settings([(2, 2)])), fails(.protocolError)),
        ConformanceCase(
            "6.5.2 INITIAL_WINDOW_SIZE above the maximum",
            .send(Raw.settings([(4, 1 << 31)])),
            fails(.flowControlError)
        ),
        ConformanceCase("6.5.2 MAX_FRAME_SIZE below 2^14", .send(Raw.settings([(5, 16383)])), fails(.protocolError)),
        ConformanceCase("6.5.2 MAX_FRAME_SIZE of 2^24", .send(Raw.settings([(5, 1 << 24)])), fails(.protocolError)),
        ConformanceCase("6.5.2 an unknown setting", .send(Raw.settings([(0xFF, 1)])), ping, acknowledged),
        ConformanceCase(
            "6.5.3 INITIAL_WINDOW_SIZE twice: the last one counts",
            .send(Raw.settings([(4, 100), (4, 1)])),
            request,
            .expect(.data(stream: 1, count: 1))
        ),
        ConformanceCase("6.5.3 SETTINGS are acknowledged", .send(Raw.settings()), .expect(.settingsAcknowledgement)),
    ]

    static let connection: [ConformanceCase] = [
        ConformanceCase("6.7 PING", ping, acknowledged),
        ConformanceCase(
            "6.7 PING with ACK",
            .send(Raw.frame(type: 6, flags: 1, Raw.number(9) + Raw.number(9))),
            ping,
            acknowledged
        ),
        ConformanceCase(
            "6.7 PING on a stream",
            .send(Raw.frame(type: 6, stream: 1, Raw.number(0) + Raw.number(0))),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.7 PING that has not 8 bytes",
            .send(Raw.frame(type: 6, Raw.number(0))),
            fails(.frameSizeError)
        ),
        ConformanceCase(
            "6.8 GOAWAY on a stream",
            .send(Raw.frame(type: 7, stream: 1, Raw.number(0) + Raw.number(0))),
            fails(.protocolError)
        ),
        ConformanceCase("6.9 WINDOW_UPDATE of 0", .send(Raw.windowUpdate(0, 0)), fails(.protocolError)),
        ConformanceCase(
            "6.9 WINDOW_UPDATE of 0 on a stream",
            open,
            .send(Raw.windowUpdate(1, 0)),
            failsStream(.protocolError)
        ),
        ConformanceCase(
            "6.9 WINDOW_UPDATE that has not 4 bytes",
            .send(Raw.frame(type: 8, [0, 0, 1])),
            fails(.frameSizeError)
        ),
        ConformanceCase(
            "6.9.1 a window of one byte",
            .send(Raw.settings([(4, 1)])),
            request,
            .expect(.data(stream: 1, count: 1))
        ),
        ConformanceCase(
            "6.9.1 a window of the connection above 2^31-1",
            .send(Raw.windowUpdate(0, (1 << 31) - 1) + Raw.windowUpdate(0, (1 << 31) - 1)),
            fails(.flowControlError)
        ),
        ConformanceCase(
            "6.9.1 a window of a stream above 2^31-1",
            .send(Raw.open(1) + Raw.windowUpdate(1, (1 << 31) - 1) + Raw.windowUpdate(1, (1 << 31) - 1)),
            failsStream(.flowControlError)
        ),
        ConformanceCase(
            "6.9.2 INITIAL_WINDOW_SIZE changes behind HEADERS",
            .send(Raw.settings([(4, 0)])),
            request,
            .expect(.head(stream: 1)),
            .send(Raw.settings([(4, 1)])),
            .expect(.data(stream: 1, count: 1))
        ),
        ConformanceCase(
            "6.9.2 a negative window",
            .send(Raw.settings([(4, 3)])),
            request,
            .expect(.data(stream: 1, count: 3)),
            .send(Raw.settings([(4, 2)]) + Raw.windowUpdate(1, 2)),
            .expect(.data(stream: 1, count: 1))
        ),
        ConformanceCase(
            "6.9.2 INITIAL_WINDOW_SIZE above the maximum",
            .send(Raw.settings([(4, 1 << 31)])),
            fails(.flowControlError)
        ),
    ]

    static let continuations: [ConformanceCase] = [
        ConformanceCase(
            "6.10 several CONTINUATION frames",
            .send(
                Raw.headers(1, Raw.get, flags: Raw.endStream) + Raw.continuation(1, field, ends: false)
                    + Raw.continuation(1, field)
            ),
            .expect(.head(stream: 1))
        ),
        ConformanceCase(
            "6.10 CONTINUATION, then another frame",
            .send(
                Raw.headers(1, Raw.post, flags: 0) + Raw.continuation(1, field, ends: false) + Raw.data(1, Raw.test)
            ),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.10 CONTINUATION on stream 0",
            .send(Raw.headers(1, Raw.get, flags: Raw.endStream) + Raw.continuation(0, field)),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.10 CONTINUATION behind HEADERS with END_HEADERS",
            .send(Raw.headers(1, Raw.get) + Raw.continuation(1, field)),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.10 CONTINUATION behind CONTINUATION with END_HEADERS",
            .send(
                Raw.headers(1, Raw.get, flags: Raw.endStream) + Raw.continuation(1, field) + Raw.continuation(1, field)
            ),
            fails(.protocolError)
        ),
        ConformanceCase(
            "6.10 CONTINUATION behind DATA",
            .send(
                Raw.headers(1, Raw.post, flags: 0) + Raw.data(1, Raw.test) + Raw.continuation(1, field, ends: false)
            ),
            fails(.protocolError)
        ),
        ConformanceCase(
            "7 GOAWAY with an unknown code",
            .send(Raw.frame(type: 7, Raw.number(0) + Raw.number(0xFF))),
            ping,
            .expect(.pingAcknowledgementOrClosed)
        ),
        ConformanceCase(
            "7 RST_STREAM with an unknown code",
            .send(Raw.open(1) + Raw.reset(1, 0xFF)),
            ping,
            acknowledged
        ),
    ]
}
