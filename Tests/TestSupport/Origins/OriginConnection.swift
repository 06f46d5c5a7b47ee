// SPDX-License-Identifier: Apache-2.0
import COpenSSL
import Foundation
import Glibc

/// One connection of a scripted origin, for the thread that runs the script on it.
package final class OriginConnection {
    /// The client has disconnected, or did not do what the script expects.
    package struct Gone: Error {
        package init() {}
    }

    package enum Ending {
        /// A proper end, with close_notify.
        case clean
        /// A truncation: the transport ends without close_notify.
        case cut
        /// A reset.
        case reset
    }

    /// The number of the connection, from 0, in the order of acceptance.
    package let number: Int
    private let descriptor: Int32
    private let tls: OpaquePointer?
    private let ledger: Monitor<[ScriptedOrigin.Record]>
    private var reader = MessageReader()
    private var isClosed = false

    init(number: Int, descriptor: Int32, tls: OpaquePointer?, ledger: Monitor<[ScriptedOrigin.Record]>) {
        self.number = number
        self.descriptor = descriptor
        self.tls = tls
        self.ledger = ledger
    }

    func record(_ change: (inout ScriptedOrigin.Record) -> Void) {
        ledger.with { change(&$0[number]) }
    }

    // MARK: Reading

    /// Reads some bytes from the client; empty at its end. They are counted in the record.
    package func read() -> [UInt8] {
        let room = 64 << 10
        let bytes = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            if let tls {
                ERR_clear_error()
                count = max(0, Int(SSL_read(tls, buffer.baseAddress!, Int32(room))))
            } else {
                count = max(0, recv(descriptor, buffer.baseAddress!, room, 0))
            }
        }
        if !bytes.isEmpty { record { $0.applicationBytes += bytes.count } }
        return bytes
    }

    /// The next complete request; nil when the client has ended.
    package func readRequest() throws -> HTTPMessage? {
        guard let request = try reader.message(.request, from: { read() }) else { return nil }
        record { $0.requests.append(request) }
        return request
    }

    /// The head of the next request; its body is not read.
    package func readRequestHead() throws -> HTTPMessage? {
        guard let head = try reader.message(.request, from: { read() }, withBody: false) else { return nil }
        record { $0.requests.append(head) }
        return head
    }

    /// The body that belongs to a head of `readRequestHead`.
    package func readBody(of head: HTTPMessage) throws -> HTTPMessage {
        var whole = head
        try reader.body(of: &whole, .request) { read() }
        record { $0.requests[$0.requests.count - 1] = whole }
        return whole
    }

    /// Reads until the client ends.
    package func readToEnd() {
        while !read().isEmpty {}
    }

    /// From now on the system drops what comes on the connection, as if the way were cut: nothing is read and nothing acknowledged.
    package func goDeaf() {
        // A filter for the socket (SO_ATTACH_FILTER, socket(7)) that says of each segment: keep nothing of it.
        var instruction: (code: UInt16, jumps: UInt16, value: UInt32) = (6, 0, 0)
        withUnsafeMutablePointer(to: &instruction) { code in
            var program: (count: UInt16, code: UnsafeMutableRawPointer) = (1, UnsafeMutableRawPointer(code))
            let isSet = setsockopt(descriptor, SOL_SOCKET, 26, &program, socklen_t(MemoryLayout.size(ofValue: program)))
            precondition(isSet == 0, "SO_ATTACH_FILTER: \(errno)")
        }
    }

    // MARK: Writing

    package func write(_ text: String) throws { try write(Array(text.utf8)) }

    /// Writes all bytes, or throws when the client has disconnected. The record counts the written bytes.
    package func write(_ bytes: [UInt8]) throws {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { all in
                let start = all.baseAddress! + written
                let room = min(bytes.count - written, 16 << 10)
                guard let tls else { return send(descriptor, start, room, Int32(MSG_NOSIGNAL)) }
                ERR_clear_error()
                return Int(SSL_write(tls, start, Int32(room)))
            }
            guard count > 0 else { throw Gone() }
            written += count
            record { $0.bytesWritten += count }
        }
    }

    /// Writes each text in a TLS record of its own. The records arrive together.
    package func writeTogether(_ texts: String...) throws {
        // TCP_CORK: nothing goes out before the last one is there (tcp(7)).
        hold(true)
        defer { hold(false) }
        for text in texts { try write(text) }
    }

    private func hold(_ isHeld: Bool) {
        var value: Int32 = isHeld ? 1 : 0
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_CORK, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Writes a complete response with Content-Length.
    package func respond(
        _ body: String = "hello",
        status: String = "200 OK",
        fields: [String] = ["Content-Type: text/plain"]
    ) throws {
        try write(OriginResponse.text(body, status: status, fields: fields))
    }

    /// Passes bytes on between the client and another socket, in both directions, until both have ended or the client breaks off.
    /// A close_notify of the client is a FIN for the other end, and the reverse.
    ///
    /// - Parameters:
    ///   - recordSize: the largest number of bytes in one TLS record to the client.
    ///   - seen: gets the bytes of both directions.
    ///   - often: called with the connection's `SSL`, again and again.
    package func relay(
        with other: Int32,
        recordSize: Int = 16 << 10,
        seen: Monitor<[UInt8]>? = nil,
        often: ((OpaquePointer) -> Void)? = nil
    ) {
        guard let tls else { return relayPlainly(with: other, seen) }
        for socket in [descriptor, other] { _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) }
        defer { _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK) }
        // SSL_MODE_ENABLE_PARTIAL_WRITE and SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, by SSL_CTRL_MODE.
        SSL_ctrl(tls, 33, 3, nil)
        var up: [UInt8] = []
        var down: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 64 << 10)
        var isUpOver = false
        var isUpTold = false
        var isDownOver = false
        var isDownTold = false
        while true {
            var hasMoved = false
            often?(tls)
            if up.count < room.count, !isUpOver {
                ERR_clear_error()
                let count = SSL_read(tls, &room, Int32(room.count))
                if count > 0 {
                    up += room[..<Int(count)]
                    seen?.with { $0 += room[..<Int(count)] }
                    record { $0.applicationBytes += Int(count) }
                    hasMoved = true
                } else if SSL_get_error(tls, count) == SSL_ERROR_ZERO_RETURN {
                    isUpOver = true
                    hasMoved = true
                } else if SSL_get_error(tls, count) != SSL_ERROR_WANT_READ {
                    return
                }
            }
            if !up.isEmpty {
                let count = send(other, up, up.count, Int32(MSG_NOSIGNAL))
                if count > 0 {
                    up.removeFirst(count)
                } else if errno != EAGAIN {
                    up = []
                    isDownOver = true
                }
                hasMoved = hasMoved || count > 0
            } else if isUpOver, !isUpTold {
                isUpTold = true
                shutdown(other, Int32(SHUT_WR))
            }
            if down.count < room.count, !isDownOver {
                let count = recv(other, &room, room.count, 0)
                if count > 0 {
                    down += room[..<count]
                    seen?.with { $0 += room[..<count] }
                    hasMoved = true
                } else if count == 0 || errno != EAGAIN {
                    isDownOver = true
                    hasMoved = true
                }
            }
            if !down.isEmpty {
                ERR_clear_error()
                let count = SSL_write(tls, down, Int32(min(down.count, recordSize)))
                if count > 0 {
                    down.removeFirst(Int(count))
                } else if SSL_get_error(tls, count) != SSL_ERROR_WANT_WRITE {
                    return
                }
                hasMoved = hasMoved || count > 0
            } else if isDownOver, !isDownTold {
                isDownTold = true
                ERR_clear_error()
                SSL_shutdown(tls)
            }
            if isUpTold, isDownTold { return }
            guard !hasMoved else { continue }
            func events(_ reads: Bool, _ writes: Bool) -> Int16 { Int16((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)) }
            var sockets = [
                pollfd(fd: descriptor, events: events(up.count < room.count, !down.isEmpty), revents: 0),
                pollfd(fd: other, events: events(down.count < room.count, !up.isEmpty), revents: 0),
            ]
            poll(&sockets, 2, often == nil ? 1000 : 5)
        }
    }

    private func relayPlainly(with other: Int32, _ seen: Monitor<[UInt8]>?) {
        let client = descriptor
        @Sendable func copy(from source: Int32, to target: Int32) {
            var room = [UInt8](repeating: 0, count: 64 << 10)
            while case let count = recv(source, &room, room.count, 0), count > 0 {
                seen?.with { $0 += room[..<count] }
                _ = send(target, room, count, Int32(MSG_NOSIGNAL))
            }
            shutdown(target, Int32(SHUT_WR))
        }
        let isUpOver = Gate()
        Thread.detachNewThread {
            copy(from: client, to: other)
            isUpOver.open()
        }
        copy(from: other, to: client)
        try? isUpOver.pass()
    }

    /// Asks the client for another handshake (HelloRequest of TLS 1.2), without reading what it says to that.
    package func requestRenegotiation() {
        guard let tls else { return }
        ERR_clear_error()
        _ = SSL_renegotiate(tls)
        _ = SSL_do_handshake(tls)
    }

    /// Sends a session ticket of TLS 1.3, which the client has no use for.
    ///
    /// - Parameters:
    ///   - size: that of what the ticket has besides the session.
    ///   - recordSize: the largest number of bytes in one TLS record, from now on.
    package func sendTicket(with size: Int = 0, recordSize: Int? = nil) throws {
        guard let tls else { return }
        ERR_clear_error()
        // SSL_CTRL_SET_MAX_SEND_FRAGMENT
        if let recordSize { SSL_ctrl(tls, 52, recordSize, nil) }
        if size > 0, let session = SSL_get_session(tls) {
            SSL_SESSION_set1_ticket_appdata(session, [UInt8](repeating: 0, count: size), size)
        }
        guard SSL_new_session_ticket(tls) == 1, SSL_do_handshake(tls) == 1 else { throw Gone() }
    }

    /// Goes on with other keys (KeyUpdate of TLS 1.3).
    package func changeKeys() throws {
        guard let tls else { return }
        ERR_clear_error()
        guard SSL_key_update(tls, SSL_KEY_UPDATE_NOT_REQUESTED) == 1, SSL_do_handshake(tls) == 1 else { throw Gone() }
    }

    /// Ends the sending side with close_notify, or with a FIN without TLS. The client's data can still be read.
    package func finishWriting() {
        ERR_clear_error()
        if let tls { SSL_shutdown(tls) } else { shutdown(descriptor, Int32(SHUT_WR)) }
    }

    /// Whether the client has sent close_notify, in the data read so far.
    package var receivedCloseNotify: Bool { tls.map { SSL_get_shutdown($0) & SSL_RECEIVED_SHUTDOWN != 0 } ?? false }

    /// Ends the connection; without this call, the end of the script ends it properly.
    package func close(_ ending: Ending = .clean) {
        guard !isClosed else { return }
        isClosed = true
        ERR_clear_error()
        if let tls {
            if ending == .clean { SSL_shutdown(tls) }
            SSL_free(tls)
        }
        // Under the lock, so that an origin that stops never uses a reused descriptor.
        record { record in
            record.descriptor = -1
            if ending == .reset { TestSocket.reset(descriptor) } else { Glibc.close(descriptor) }
            record.isClosed = true
        }
    }
}

/// Responses as bytes.
package enum OriginResponse {
    package static func text(
        _ body: String,
        status: String = "200 OK",
        fields: [String] = ["Content-Type: text/plain"]
    ) -> String {
        let head = (["HTTP/1.1 \(status)"] + fields + ["Content-Length: \(body.utf8.count)"]).joined(separator: "\r\n")
        return "\(head)\r\n\r\n\(body)"
    }
}
