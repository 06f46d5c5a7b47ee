// SPDX-License-Identifier: Apache-2.0
import Foundation

/// What a peer sends to a program that returns each message, and what it has to see: a case of Autobahn's suite, by its number.
///
/// The suite (crossbario/autobahn-testsuite) needs Python 2. The cases are written anew here from what each of them sends and
/// expects; where the suite waits a second for nothing to happen, the peer waits for the event that has to happen.
package struct WebSocketCase: Sendable, CustomStringConvertible {
    package enum Step: Sendable {
        /// Sends bytes in pieces of that size; nil: at once.
        case send([WebSocketTestFrame], chop: Int?)
        /// Sends the head of a text frame of that length, and that much of its payload.
        case begin(length: Int, [UInt8])
        /// Sends more of that payload.
        case more([UInt8])
        /// Waits for one Pong, or a message.
        case awaitEvent
        /// Waits for the Close frame.
        case awaitClose
    }

    package enum Event: Equatable, Sendable {
        case message(isText: Bool, [UInt8])
        case pong([UInt8])

        /// Some messages have 16 MB: the bytes are compared by `==` of this module.
        package static func == (one: Event, other: Event) -> Bool {
            switch (one, other) {
            case (.message(let oneIsText, let one), .message(let otherIsText, let other)):
                oneIsText == otherIsText && one == other
            case (.pong(let one), .pong(let other)): one == other
            case (.message, _), (.pong, _): false
            }
        }
    }

    package enum End: Sendable, Equatable {
        /// The peer closes with 1000 when it has seen all events, and gets 1000 back.
        case normal
        /// The program fails the connection with one of these codes.
        case failed([UInt16])
        /// The peer has sent a Close frame, and gets one with one of these codes; nil is one without a code.
        case replied([UInt16?])
        /// The suite does not say what has to happen: the connection ends.
        case any
    }

    /// `6.4.1`.
    package let name: String
    package let steps: [Step]
    /// What comes back, in order.
    package let events: [Event]
    /// What the suite accepts, too, as not strict: the connection fails before the message has been returned.
    package let mayLoseEvents: Bool
    package let end: End

    package var description: String { name }

    init(
        _ name: String,
        _ steps: [Step],
        _ events: [Event],
        _ end: End = .normal,
        mayLoseEvents: Bool = false
    ) {
        self.name = name
        self.steps = steps
        self.events = events
        self.end = end
        self.mayLoseEvents = mayLoseEvents
    }

    /// The first number: `6`.
    package var category: Int { Int(name.prefix { $0 != "." }) ?? 0 }
}

extension WebSocketCase {
    /// Cases 1 to 7 and 10.
    package static let all: [WebSocketCase] =
        framing + pings + reservedBits + opcodes + fragmentation + text + UTF8Cases.all + closing + [autoFragmented]

    /// Case 9: large messages, many fragments, many messages.
    ///
    /// With `PINPROXY_AUTOBAHN` in the environment they are as large and as many as in the suite: 140 MB in each direction. Otherwise
    /// each case has a sixteenth of the bytes, or a tenth of the messages.
    package static let large: [WebSocketCase] = {
        let isWhole = ProcessInfo.processInfo.environment["PINPROXY_AUTOBAHN"] != nil
        let divisor = isWhole ? 1 : 16
        let sizes = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20].map { $0 / divisor }
        let words = Array("BAsd7&jh23".utf8)
        let bytes: [UInt8] = [0x00, 0xFE, 0x23, 0xFA, 0xF0]
        func repeated(_ part: [UInt8], _ count: Int) -> [UInt8] {
            var all: [UInt8] = []
            all.reserveCapacity(count)
            while all.count < count { all += part.prefix(count - all.count) }
            return all
        }
        var cases: [WebSocketCase] = []
        for (index, size) in sizes.enumerated() {
            cases.append(echo("9.1.\(index + 1)", [frame(1, repeated(words, size))], repeated(words, size)))
            cases.append(
                echo("9.2.\(index + 1)", [frame(2, repeated(bytes, size))], repeated(bytes, size), isText: false)
            )
        }
        for (index, size) in [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20].enumerated() {
            let text = [UInt8](repeating: UInt8(ascii: "*"), count: (4 << 20) / divisor)
            cases.append(echo("9.3.\(index + 1)", fragments(1, text, size), text))
            let binary = [UInt8](repeating: 0xFE, count: (4 << 20) / divisor)
            cases.append(echo("9.4.\(index + 1)", fragments(2, binary, size), binary, isText: false))
        }
        for (index, chop) in [64, 128, 256, 512, 1024, 2048].enumerated() {
            let text = repeated(words, (1 << 20) / divisor)
            cases.append(echo("9.5.\(index + 1)", [frame(1, text)], text, chop: chop))
            let binary = repeated(bytes, (1 << 20) / divisor)
            cases.append(echo("9.6.\(index + 1)", [frame(2, binary)], binary, isText: false, chop: chop))
        }
        let count = isWhole ? 1000 : 100
        for (index, size) in [0, 16, 64, 256, 1024, 4096].enumerated() {
            for (group, opcode, byte) in [(7, UInt8(1), UInt8(ascii: "*")), (8, 2, 0xFE)] {
                let payload = [UInt8](repeating: byte, count: size)
                var steps: [Step] = []
                for _ in 0..<count { steps += [.send([frame(opcode, payload)], chop: nil), .awaitEvent] }
                let event = Event.message(isText: opcode == 1, payload)
                cases.append(
                    WebSocketCase("9.\(group).\(index + 1)", steps, Array(repeating: event, count: count))
                )
            }
        }
        return cases
    }()

    static func frame(_ opcode: UInt8, _ payload: [UInt8] = [], isFinal: Bool = true, _ reserved: UInt8 = 0)
        -> WebSocketTestFrame
    { WebSocketTestFrame(opcode, isFinal: isFinal, reserved: reserved, payload) }

    static func frame(_ opcode: UInt8, _ text: String, isFinal: Bool = true, _ reserved: UInt8 = 0)
        -> WebSocketTestFrame
    { WebSocketTestFrame(opcode, isFinal: isFinal, reserved: reserved, Array(text.utf8)) }

    /// A message in frames of that many bytes.
    static func fragments(_ opcode: UInt8, _ payload: [UInt8], _ size: Int) -> [WebSocketTestFrame] {
        var frames: [WebSocketTestFrame] = []
        var start = 0
        repeat {
            let end = min(payload.count, start + size)
            frames.append(
                WebSocketTestFrame(
                    start == 0 ? opcode : 0,
                    isFinal: end == payload.count,
                    Array(payload[start..<end])
                )
            )
            start = end
        } while start < payload.count
        return frames
    }

    static func text(_ text: String) -> Event { .message(isText: true, Array(text.utf8)) }

    static func pong(_ text: String) -> Event { .pong(Array(text.utf8)) }

    static func echo(
        _ name: String,
        _ frames: [WebSocketTestFrame],
        _ payload: [UInt8],
        isText: Bool = true,
        chop: Int? = nil
    ) -> WebSocketCase {
        WebSocketCase(name, [.send(frames, chop: chop)], [.message(isText: isText, payload)])
    }

    static func failing(
        _ name: String,
        _ frames: [WebSocketTestFrame],
        after events: [Event] = [],
        chop: Int? = nil,
        code: UInt16 = 1002
    ) -> WebSocketCase {
        WebSocketCase(name, [.send(frames, chop: chop)], events, .failed([code]), mayLoseEvents: !events.isEmpty)
    }
}

extension WebSocketCase {
    private static let framing: [WebSocketCase] = {
        var cases: [WebSocketCase] = []
        for (group, opcode, byte) in [(1, UInt8(1), UInt8(ascii: "*")), (2, 2, 0xFE)] {
            for (index, size) in [0, 125, 126, 127, 128, 65535, 65536, 65536].enumerated() {
                let payload = [UInt8](repeating: byte, count: size)
                cases.append(
                    echo(
                        "1.\(group).\(index + 1)",
                        [frame(opcode, payload)],
                        payload,
                        isText: opcode == 1,
                        chop: index == 7 ? 997 : nil
                    )
                )
            }
        }
        return cases
    }()

    private static let pings: [WebSocketCase] = {
        let binary: [UInt8] = [0x00, 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0x00, 0xFF]
        let full = [UInt8](repeating: 0xFE, count: 125)
        let ten = (0..<10).map { "payload-\($0)" }
        func ping(_ number: Int, _ payload: [UInt8], chop: Int? = nil) -> WebSocketCase {
            WebSocketCase("2.\(number)", [.send([frame(9, payload)], chop: chop)], [.pong(payload)])
        }
        func many(_ number: Int, chop: Int?) -> WebSocketCase {
            WebSocketCase("2.\(number)", [.send(ten.map { frame(9, $0) }, chop: chop)], ten.map { pong($0) })
        }
        let unasked = frame(10, "unsolicited pong payload")
        return [
            ping(1, []), ping(2, Array("Hello, world!".utf8)), ping(3, binary), ping(4, full),
            failing("2.5", [frame(9, full + [0xFE])]), ping(6, full, chop: 1),
            WebSocketCase("2.7", [.send([frame(10), .close(1000)], chop: nil)], [], .replied([1000])),
            WebSocketCase("2.8", [.send([unasked, .close(1000)], chop: nil)], [], .replied([1000])),
            WebSocketCase("2.9", [.send([unasked, frame(9, "ping payload")], chop: nil)], [pong("ping payload")]),
            many(10, chop: nil), many(11, chop: 1),
        ]
    }()

    private static let hello = frame(1, "Hello, world!")

    private static let reservedBits: [WebSocketCase] = {
        func second(_ number: Int, _ reserved: UInt8, chop: Int?) -> WebSocketCase {
            failing(
                "3.\(number)",
                [hello, frame(1, "Hello, world!", reserved), frame(9)],
                after: [text("Hello, world!")],
                chop: chop
            )
        }
        return [
            failing("3.1", [frame(1, "Hello, world!", 1)]), second(2, 2, chop: nil), second(3, 3, chop: 15),
            second(4, 4, chop: 1), failing("3.5", [frame(2, [0, 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0, 0xFF], 5)]),
            failing("3.6", [frame(9, "Hello, world!", 6)]), failing("3.7", [frame(8, [], 7)]),
        ]
    }()

    private static let opcodes: [WebSocketCase] = {
        var cases: [WebSocketCase] = []
        for (group, first) in [(1, UInt8(3)), (2, 11)] {
            cases.append(failing("4.\(group).1", [frame(first)]))
            cases.append(failing("4.\(group).2", [frame(first + 1, "reserved opcode payload")]))
            for index in 2..<5 {
                let payload = index == 2 ? "" : "Hello, world!"
                cases.append(
                    failing(
                        "4.\(group).\(index + 1)",
                        [hello, frame(first + UInt8(index), payload), frame(9)],
                        after: [text("Hello, world!")],
                        chop: index == 4 ? 1 : nil
                    )
                )
            }
        }
        return cases
    }()

    private static let fragmentation: [WebSocketCase] = {
        let two = [frame(1, "fragment1", isFinal: false), frame(0, "fragment2")]
        let between = [two[0], frame(9, "ping payload"), two[1]]
        let whole = text("fragment1fragment2")
        func legal(_ number: Int, _ frames: [WebSocketTestFrame], _ events: [Event], chop: Int?) -> WebSocketCase {
            WebSocketCase("5.\(number)", [.send(frames, chop: chop)], events)
        }
        func orphan(_ number: Int, isFinal: Bool, chop: Int?) -> WebSocketCase {
            failing("5.\(number)", [frame(0, "non-continuation payload", isFinal: isFinal), hello], chop: chop)
        }
        func repeated(_ number: Int, isFinal: Bool) -> WebSocketCase {
            let once = [
                frame(0, "fragment1", isFinal: isFinal), frame(1, "fragment2", isFinal: false),
                frame(0, "fragment3"),
            ]
            return failing("5.\(number)", once + once)
        }
        func pinged(_ number: Int, chop: Int?) -> WebSocketCase {
            let parts = (1...5).map { frame($0 == 1 ? 1 : 0, "fragment\($0)", isFinal: $0 == 5) }
            return WebSocketCase(
                "5.\(number)",
                [
                    .send([parts[0], parts[1], frame(9, "pongme 1!")], chop: chop), .awaitEvent,
                    .send([parts[2], parts[3], frame(9, "pongme 2!"), parts[4]], chop: chop),
                ],
                [pong("pongme 1!"), pong("pongme 2!"), text("fragment1fragment2fragment3fragment4fragment5")]
            )
        }
        return [
            failing("5.1", [frame(9, "fragment1", isFinal: false), frame(0, "fragment2")]),
            failing("5.2", [frame(10, "fragment1", isFinal: false), frame(0, "fragment2")]),
            legal(3, two, [whole], chop: nil), legal(4, two, [whole], chop: 11), legal(5, two, [whole], chop: 1),
            legal(6, between, [pong("ping payload"), whole], chop: nil),
            legal(7, between, [pong("ping payload"), whole], chop: 11),
            legal(8, between, [pong("ping payload"), whole], chop: 1),
            orphan(9, isFinal: true, chop: nil), orphan(10, isFinal: true, chop: 26),
            orphan(11, isFinal: true, chop: 1),
            orphan(12, isFinal: false, chop: nil), orphan(13, isFinal: false, chop: 26),
            orphan(14, isFinal: false, chop: 1),
            failing("5.15", two + [frame(0, "fragment3", isFinal: false), frame(1, "fragment4")], after: [whole]),
            repeated(16, isFinal: false), repeated(17, isFinal: true),
            failing("5.18", [frame(1, "fragment1", isFinal: false), frame(1, "fragment2")]),
            pinged(19, chop: nil), pinged(20, chop: 11),
        ]
    }()

    /// Cases 6.1 to 6.4.
    private static let text: [WebSocketCase] = {
        let accented = Array("Hello-µ@ßöäüàá-UTF-8!!".utf8)
        let greek: [UInt8] = [0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xCE, 0xBC, 0xCE, 0xB5]
        let edited = Array("edited".utf8)
        let surrogate: [UInt8] = greek + [0xED, 0xA0, 0x80] + edited
        let beyond: [UInt8] = greek + [0xF4, 0x90, 0x80, 0x80] + edited
        let middle = Array("middle frame payload".utf8)
        let half = Array("Hello-µ@ßöä".utf8).count
        func early(_ number: Int, _ parts: [[UInt8]], inOneFrame: Bool) -> WebSocketCase {
            let steps: [Step] =
                inOneFrame
                ? [.begin(length: beyond.count, parts[0]), .more(parts[1]), .awaitClose]
                : [
                    .send([frame(1, parts[0], isFinal: false)], chop: nil),
                    .send([frame(0, parts[1], isFinal: false)], chop: nil), .awaitClose,
                ]
            return WebSocketCase("6.4.\(number)", steps, [], .failed([1007]))
        }
        let characters = [greek, [0xF4, 0x90, 0x80, 0x80]]
        let bytes = [Array(beyond[..<12]), Array(beyond[12..<13])]
        return [
            echo("6.1.1", [frame(1)], []),
            echo("6.1.2", [frame(1, isFinal: false), frame(0, isFinal: false), frame(0)], []),
            echo("6.1.3", [frame(1, isFinal: false), frame(0, middle, isFinal: false), frame(0)], middle),
            echo("6.2.1", [frame(1, accented)], accented),
            echo(
                "6.2.2",
                [frame(1, Array(accented[..<half]), isFinal: false), frame(0, Array(accented[half...]))],
                accented
            ),
            echo("6.2.3", fragments(1, accented, 1), accented), echo("6.2.4", fragments(1, greek, 1), greek),
            failing("6.3.1", [frame(1, surrogate)], code: 1007),
            failing("6.3.2", fragments(1, surrogate, 1), code: 1007),
            early(1, characters, inOneFrame: false), early(2, bytes, inOneFrame: false),
            early(3, characters, inOneFrame: true), early(4, bytes, inOneFrame: true),
        ]
    }()

    private static let closing: [WebSocketCase] = {
        func closed(_ name: String, _ frames: [WebSocketTestFrame], _ events: [Event] = [], _ codes: [UInt16?] = [1000])
            -> WebSocketCase
        { WebSocketCase(name, [.send(frames, chop: nil)], events, .replied(codes)) }
        let invalid: [UInt8] =
            [0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xCE, 0xBC, 0xCE, 0xB5, 0xED, 0xA0, 0x80] + Array("edited".utf8)
        let stars = [UInt8](repeating: UInt8(ascii: "*"), count: 124)
        var large: [UInt8] = []
        while large.count < 256 << 10 { large += Array("BAsd7&jh23".utf8) }
        large.removeLast(large.count - (256 << 10))
        var cases = [
            echo("7.1.1", [frame(1, "Hello World!")], Array("Hello World!".utf8)),
            closed("7.1.2", [.close(1000), frame(8)]), closed("7.1.3", [.close(1000), frame(9)]),
            closed("7.1.4", [.close(1000), frame(1, "Hello World!")]),
            closed("7.1.5", [frame(1, "fragment1", isFinal: false), .close(1000), frame(0, "fragment2")]),
            WebSocketCase(
                "7.1.6",
                [.send([frame(1, large), frame(1, "Hello World!"), .close(1000), frame(9)], chop: nil)],
                [],
                .any
            ),
            closed("7.3.1", [frame(8)], [], [1000, nil]), closed("7.3.2", [frame(8, "a")], [], [1002]),
            closed("7.3.3", [.close(1000)]), closed("7.3.4", [.close(1000, Array("Hello World!".utf8))]),
            closed("7.3.5", [.close(1000, Array(stars[..<123]))]),
            closed("7.3.6", [.close(1000, stars)], [], [1002]),
            closed("7.5.1", [.close(1000, invalid)], [], [1002, 1007]),
        ]
        let valid: [UInt16] = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
        for (index, code) in valid.enumerated() {
            cases.append(closed("7.7.\(index + 1)", [.close(code)], [], [1000, code]))
        }
        for (index, code) in [UInt16](arrayLiteral: 0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999).enumerated() {
            cases.append(closed("7.9.\(index + 1)", [.close(code)], [], [1002]))
        }
        for (index, code) in [UInt16](arrayLiteral: 5000, 65535).enumerated() {
            cases.append(WebSocketCase("7.13.\(index + 1)", [.send([.close(code)], chop: nil)], [], .any))
        }
        return cases
    }()

    private static let autoFragmented: WebSocketCase = {
        let payload = [UInt8](repeating: UInt8(ascii: "*"), count: 65536)
        return echo("10.1.1", fragments(1, payload, 1300), payload)
    }()
}
