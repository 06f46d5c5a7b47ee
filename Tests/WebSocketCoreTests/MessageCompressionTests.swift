// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing
import WebSocketCore

/// Two machines, whose messages go through each other.
private struct Pair: ~Copyable {
    var client: WebSocketMachine
    var server: WebSocketMachine
    private(set) var bytesSent = 0

    init(_ deflate: PermessageDeflate?, fragmentSize: Int = 128 << 10, smallest: Int = 1) {
        var settings = WebSocketMachine.Settings()
        settings.deflate = deflate
        settings.fragmentSize = fragmentSize
        settings.smallestCompressed = smallest
        client = WebSocketMachine(settings)
        settings.role = .server
        server = WebSocketMachine(settings)
    }

    /// What comes back of a message that the client sends and the server returns.
    mutating func echo(_ message: WebSocketMessage, chop: Int? = nil) -> WebSocketMessage? {
        client.begin(message)
        while !client.writeNext() {}
        bytesSent += client.output.count
        guard let arrived = Self.pass(from: &client, to: &server, chop) else { return nil }
        server.begin(arrived)
        while !server.writeNext() {}
        return Self.pass(from: &server, to: &client, chop)
    }

    private static func pass(
        from one: inout WebSocketMachine,
        to other: inout WebSocketMachine,
        _ chop: Int?
    ) -> WebSocketMessage? {
        let bytes = [UInt8](copying: one.output.bytes)
        one.output.removeAll()
        var message: WebSocketMessage?
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + (chop ?? bytes.count))
            let piece = Array(bytes[start..<end])
            start = end
            var position = 0
            reading: while true {
                switch other.next(piece.span, &position) {
                case .needsInput: break reading
                case .message(let whole): message = whole
                default: return nil
                }
            }
        }
        return message
    }
}

struct MessageCompressionTests {
    private static func text(_ count: Int) -> [UInt8] {
        var generator = SeededGenerator(seed: UInt64(count + 1))
        var text: [UInt8] = []
        while text.count < count {
            text += Array("{\"id\":\(Int.random(in: 0..<1000, using: &generator)),\"name\":\"Größe\"},".utf8)
        }
        text.removeLast(text.count - count)
        return text
    }

    @Test(arguments: [8, 9, 12, 15], [8, 9, 15])
    func `Messages go both ways under each window, with and without a context`(clientBits: Int, serverBits: Int) {
        for (client, server) in [(false, false), (true, false), (false, true), (true, true)] {
            var pair = Pair(
                PermessageDeflate(
                    clientNoContextTakeover: client,
                    serverNoContextTakeover: server,
                    clientMaxWindowBits: clientBits,
                    serverMaxWindowBits: serverBits
                ),
                fragmentSize: 5000
            )
            for count in [1, 64, 300, 8192, 40_000, 131_072] {
                let message = WebSocketMessage(isText: false, bytes: Self.text(count))
                let returned = pair.echo(message, chop: count > 10_000 ? nil : 7)
                #expect(returned == message, "\(count)")
            }
        }
    }

    @Test func `A repeated message costs little with a context, and its full size without`() {
        let message = WebSocketMessage(isText: false, bytes: (0..<2000).map { _ in UInt8.random(in: 0...255) })
        var sizes: [Int] = []
        for keeps in [true, false] {
            var pair = Pair(PermessageDeflate(clientNoContextTakeover: !keeps))
            for _ in 0..<2 {
                let before = pair.bytesSent
                let returned = pair.echo(message)
                #expect(returned == message)
                sizes.append(pair.bytesSent - before)
            }
        }
        #expect(sizes[1] < 100)
        #expect(sizes[3] == sizes[2])
    }

    @Test func `A short message, and an empty one, is sent without compression`() throws {
        var settings = WebSocketMachine.Settings()
        settings.deflate = PermessageDeflate()
        var machine = WebSocketMachine(settings)
        for count in [0, 63, 64] {
            machine.begin(WebSocketMessage(isText: true, bytes: [UInt8](repeating: 65, count: count)))
            while !machine.writeNext() {}
        }
        var reader = WebSocketTestReader(expectsMask: true)
        reader.append([UInt8](copying: machine.output.bytes))
        #expect(try reader.next()?.reserved == 0)
        #expect(try reader.next()?.reserved == 0)
        #expect(try reader.next()?.reserved == 4)
    }

    // MARK: What peers send

    private static func events(
        _ frames: [WebSocketTestFrame],
        _ deflate: PermessageDeflate? = PermessageDeflate(),
        limit: Int = 1 << 20
    ) -> [WebSocketMachine.Event] {
        var settings = WebSocketMachine.Settings()
        settings.deflate = deflate
        settings.maximumMessageSize = limit
        var machine = WebSocketMachine(settings)
        let bytes = frames.flatMap { $0.bytes(isMasked: false) }
        var events: [WebSocketMachine.Event] = []
        var position = 0
        while true {
            let event = machine.next(bytes.span, &position)
            if event == .needsInput { return events }
            events.append(event)
        }
    }

    private static let hello = WebSocketMachine.Event.message(
        WebSocketMessage(isText: true, bytes: Array("Hello".utf8))
    )

    @Test func `The examples of RFC 7692, section 7.2.3, are read`() {
        let whole: [UInt8] = [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]
        let again: [UInt8] = [0xF2, 0x00, 0x11, 0x00, 0x00]
        let stored: [UInt8] = [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00]
        let final: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]
        let twoBlocks: [UInt8] = [0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00]
        #expect(Self.events([WebSocketTestFrame(1, reserved: 4, whole)]) == [Self.hello])
        let parts = [
            WebSocketTestFrame(1, isFinal: false, reserved: 4, Array(whole[..<3])),
            WebSocketTestFrame(0, Array(whole[3...])),
        ]
        #expect(Self.events(parts) == [Self.hello])
        #expect(
            Self.events([WebSocketTestFrame(1, reserved: 4, whole), WebSocketTestFrame(1, reserved: 4, again)])
                == [Self.hello, Self.hello]
        )
        #expect(Self.events([WebSocketTestFrame(1, reserved: 4, stored)]) == [Self.hello])
        #expect(Self.events([WebSocketTestFrame(1, reserved: 4, twoBlocks)]) == [Self.hello])
        // A final block, and a message behind it that refers to it.
        #expect(
            Self.events([WebSocketTestFrame(1, reserved: 4, final), WebSocketTestFrame(1, reserved: 4, again)])
                == [Self.hello, Self.hello]
        )
        // An empty message.
        #expect(
            Self.events([WebSocketTestFrame(1, reserved: 4, [0x00])])
                == [.message(WebSocketMessage(isText: true, bytes: []))]
        )
    }

    @Test func `A message that ends again and again is refused`() {
        // A final block without content has two bytes; each end copies the window.
        let ends = [UInt8](repeating: 0, count: 2 * 1000).indices.map { $0 % 2 == 0 ? UInt8(0x03) : 0x00 }
        guard case .failed(let fault) = Self.events([WebSocketTestFrame(1, reserved: 4, ends)]).last else {
            Issue.record("the message was taken")
            return
        }
        #expect(fault.code == 1007)
    }

    @Test func `RSV1 is refused without the extension, and in later and control frames`() {
        let faults = [
            Self.events([WebSocketTestFrame(1, reserved: 4, [0x00])], nil),
            Self.events([
                WebSocketTestFrame(1, isFinal: false, reserved: 4, [0x00]), WebSocketTestFrame(0, reserved: 4, [0x00]),
            ]), Self.events([WebSocketTestFrame(9, reserved: 4)]),
        ]
        for events in faults {
            guard case .failed(let fault) = events.last, events.count == 1 else {
                Issue.record("\(events)")
                continue
            }
            #expect(fault.code == 1002)
        }
    }

    @Test func `A compressed message that is broken fails with 1007`() {
        for payload in [[0xFF, 0xFF, 0xFF], [0xF2, 0x48, 0xCD]] as [[UInt8]] {
            guard case .failed(let fault) = Self.events([WebSocketTestFrame(1, reserved: 4, payload)]).first else {
                Issue.record("\(payload)")
                continue
            }
            #expect(fault.code == 1007)
        }
    }

    @Test func `A decompression bomb ends at the limit of the message`() throws {
        var settings = WebSocketMachine.Settings()
        settings.role = .server
        settings.deflate = PermessageDeflate()
        var sender = WebSocketMachine(settings)
        sender.begin(WebSocketMessage(isText: false, bytes: [UInt8](repeating: 0, count: 32 << 20)))
        while !sender.writeNext() {}
        #expect(sender.output.count < 100_000)
        let bytes = [UInt8](copying: sender.output.bytes)
        settings.role = .client
        settings.maximumMessageSize = 1 << 20
        var machine = WebSocketMachine(settings)
        var position = 0
        let event = machine.next(bytes.span, &position)
        guard case .failed(let fault) = event else { throw Unexpected(what: "\(event)") }
        #expect(fault.code == 1009)
    }

    @Test func `Text is checked for UTF-8 while it is decompressed`() throws {
        var settings = WebSocketMachine.Settings()
        settings.role = .server
        settings.deflate = PermessageDeflate()
        settings.fragmentSize = 1000
        var sender = WebSocketMachine(settings)
        var text = [UInt8](repeating: 65, count: 5000)
        text[100] = 0xFF
        sender.begin(WebSocketMessage(isText: true, bytes: text))
        while !sender.writeNext() {}
        let bytes = [UInt8](copying: sender.output.bytes)
        settings.role = .client
        var machine = WebSocketMachine(settings)
        var position = 0
        let event = machine.next(bytes.span, &position)
        guard case .failed(let fault) = event else { throw Unexpected(what: "\(event)") }
        #expect(fault.code == 1007)
    }
}
