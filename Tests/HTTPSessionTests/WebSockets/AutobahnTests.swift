// SPDX-License-Identifier: Apache-2.0
import Foundation
import HTTPCore
import IOCore
import ServerTrust
import SessionCore
import TestSupport
import Testing
import WebSocketCore

@testable import HTTPSessionCore

/// Runs the cases of Autobahn's suite over pinned TLS, on connections of HTTP/1.1 and on streams of HTTP/2: a scripted server sends
/// what each case sends, and the client is a program that returns each message.
@Suite("Autobahn's cases", .onOwnThreads)
struct AutobahnTests {
    /// What a server has seen of a case; nil: as expected.
    private static func play(_ test: WebSocketCase, _ peer: inout WebSocketPeer) throws -> String? {
        var seen: [WebSocketCase.Event] = []
        var close: WebSocketTestFrame?
        func note(_ frame: WebSocketTestFrame) {
            switch frame.opcode {
            case 8: close = frame
            case 10: seen.append(.pong(frame.payload))
            default: seen.append(.message(isText: frame.opcode == 1, frame.payload))
            }
        }
        do {
            for step in test.steps {
                switch step {
                case .send(let frames, let chop): try peer.send(frames, chop: chop)
                case .begin(let length, let part):
                    let whole = WebSocketTestFrame(1, [UInt8](repeating: 0, count: length)).bytes(isMasked: false)
                    try peer.connection.write(Array(whole[..<(whole.count - length)]) + part)
                case .more(let part): try peer.connection.write(part)
                case .awaitEvent, .awaitClose:
                    guard let frame = try peer.nextWhole() else { return "the connection has ended" }
                    note(frame)
                }
            }
        } catch is OriginConnection.Gone {
            // The program has failed the connection before it got everything.
        }
        if test.end == .normal {
            while seen.count < test.events.count, close == nil, let frame = try peer.nextWhole() { note(frame) }
            try peer.send(.close(1000))
        }
        while close == nil, let frame = try peer.nextWhole() { note(frame) }
        if case .any = test.end { return nil }
        let areAllSeen = seen == test.events
        let areMissing = test.mayLoseEvents && seen.isEmpty
        guard areAllSeen || areMissing else { return "\(seen.count) events instead of \(test.events.count)" }
        guard let close else { return "there is no Close frame" }
        let codes: [UInt16?] =
            switch test.end {
            case .normal: [1000]
            case .failed(let codes): codes
            case .replied(let codes): codes
            case .any: []
            }
        return codes.contains(close.closeCode) ? nil : "the Close frame has the code \(close.closeCode ?? 0)"
    }

    private func run(_ cases: [WebSocketCase], over transport: WebSocketTransport) async throws {
        let faults = Monitor<[String]>([])
        let counts = Monitor<[Int: Int]>([:])
        let stage = try WebSocketStage(transport) { opening in
            let test = cases[opening.number]
            var peer = try opening.open()
            let fault = try Self.play(test, &peer)
            if let fault { faults.with { $0.append("\(test.name): \(fault)") } }
            counts.with { $0[test.category, default: 0] += fault == nil ? 1 : 0 }
        }
        var options = WebSocketOptions()
        options.maximumMessageSize = 16 << 20
        for _ in cases {
            let socket = try await stage.makeSocket(options: options)
            do {
                try await socket.open()
                for try await message in socket.messages { try await socket.send(message) }
            } catch {
                // The server violates the protocol in this case; its side says whether the reaction is right.
            }
            await socket.ended()
        }
        await stage.end()
        try stage.origin.waitForClosed(transport == .http1 ? cases.count : 1)
        #expect(faults.with { $0 } == [])
        let passed = counts.with { $0 }
        for category in Set(cases.map(\.category)).sorted() {
            let all = cases.count { $0.category == category }
            #expect(passed[category] == all)
            print("Autobahn \(category) over \(transport): \(passed[category] ?? 0) of \(all) cases")
        }
    }

    @Test(
        "1 to 7 and 10: frames, pings, reserved bits, opcodes, fragments, UTF-8, closing",
        arguments: WebSocketTransport.allCases
    )
    func small(transport: WebSocketTransport) async throws { try await run(WebSocketCase.all, over: transport) }

    @Test("9: large messages, many fragments and many messages", arguments: WebSocketTransport.allCases)
    func large(transport: WebSocketTransport) async throws { try await run(WebSocketCase.large, over: transport) }

    /// What the client offers, and what the server makes of it: groups 12 and 13.
    private struct Compression: Sendable {
        let name: String
        var client = WebSocketCompression()
        var server = PermessageDeflate()
    }

    private static let compressions: [Compression] = {
        var all = (1...5).map { Compression(name: "12.\($0)") }
        for (number, takeover, bits) in [
            (1, true, 15), (2, false, 15), (3, true, 9), (4, true, 15), (5, false, 9), (6, false, 15), (7, false, 9),
        ] {
            var one = Compression(name: "13.\(number)")
            one.client.serverContextTakeover = takeover
            if number > 2 { one.client.serverMaxWindowBits = bits }
            one.server = PermessageDeflate(
                clientNoContextTakeover: !takeover,
                serverNoContextTakeover: !takeover,
                clientMaxWindowBits: bits,
                serverMaxWindowBits: bits
            )
            all.append(one)
        }
        return all
    }()

    /// Content of the kinds that the suite has: text, pictures, and data that cannot be compressed.
    private static func content(_ name: String, _ count: Int) -> (isText: Bool, bytes: [UInt8]) {
        var generator = SeededGenerator(seed: UInt64(count))
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 64)
        switch name {
        case "12.2":
            while bytes.count < count {
                let shade = UInt8.random(in: 0...255, using: &generator)
                bytes += [UInt8](repeating: shade, count: Int.random(in: 1...9, using: &generator))
            }
        case "12.5": while bytes.count < count { bytes.append(UInt8.random(in: 0...255, using: &generator)) }
        case "12.4":
            while bytes.count < count { bytes += Array("<li class=\"row\">\(bytes.count) &amp; more</li>\n".utf8) }
        default:
            while bytes.count < count {
                bytes += Array("{\"id\":\(Int.random(in: 0...9999, using: &generator)),\"name\":\"Faust\"},\n".utf8)
            }
        }
        bytes.removeLast(bytes.count - count)
        return (name != "12.2" && name != "12.3" && name != "12.5", bytes)
    }

    @Test("12 and 13: compressed messages of each size under each agreement", arguments: WebSocketTransport.allCases)
    func compressed(transport: WebSocketTransport) async throws {
        // Each case of the suite has a thousand messages; `PINPROXY_AUTOBAHN=1000` sends them.
        let count = ProcessInfo.processInfo.environment["PINPROXY_AUTOBAHN"].flatMap { Int($0) } ?? 4
        let sizes = [16, 64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072]
        let fragmented = [
            (8192, 256), (16384, 256), (32768, 256), (65536, 256), (131072, 256), (131072, 1024), (131072, 4096),
            (131072, 32768),
        ]
        let shapes = sizes.map { ($0, 0) } + fragmented
        var passed: [String: Int] = [:]
        for compression in Self.compressions {
            for (size, fragment) in shapes {
                let (isText, bytes) = Self.content(compression.name, size)
                let returned = try await echoed(
                    WebSocketMessage(isText: isText, bytes: bytes),
                    times: count,
                    fragment: fragment,
                    compression,
                    over: transport
                )
                #expect(returned == count, "\(compression.name), \(size) bytes in \(fragment)")
                if returned == count { passed[String(compression.name.prefix(2)), default: 0] += 1 }
            }
        }
        for (group, count) in passed.sorted(by: { $0.key < $1.key }) {
            print("Autobahn \(group) over \(transport): \(count) cases")
        }
        #expect(passed == ["12": 90, "13": 126])
    }

    /// How many messages the client has returned as they were sent.
    private func echoed(
        _ message: WebSocketMessage,
        times: Int,
        fragment: Int,
        _ compression: Compression,
        over transport: WebSocketTransport
    ) async throws -> Int {
        let right = Monitor(0)
        let wanted = compression.server
        let stage = try WebSocketStage(transport) { opening in
            var fields = HeaderFields()
            try fields.append(
                name: "Sec-WebSocket-Extensions",
                value: opening.request["Sec-WebSocket-Extensions"] ?? ""
            )
            guard let first = WebSocketExtension.list(fields)?.first, let offer = PermessageDeflateOffer(first) else {
                throw NoRequest()
            }
            let agreed = offer.accepted(wanting: wanted)
            let peer = try opening.open([("Sec-WebSocket-Extensions", offer.response(agreed))])
            var settings = WebSocketMachine.Settings()
            settings.role = .server
            settings.deflate = agreed
            settings.smallestCompressed = 1
            if fragment > 0 { settings.fragmentSize = fragment }
            var machine = WebSocketMachine(settings)
            for _ in 0..<times {
                machine.begin(message)
                while !machine.writeNext() {}
                try peer.connection.write([UInt8](copying: machine.output.bytes))
                machine.output.removeAll()
                if try Self.next(&machine, peer) == .message(message) { right.with { $0 += 1 } }
            }
            machine.close(WebSocketClose(code: 1000))
            try peer.connection.write([UInt8](copying: machine.output.bytes))
            _ = try Self.next(&machine, peer)
        }
        var options = WebSocketOptions()
        options.compression = compression.client
        let socket = try await stage.makeSocket(options: options)
        try await socket.open()
        for try await message in socket.messages { try await socket.send(message) }
        await stage.end()
        return right.with { $0 }
    }

    private static func next(
        _ machine: inout WebSocketMachine,
        _ peer: borrowing WebSocketPeer
    ) throws -> WebSocketMachine.Event {
        while true {
            let bytes = try peer.connection.read()
            guard !bytes.isEmpty else { throw NoRequest() }
            var position = 0
            let event = machine.next(bytes.span, &position)
            if event != .needsInput { return event }
        }
    }
}
