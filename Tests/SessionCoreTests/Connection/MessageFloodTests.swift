// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("Messages of TLS without end from an origin that was accepted", .onOwnThreads)
struct MessageFloodTests {
    enum Message: CaseIterable {
        case ticket, keys, helloRequest

        func send(on connection: OriginConnection) throws {
            switch self {
            case .ticket: try connection.sendTicket()
            case .keys: try connection.changeKeys()
            case .helloRequest: connection.requestRenegotiation()
            }
        }
    }

    @Test("a few messages are accepted; an origin that goes on is disconnected", arguments: Message.allCases)
    func flood(message: Message) throws {
        for (count, isTaken) in [(60, true), (2000, false)] {
            let (isAsked, isWritten) = (Gate(), Gate())
            let origin = try ScriptedOrigin(
                try TestPKI.shared.server(TestSession.host),
                maximum: message == .helloRequest ? .tls12 : .tls13
            ) { connection in
                _ = try connection.readRequest()
                try isAsked.pass()
                try connection.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
                for _ in 0..<count { try message.send(on: connection) }
                try connection.write("half")
                isWritten.open()
                connection.readToEnd()
            }
            let session = try TestSession()
            let delegate = RecordingDelegate()
            try session.start(delegate, TestSession.endpoint(port: origin.port))
            if isTaken {
                // OpenSSL's server ends when it reads, amid its requests for a handshake, that the client declines: the client
                // reads when the last one is sent.
                try session.run(until: "the request") { origin.connections.first?.requests.count == 1 }
                isAsked.open()
                try isWritten.pass()
            } else {
                isAsked.open()
            }
            try session.finish(delegate)
            if isTaken {
                #expect(delegate.error == nil && delegate.text == "halfhalf", "\(String(describing: delegate.error))")
            } else {
                #expect(delegate.error?.code == .responseTruncated)
                #expect(delegate.error?.details.contains("without end") == true, "\(delegate.error?.details ?? "")")
            }
        }
    }

    @Test("a body in records of one byte takes several turns of the loop")
    func smallRecords() throws {
        let count = 2000
        let (isAsked, isWritten) = (Gate(), Gate())
        let origin = try ScriptedOrigin(try TestPKI.shared.server(TestSession.host)) { connection in
            _ = try connection.readRequest()
            try isAsked.pass()
            try connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n")
            for _ in 0..<count { try connection.write("x") }
            isWritten.open()
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingDelegate()
        try session.start(delegate, TestSession.endpoint(port: origin.port))
        try session.run(until: "the request") { origin.connections.first?.requests.count == 1 }
        // All of them wait in the socket before the loop turns.
        isAsked.open()
        try isWritten.pass()
        var turns = 0
        while !delegate.isComplete, turns < 100 {
            session.loop.turn(waitingAtMost: .milliseconds(100))
            turns += 1
        }
        #expect(delegate.error == nil && delegate.body.count == count)
        #expect(turns >= 3)
    }
}
