// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc
import HTTPCore
import IOCore
import ServerTrust
import TestSupport
import Testing

@testable import SessionCore

@Suite("A stream's bytes", .onOwnThreads)
struct StreamBytesTests {
    enum Wire: CaseIterable, CustomStringConvertible {
        case plain, tls12, tls13

        var description: String { "\(self == .plain ? "TCP" : self == .tls12 ? "TLS 1.2" : "TLS 1.3")" }
    }

    private static let server = try! TestPKI.shared.server(TestSession.host)
    private struct Unexpected: Error {}

    private func origin(_ wire: Wire, _ script: @escaping ScriptedOrigin.Script) throws -> ScriptedOrigin {
        try ScriptedOrigin(
            wire == .plain ? nil : Self.server,
            maximum: wire == .tls12 ? .tls12 : .tls13,
            script: script
        )
    }

    private func endpoint(
        _ wire: Wire,
        _ origin: ScriptedOrigin,
        timeouts: TaskTimeouts = TaskTimeouts()
    ) throws -> Endpoint {
        try TestSession.endpoint(port: origin.port, scheme: wire == .plain ? .http : .https, timeouts: timeouts)
    }

    @Test(
        "eight megabytes reach a slow reader whole, and none are taken meanwhile",
        arguments: Wire.allCases
    )
    func slowReader(wire: Wire) throws {
        let data = patternBytes(8 << 20)
        let origin = try origin(wire) { try $0.write(data) }
        let session = try TestSession()
        let delegate = RecordingStream()
        var pauses = 0
        delegate.onData = { _ in
            pauses += 1
            return .pause
        }
        delegate.onReadClosed = { $0.closeWrite() }
        let stream = session.open(delegate, try endpoint(wire, origin))
        var before = 0
        while !delegate.isComplete {
            session.settle(3)
            #expect(delegate.body.count - before <= 64 << 10)
            before = delegate.body.count
            stream.resumeReceiving()
            try session.run(until: "more") { delegate.body.count > before || delegate.isComplete }
        }
        #expect(firstDifference(delegate.body, data) == nil)
        #expect(delegate.error == nil && delegate.isReadClosed)
        #expect(stream.bytesReceived == 8 << 20)
        #expect(pauses >= 128)
    }

    @Test(
        "eight megabytes reach a late reader, and the sender learns of room",
        arguments: Wire.allCases
    )
    func slowPeer(wire: Wire) throws {
        let data = patternBytes(8 << 20)
        let gate = Gate()
        let origin = try origin(wire) { connection in
            try gate.pass()
            var received: [UInt8] = []
            while received.count < data.count {
                let bytes = connection.read()
                guard !bytes.isEmpty else { return }
                received += bytes
            }
            try connection.write(received == data ? "same" : "different")
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        var sent = 0
        let feed: (LoopStreamTask) -> Void = { stream in
            while sent < data.count, stream.pendingBytes < 128 << 10 {
                let next = min(sent + 64 << 10, data.count)
                stream.send(data.span.extracting(sent..<next))
                sent = next
            }
        }
        delegate.onConnect = feed
        delegate.onSpace = feed
        delegate.onData = { stream in
            stream.closeWrite()
            return .proceed
        }
        let stream = session.open(delegate, try endpoint(wire, origin))
        try session.run(until: "the connection") { delegate.isConnected }
        session.settle(20)
        #expect(sent < data.count)
        #expect(stream.pendingBytes > 0 && stream.pendingBytes < 192 << 10)
        gate.open()
        try session.finish(delegate)
        #expect(delegate.text == "same")
        #expect(delegate.error == nil)
        #expect(stream.bytesSent == 8 << 20)
    }

    @Test("both directions run at once at full speed", arguments: Wire.allCases)
    func bothWays(wire: Wire) throws {
        let origin = try origin(wire) { connection in
            while case let bytes = connection.read(), !bytes.isEmpty { try connection.write(bytes) }
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        let data = patternBytes(4 << 20)
        var sent = 0
        delegate.onConnect = { stream in
            stream.send(data.span.extracting(0..<100_000))
            sent = 100_000
        }
        delegate.onData = { stream in
            if sent < data.count, stream.pendingBytes == 0 {
                let next = min(sent + 300_000, data.count)
                stream.send(data.span.extracting(sent..<next))
                sent = next
            }
            if sent == data.count { stream.closeWrite() }
            return .proceed
        }
        session.open(delegate, try endpoint(wire, origin))
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(firstDifference(delegate.body, data) == nil)
    }

    @Test("an origin's early bytes are delivered", arguments: Wire.allCases)
    func earlyBytes(wire: Wire) throws {
        let origin = try origin(wire) { connection in
            try connection.write("220 ready\r\n")
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onData = { stream in
            stream.closeWrite()
            return .proceed
        }
        session.open(delegate, try endpoint(wire, origin))
        try session.finish(delegate)
        #expect(delegate.text == "220 ready\r\n")
        #expect(delegate.error == nil)
    }

    @Test("a client that half-closes still gets the response", arguments: [Wire.plain, .tls13])
    func halfClose(wire: Wire) throws {
        let origin = try origin(wire) { connection in
            var count = 0
            while case let bytes = connection.read(), !bytes.isEmpty { count += bytes.count }
            try connection.write("\(count) bytes")
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { stream in
            stream.send(patternBytes(1 << 20).span)
            stream.closeWrite()
            #expect(!stream.canSend)
            stream.send("too late")
        }
        session.open(delegate, try endpoint(wire, origin))
        try session.finish(delegate)
        #expect(delegate.text == "1048576 bytes")
        #expect(delegate.error == nil && delegate.isReadClosed)
    }

    @Test("an origin that half-closes still listens", arguments: [Wire.plain, .tls13])
    func halfCloseOfThePeer(wire: Wire) throws {
        let origin = try origin(wire) { connection in
            try connection.write("that is all")
            connection.finishWriting()
            connection.readToEnd()
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        let stream = session.open(delegate, try endpoint(wire, origin))
        try session.run(until: "the origin's end") { delegate.isReadClosed }
        #expect(delegate.text == "that is all" && !delegate.isComplete)
        stream.send("an answer")
        session.settle()
        stream.closeWrite()
        try session.finish(delegate)
        #expect(delegate.error == nil)
        #expect(try origin.waitForClosed().map(\.applicationBytes) == [9])
    }

    @Test(
        "an end without close_notify differs from a clean one",
        arguments: [Wire.tls12, .tls13]
    )
    func cut(wire: Wire) throws {
        let origin = try origin(wire) { connection in
            try connection.write("half of")
            connection.close(.cut)
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        session.open(delegate, try endpoint(wire, origin))
        try session.finish(delegate)
        #expect(delegate.text == "half of")
        #expect(!delegate.isReadClosed)
        #expect(delegate.error?.code == .responseTruncated)
        #expect(delegate.error?.details.contains("unexpected eof") == true, "\(delegate.error?.details ?? "none")")
    }

    @Test("a reset differs from an end", arguments: Wire.allCases)
    func reset(wire: Wire) throws {
        let origin = try origin(wire) { connection in
            _ = connection.read()
            connection.close(.reset)
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { $0.send("x") }
        session.open(delegate, try endpoint(wire, origin))
        try session.finish(delegate)
        #expect(!delegate.isReadClosed)
        #expect(delegate.error?.code == .responseTruncated)
        #expect(delegate.error?.details.contains("reset") == true, "\(delegate.error?.details ?? "none")")
    }

    @Test("a reset during a pause is reported when reading continues", arguments: Wire.allCases)
    func resetWhilePaused(wire: Wire) throws {
        let gate = Gate()
        let origin = try origin(wire) { connection in
            try connection.write("x")
            try gate.pass()
            connection.close(.reset)
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onData = { _ in .pause }
        let stream = session.open(delegate, try endpoint(wire, origin))
        try session.run(until: "the first byte") { delegate.text == "x" }
        gate.open()
        try origin.waitForClosed()
        session.settle(2)
        // epoll would report a connection that is over in each turn.
        var turns = 0
        session.loop.run(
            until: {
                turns += 1
                return false
            },
            atMost: .milliseconds(50)
        )
        #expect(turns < 10)
        #expect(!delegate.isComplete)
        stream.resumeReceiving()
        try session.finish(delegate)
        #expect(delegate.error?.code == .responseTruncated)
    }

    @Test("without a byte either way a stream ends after its stall limit", arguments: Wire.allCases)
    func stall(wire: Wire) throws {
        let origin = try origin(wire) { $0.readToEnd() }
        var timeouts = TaskTimeouts()
        timeouts.stall = .milliseconds(100)
        let session = try TestSession()
        let delegate = RecordingStream()
        session.open(delegate, try endpoint(wire, origin, timeouts: timeouts))
        try session.finish(delegate)
        #expect(delegate.isConnected)
        #expect(delegate.error?.code == .stalled)
    }

    @Test("a cancelled stream is a reset for the other end")
    func cancelled() throws {
        let (listener, port) = try TestSocket.listen()
        defer { close(listener) }
        let session = try TestSession()
        let delegate = RecordingStream()
        let stream = session.open(delegate, try TestSession.endpoint(port: port, scheme: .http))
        try session.run(until: "the connection") { delegate.isConnected }
        let accepted = accept(listener, nil, nil)
        defer { close(accepted) }
        stream.cancel()
        #expect(delegate.error?.code == .cancelled && delegate.completions == 1)
        session.settle()
        var byte: UInt8 = 0
        #expect(recv(accepted, &byte, 1, 0) == -1)
        #expect(errno == ECONNRESET)
    }

    @Test("a cancelled stream sends no close_notify", arguments: [Wire.tls12, .tls13])
    func cancelledTLS(wire: Wire) throws {
        let origin = try origin(wire) { connection in
            _ = connection.read()
            connection.readToEnd()
            if connection.receivedCloseNotify { throw Unexpected() }
        }
        let session = try TestSession()
        let delegate = RecordingStream()
        delegate.onConnect = { $0.send("x") }
        let stream = session.open(delegate, try endpoint(wire, origin))
        try session.run(until: "the byte at the origin") { origin.applicationBytes == 1 }
        stream.cancel()
        #expect(delegate.error?.code == .cancelled)
        #expect(try origin.waitForClosed().map(\.failure) == [nil])
    }
}
