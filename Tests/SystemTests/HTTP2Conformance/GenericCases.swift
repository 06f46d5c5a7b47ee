// SPDX-License-Identifier: Apache-2.0
import TestSupport

/// Frames that every server has to accept (h2spec's group "generic", 44 cases).
enum GenericCases {
    private typealias Raw = RawFrames

    private static let responded: ConformanceCase.Step = .expect(.head(stream: 1))
    /// No answer's body goes yet, so that its stream stays open.
    private static let noWindow: ConformanceCase.Step = .send(Raw.settings([(4, 0)]))
    private static let request: ConformanceCase.Step = .send(Raw.headers(1, Raw.get))
    private static let ping: ConformanceCase.Step = .send(Raw.ping)

    static let streams: [ConformanceCase] = [
        ConformanceCase("1 a client's preface", .send(Raw.ping), .expect(.pingAcknowledgement)),
        ConformanceCase("2 PRIORITY on an idle stream", .send(Raw.priority(1)), ping, .expect(.pingAcknowledgement)),
        ConformanceCase(
            "2 WINDOW_UPDATE on a half-closed (remote) stream",
            noWindow,
            request,
            .send(Raw.windowUpdate(1, 1)),
            .expect(.data(stream: 1, count: 1))
        ),
        ConformanceCase(
            "2 PRIORITY on a half-closed (remote) stream",
            noWindow,
            request,
            .send(Raw.priority(1)),
            .send(Raw.windowUpdate(1, 1)),
            .expect(.data(stream: 1, count: 1))
        ),
        ConformanceCase(
            "2 RST_STREAM on a half-closed (remote) stream",
            request,
            .send(Raw.reset(1)),
            ping,
            .expect(.pingAcknowledgement)
        ),
        ConformanceCase(
            "2 PRIORITY on a closed stream",
            request,
            .expect(.end(stream: 1)),
            .send(Raw.priority(1)),
            ping,
            .expect(.pingAcknowledgement)
        ),
    ]

    static let frames: [ConformanceCase] = [
        ConformanceCase("3.1 a DATA frame", .send(Raw.open(1) + Raw.data(1, Raw.test)), responded),
        ConformanceCase(
            "3.1 several DATA frames",
            .send(Raw.open(1) + Raw.data(1, Raw.test, ends: false)),
            .send(Raw.data(1, Raw.test)),
            responded
        ),
        ConformanceCase(
            "3.1 a DATA frame with padding",
            .send(Raw.open(1) + Raw.frame(type: 0, flags: 9, stream: 1, [6] + Raw.test + zeros(6))),
            responded
        ),
        ConformanceCase("3.2 a HEADERS frame", request, responded),
        ConformanceCase(
            "3.2 a HEADERS frame with padding",
            .send(Raw.headers(1, [6] + Raw.get + zeros(6), flags: Raw.whole | Raw.padded)),
            responded
        ),
        ConformanceCase(
            "3.2 a HEADERS frame with priority",
            .send(Raw.headers(1, [0, 0, 0, 0, 255] + Raw.get, flags: Raw.whole | Raw.priority)),
            responded
        ),
        ConformanceCase("3.3 PRIORITY with weight 1", .send(Raw.priority(1, weight: 0)), request, responded),
        ConformanceCase("3.3 PRIORITY with weight 256", .send(Raw.priority(1)), request, responded),
        ConformanceCase(
            "3.3 PRIORITY with a dependency",
            .send(Raw.priority(3, dependsOn: 1, weight: 0)),
            request,
            responded
        ),
        ConformanceCase(
            "3.3 PRIORITY with the exclusive flag",
            .send(Raw.priority(1, exclusive: true)),
            request,
            responded
        ),
        ConformanceCase(
            "3.3 PRIORITY for an idle stream, then HEADERS for a lower one",
            .send(Raw.priority(3)),
            request,
            responded
        ),
        ConformanceCase("3.4 a RST_STREAM frame", request, .send(Raw.reset(1)), ping, .expect(.pingAcknowledgement)),
        ConformanceCase("3.5 a SETTINGS frame", .send(Raw.settings([(3, 100)])), .expect(.settingsAcknowledgement)),
        ConformanceCase("3.7 a PING frame", ping, .expect(.pingAcknowledgement)),
        ConformanceCase(
            "3.8 a GOAWAY frame",
            .send(Raw.frame(type: 7, zeros(8))),
            ping,
            .expect(.pingAcknowledgementOrClosed)
        ),
        ConformanceCase(
            "3.9 WINDOW_UPDATE of the connection",
            .send(Raw.windowUpdate(0, 1)),
            ping,
            .expect(.pingAcknowledgement)
        ),
        ConformanceCase("3.9 WINDOW_UPDATE of a stream", request, .send(Raw.windowUpdate(1, 1)), responded),
        ConformanceCase(
            "3.10 a CONTINUATION frame",
            .send(Raw.headers(1, Raw.get, flags: Raw.endStream)),
            .send(Raw.continuation(1, field)),
            responded
        ),
        ConformanceCase(
            "3.10 several CONTINUATION frames",
            .send(Raw.headers(1, Raw.get, flags: Raw.endStream)),
            .send(Raw.continuation(1, field, ends: false) + Raw.continuation(1, field)),
            responded
        ),
    ]

    static let messages: [ConformanceCase] = [
        ConformanceCase("4 GET", request, responded),
        ConformanceCase(
            "4 HEAD",
            .send(Raw.headers(1, [2, 4] + Array("HEAD".utf8) + [0x86, 0x84] + Raw.authority)),
            responded
        ),
        ConformanceCase("4 POST", .send(Raw.open(1)), .send(Raw.data(1, Raw.test)), responded),
        ConformanceCase(
            "4 POST with trailers",
            .send(Raw.open(1)),
            .send(Raw.data(1, Raw.test, ends: false)),
            .send(Raw.headers(1, field)),
            responded
        ),
    ]

    /// Every representation of RFC 7541, section 6.
    static let fieldCompression: [ConformanceCase] = [
        block("5 an indexed field", []),
        block("5 a literal with indexing, indexed name", [0x7A] + plain("test")),
        block("5 a literal with indexing, indexed name, Huffman coded", [0x7A] + packedTest),
        block("5 a literal with indexing, new name", [0x40] + plain("x-test") + plain("test")),
        block("5 a literal with indexing, new name, Huffman coded", [0x40] + packedName + packedTest),
        block("5 a literal without indexing, indexed name", [0x0F, 0x2B] + plain("test")),
        block("5 a literal without indexing, indexed name, Huffman coded", [0x0F, 0x2B] + packedTest),
        block("5 a literal without indexing, new name", [0x00] + plain("x-test") + plain("test")),
        block("5 a literal without indexing, new name, Huffman coded", [0x00] + packedName + packedTest),
        block("5 a literal never indexed, indexed name", [0x1F, 0x2B] + plain("test")),
        block("5 a literal never indexed, indexed name, Huffman coded", [0x1F, 0x2B] + packedTest),
        block("5 a literal never indexed, new name", [0x10] + plain("x-test") + plain("test")),
        block("5 a literal never indexed, new name, Huffman coded", [0x10] + packedName + packedTest),
        ConformanceCase("5 an update of the table's size", .send(Raw.headers(1, [0x20] + Raw.get)), responded),
        ConformanceCase(
            "5 several updates of the table's size",
            .send(Raw.headers(1, [0x20, 0x3F, 0xE1, 0x1F] + Raw.get)),
            responded
        ),
    ]

    private static func block(_ name: String, _ field: [UInt8]) -> ConformanceCase {
        ConformanceCase(name, .send(Raw.headers(1, Raw.get + field)), responded)
    }

    private static let field = Raw.field("x-dummy", "test")
    private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
    private static func plain(_ text: String) -> [UInt8] { Raw.length(text.utf8.count) + Array(text.utf8) }
    /// "x-test" and "test" in the code of RFC 7541, appendix B.
    private static let packedName: [UInt8] = [0x85, 0xF2, 0xB2, 0x4A, 0x84, 0xFF]
    private static let packedTest: [UInt8] = [0x83, 0x49, 0x50, 0x9F]
}
