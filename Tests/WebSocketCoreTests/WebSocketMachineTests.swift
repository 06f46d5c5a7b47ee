// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import TestSupport
import Testing
import WebSocketCore

/// A machine that returns each message, and the peer of a `WebSocketCase`.
private struct Echo: ~Copyable {
    var machine: WebSocketMachine
    let isServer: Bool
    private var reader: WebSocketTestReader
    private(set) var seen: [WebSocketCase.Event] = []
    private(set) var close: WebSocketTestFrame?
    private(set) var sentAfterClose = false

    init(isServer: Bool, limit: Int = 16 << 20) {
        self.isServer = isServer
        var settings = WebSocketMachine.Settings()
        settings.role = isServer ? .server : .client
        settings.maximumMessageSize = limit
        machine = WebSocketMachine(settings)
        reader = WebSocketTestReader(expectsMask: !isServer)
    }

    mutating func send(_ frames: [WebSocketTestFrame], chop: Int?) throws {
        try send(frames.flatMap { $0.bytes(isMasked: isServer) }, chop: chop)
    }

    mutating func send(_ bytes: [UInt8], chop: Int? = nil) throws {
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + (chop ?? bytes.count))
            try receive(Array(bytes[start..<end]))
            start = end
        }
    }

    private mutating func receive(_ piece: [UInt8]) throws {
        var position = 0
        while true {
            switch machine.next(piece.span, &position) {
            case .needsInput: return
            case .message(let message):
                machine.begin(message)
                while !machine.writeNext() {}
                try look()
            case .ping, .pong, .closed, .failed: try look()
            }
        }
    }

    private mutating func look() throws {
        reader.append([UInt8](copying: machine.output.bytes))
        machine.output.removeAll()
        var message: WebSocketTestFrame?
        while let frame = try reader.next() {
            if close != nil { sentAfterClose = true }
            switch frame.opcode {
            case 8: close = frame
            case 10: seen.append(.pong(frame.payload))
            default:
                var whole = message ?? frame
                if message != nil { whole.payload += frame.payload }
                message = frame.isFinal ? nil : whole
                if frame.isFinal { seen.append(.message(isText: whole.opcode == 1, whole.payload)) }
            }
        }
    }
}

struct WebSocketMachineTests {
    @Test(arguments: WebSocketCase.all)
    func `A client, and a server, behaves as Autobahn's case expects`(test: WebSocketCase) throws {
        for isServer in [false, true] { try run(test, isServer: isServer, chop: nil) }
    }

    @Test func `The same holds when all bytes come one by one`() throws {
        for test in WebSocketCase.all where test.name != "7.1.6" { try run(test, isServer: false, chop: 1) }
    }

    @Test func `Large messages of Autobahn's case 9 are returned`() throws {
        for test in WebSocketCase.large where ["9.1.4", "9.3.1", "9.4.7"].contains(test.name) {
            try run(test, isServer: false, chop: nil)
        }
    }

    private func run(_ test: WebSocketCase, isServer: Bool, chop: Int?) throws {
        var echo = Echo(isServer: isServer)
        for step in test.steps {
            switch step {
            case .send(let frames, let own): try echo.send(frames, chop: chop ?? own)
            case .begin(let length, let part):
                let whole = WebSocketTestFrame(1, [UInt8](repeating: 0, count: length)).bytes(isMasked: isServer)
                let head = Array(whole[..<(whole.count - length)])
                try echo.send(head + (isServer ? masked(part) : part), chop: chop)
            case .more(let part):
                // A part of a masked payload that is not at its begin.
                guard isServer else {
                    try echo.send(part, chop: chop)
                    continue
                }
                return
            case .awaitEvent: break
            case .awaitClose: #expect(echo.close != nil, "\(test.name)")
            }
        }
        let (seen, closed) = (echo.seen, echo.close)
        if test.end != .any { #expect(seen == test.events, "\(test.name)") }
        switch test.end {
        case .normal:
            #expect(closed == nil, "\(test.name)")
            try echo.send([.close(1000)], chop: chop)
            let reply = echo.close
            #expect(reply?.closeCode == 1000, "\(test.name)")
        case .failed(let codes):
            #expect(codes.contains(closed?.closeCode ?? 0), "\(test.name): \(closed?.closeCode ?? 0)")
        case .replied(let codes):
            #expect(codes.contains(closed?.closeCode), "\(test.name): \(closed?.closeCode ?? 0)")
        case .any: #expect(closed != nil, "\(test.name)")
        }
        let isSilent = !echo.sentAfterClose
        #expect(isSilent, "\(test.name)")
    }

    private func masked(_ part: [UInt8]) -> [UInt8] {
        let mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        return part.enumerated().map { $1 ^ mask[$0 & 3] }
    }

    // MARK: Limits

    @Test func `A message that would be too long fails at its head`() throws {
        var echo = Echo(isServer: false, limit: 1000)
        try echo.send([WebSocketTestFrame(2, isFinal: false, [UInt8](repeating: 1, count: 600))], chop: nil)
        let before = echo.close
        #expect(before == nil)
        // The head of a continuation of 401 bytes.
        try echo.send([0x80, 126, 1, 0x91])
        let after = echo.close
        #expect(after?.closeCode == 1009)
    }

    @Test func `A message of just the limit is taken`() throws {
        var echo = Echo(isServer: false, limit: 1000)
        let payload = [UInt8](repeating: 1, count: 1000)
        try echo.send([WebSocketTestFrame(2, payload)], chop: nil)
        let seen = echo.seen
        #expect(seen == [.message(isText: false, payload)])
    }

    @Test func `A server's masked frame fails, and a client's unmasked one`() throws {
        for isServer in [false, true] {
            var echo = Echo(isServer: isServer)
            try echo.send(WebSocketTestFrame(1, [65]).bytes(isMasked: !isServer))
            let close = echo.close
            #expect(close?.closeCode == 1002)
        }
    }

    @Test func `One Pong waits, however many pings came`() throws {
        var machine = WebSocketMachine()
        machine.holdsPongs = true
        for number in 0..<1000 {
            let ping = WebSocketTestFrame(9, Array("\(number)".utf8)).bytes(isMasked: false)
            var position = 0
            let event = machine.next(ping.span, &position)
            #expect(event == .ping(Array("\(number)".utf8)))
        }
        let isEmpty = machine.output.isEmpty
        #expect(isEmpty)
        machine.holdsPongs = false
        machine.releasePong()
        var reader = WebSocketTestReader(expectsMask: true)
        reader.append([UInt8](copying: machine.output.bytes))
        #expect(try reader.next() == WebSocketTestFrame(10, Array("999".utf8)))
        #expect(try reader.next() == nil)
    }

    // MARK: Sending

    @Test func `A long message is sent in frames, and control frames go between them`() throws {
        var settings = WebSocketMachine.Settings()
        settings.fragmentSize = 10
        var machine = WebSocketMachine(settings)
        machine.begin(WebSocketMessage(isText: false, bytes: [UInt8](repeating: 5, count: 25)))
        let first = machine.writeNext()
        machine.ping([7])
        let second = machine.writeNext()
        let third = machine.writeNext()
        #expect([first, second, third] == [false, false, true])
        var reader = WebSocketTestReader(expectsMask: true)
        reader.append([UInt8](copying: machine.output.bytes))
        #expect(try reader.next() == WebSocketTestFrame(2, isFinal: false, [UInt8](repeating: 5, count: 10)))
        #expect(try reader.next() == WebSocketTestFrame(9, [7]))
        #expect(try reader.next() == WebSocketTestFrame(0, isFinal: false, [UInt8](repeating: 5, count: 10)))
        #expect(try reader.next() == WebSocketTestFrame(0, [UInt8](repeating: 5, count: 5)))
    }

    @Test func `Nothing is sent behind the Close frame`() throws {
        var machine = WebSocketMachine()
        machine.begin(WebSocketMessage(isText: true, bytes: Array("text".utf8)))
        machine.close(WebSocketClose(code: 1001, reason: Array("going".utf8)))
        let isComplete = machine.writeNext()
        machine.ping([1])
        machine.close(WebSocketClose(code: 1000))
        machine.begin(WebSocketMessage(isText: true, bytes: []))
        #expect(isComplete)
        var reader = WebSocketTestReader(expectsMask: true)
        reader.append([UInt8](copying: machine.output.bytes))
        #expect(try reader.next() == .close(1001, Array("going".utf8)))
        #expect(try reader.next() == nil)
    }

    @Test func `The reply to our Close frame ends the connection, after earlier messages`() throws {
        var machine = WebSocketMachine()
        machine.close(WebSocketClose(code: 1000))
        let bytes = [WebSocketTestFrame(1, [65]), .close(1000), WebSocketTestFrame(1, [66])].flatMap {
            $0.bytes(isMasked: false)
        }
        var position = 0
        let first = machine.next(bytes.span, &position)
        let second = machine.next(bytes.span, &position)
        let third = machine.next(bytes.span, &position)
        #expect(first == .message(WebSocketMessage(isText: true, bytes: [65])))
        #expect(second == .closed(WebSocketClose(code: 1000)))
        #expect(third == .needsInput)
        #expect(position == bytes.count)
        let isReceiving = machine.isReceiving
        #expect(!isReceiving)
    }

    @Test func `A reason is cut to 123 bytes, at the end of a character`() {
        let reason = Array(String(repeating: "é", count: 70).utf8)
        #expect(WebSocketClose.shortened(reason) == Array(reason[..<122]))
        #expect(WebSocketClose.shortened(Array(reason[..<100])) == Array(reason[..<100]))
    }
}
