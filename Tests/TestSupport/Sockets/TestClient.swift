// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A client that sends exactly the given bytes, and parses responses with the tests' own parser.
package final class TestClient {
    private var descriptor: Int32
    private var reader = MessageReader()

    package init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        descriptor = try TestSocket.connect(port: port, receiveBuffer: receiveBuffer)
    }

    package init(unixPath: String) throws {
        descriptor = try TestSocket.connect(unixPath: unixPath)
    }

    deinit { close() }

    /// Sets the time limit of later reads and writes, where the peer may take long on a busy machine.
    package func setTimeouts(seconds: Int) { TestSocket.setTimeouts(descriptor, seconds: seconds) }

    // MARK: Sending

    package func send(_ text: String) throws { try send(Array(text.utf8)) }

    package func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress! + sent, $0.count - sent, 0) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw TestSocket.Failure("send") }
            sent += count
        }
    }

    /// Sends as much as possible without blocking.
    ///
    /// - Returns: the number of sent bytes; 0 when the call would block.
    package func sendNow(_ bytes: [UInt8]) throws -> Int {
        let count = bytes.withUnsafeBytes {
            Glibc.send(descriptor, $0.baseAddress!, $0.count, Int32(MSG_DONTWAIT))
        }
        if count >= 0 { return count }
        guard errno == EAGAIN else { throw TestSocket.Failure("send") }
        return 0
    }

    /// Half-closes the connection.
    package func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Closes the connection with a reset.
    package func reset() {
        guard descriptor >= 0 else { return }
        TestSocket.reset(descriptor)
        descriptor = -1
    }

    package func close() {
        guard descriptor >= 0 else { return }
        Glibc.close(descriptor)
        descriptor = -1
    }

    // MARK: Receiving

    /// Reads some bytes; empty at the end of the connection.
    package func receive(upTo limit: Int = 64 << 10) throws -> [UInt8] {
        var failure: TestSocket.Failure?
        let bytes = [UInt8](unsafeUninitializedCapacity: limit) { room, count in
            while true {
                count = recv(descriptor, room.baseAddress!, limit, 0)
                if count >= 0 { return }
                if errno != EINTR {
                    failure = TestSocket.Failure("recv")
                    count = 0
                    return
                }
            }
        }
        if let failure { throw failure }
        return bytes
    }

    /// The next complete response.
    package func readResponse(to method: String = "GET") throws -> HTTPMessage {
        guard let response = try reader.message(.response(to: method), from: { try receive() }) else {
            throw MessageReader.Malformed(description: "the connection ended without an answer")
        }
        return response
    }

    /// The head of the next response; its body is not read.
    package func readResponseHead(to method: String = "GET") throws -> HTTPMessage {
        guard let response = try reader.message(.response(to: method), from: { try receive() }, withBody: false) else {
            throw MessageReader.Malformed(description: "the connection ended without an answer")
        }
        return response
    }

    /// A complete response whose head has been read before.
    ///
    /// - Parameter after: is called after each piece, with its number of bytes.
    package func readBody(
        of head: HTTPMessage,
        to method: String = "GET",
        after: (Int) -> Void = { _ in }
    ) throws -> HTTPMessage {
        var whole = head
        try reader.body(of: &whole, .response(to: method)) {
            let piece = try receive()
            after(piece.count)
            return piece
        }
        return whole
    }

    /// All remaining bytes up to the end of the connection.
    package func readToEnd() throws -> [UInt8] {
        var all = reader.rest
        while true {
            let bytes = try receive()
            if bytes.isEmpty { return all }
            all += bytes
        }
    }

    /// Whether the peer has closed, and no bytes are left.
    package func isAtEnd() throws -> Bool { try readToEnd().isEmpty }
}
