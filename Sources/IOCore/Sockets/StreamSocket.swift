// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc

/// The result of a read or a write, with the expected cases as values.
package enum TransferCount: Equatable, Sendable {
    case bytes(Int)
    /// The call would block; the loop will notify.
    case wouldBlock
    /// The peer has ended its side.
    case end
    case failed(IOFailure)
}

/// One connected stream socket, non-blocking, closed in `deinit`.
package struct StreamSocket: ~Copyable {
    package let descriptor: Int32

    /// Takes over a connected, non-blocking descriptor.
    package init(adopting descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
    }

    /// Makes the later close a reset, so that the peer knows that the data is incomplete (SO_LINGER, socket(7)). Unix
    /// sockets do not support it.
    package func resetOnClose() {
        var setting = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<linger>.size))
    }

    /// Reads up to `limit` bytes to the end of `buffer`.
    @inline(__always)
    package func read(into buffer: inout ByteBuffer, upTo limit: Int) -> TransferCount {
        var result = 0
        _ = buffer.write(upTo: limit) { room in
            result = pinproxy_receive(descriptor, room.baseAddress!, room.count)
            return max(result, 0)
        }
        return count(result, during: "read")
    }

    /// Writes as much of `buffer` as the socket accepts, and removes it from the buffer.
    @inline(__always)
    package func write(from buffer: inout ByteBuffer) -> TransferCount {
        let descriptor = descriptor
        let result = buffer.withUnsafeBytes { pinproxy_send(descriptor, $0.baseAddress!, $0.count) }
        if result > 0 { buffer.consume(result) }
        return result < 0 ? count(result, during: "send") : .bytes(result)
    }

    /// The same where more follows at once: a last packet that is not full waits for it.
    package func write(from buffer: inout ByteBuffer, beforeMore: Void) -> TransferCount {
        let descriptor = descriptor
        let result = buffer.withUnsafeBytes { pinproxy_send_more(descriptor, $0.baseAddress!, $0.count) }
        if result > 0 { buffer.consume(result) }
        return result < 0 ? count(result, during: "send") : .bytes(result)
    }

    /// Sends bytes of a file without copying them (sendfile(2)), as many as the socket accepts. Waits for the disk where the kernel does
    /// not have them in memory (`FileBytes.inMemory`). The process has to ignore SIGPIPE.
    ///
    /// - Returns: `.end` where the file ends before them.
    package func write(_ file: FileBytes) -> TransferCount {
        count(
            pinproxy_send_file(descriptor, file.descriptor, Int64(file.range.lowerBound), file.count),
            during: "sendfile"
        )
    }

    /// Writes `buffer`, then `tail`, in one call; the unsent part of `tail` is appended to `buffer`.
    @inline(__always)
    package func write(from buffer: inout ByteBuffer, followedBy tail: borrowing Span<UInt8>) -> TransferCount {
        let descriptor = descriptor
        let held = buffer.count
        let result = tail.withUnsafeBufferPointer { rest in
            buffer.withUnsafeBytes { first in
                first.count == 0
                    ? pinproxy_send(descriptor, rest.baseAddress!, rest.count)
                    : pinproxy_send2(descriptor, first.baseAddress!, first.count, rest.baseAddress!, rest.count)
            }
        }
        let sent = max(result, 0)
        buffer.consume(min(sent, held))
        Self.append(tail, beyond: sent - held, to: &buffer)
        return result < 0 ? count(result, during: "sendmsg") : .bytes(result)
    }

    /// Writes `buffer`, then `tail`, then `end`, in one call; what is unsent of the two is appended to `buffer`.
    package func write(
        from buffer: inout ByteBuffer,
        followedBy tail: borrowing Span<UInt8>,
        _ end: borrowing Span<UInt8>
    ) -> TransferCount {
        let descriptor = descriptor
        let held = buffer.count
        let result = end.withUnsafeBufferPointer { last in
            tail.withUnsafeBufferPointer { rest in
                buffer.withUnsafeBytes { first in
                    pinproxy_send3(
                        descriptor,
                        first.baseAddress,
                        first.count,
                        rest.baseAddress,
                        rest.count,
                        last.baseAddress,
                        last.count
                    )
                }
            }
        }
        let sent = max(result, 0)
        buffer.consume(min(sent, held))
        Self.append(tail, beyond: sent - held, to: &buffer)
        Self.append(end, beyond: sent - held - tail.count, to: &buffer)
        return result < 0 ? count(result, during: "sendmsg") : .bytes(result)
    }

    /// Appends what follows the first `sent` bytes; a negative number is none.
    @inline(__always)
    private static func append(_ bytes: borrowing Span<UInt8>, beyond sent: Int, to buffer: inout ByteBuffer) {
        if sent < bytes.count { buffer.append(bytes.extracting(max(sent, 0)..<bytes.count)) }
    }

    @inline(__always)
    private func count(_ result: Int, during call: StaticString) -> TransferCount {
        if result > 0 { return .bytes(result) }
        if result == 0 { return .end }
        let code = Int32(truncatingIfNeeded: -result)
        return code == EAGAIN || code == EWOULDBLOCK ? .wouldBlock : .failed(IOFailure(code: code, during: call))
    }

    /// Shuts down the write side; the peer's data can still be read.
    package func shutdownWrite() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    package func setNoDelay() {
        _ = pinproxy_set_no_delay(descriptor)
    }

    /// The user and the group of the connected process; only for Unix sockets.
    package var peer: (user: UInt32, group: UInt32)? {
        var user: UInt32 = 0
        var group: UInt32 = 0
        return pinproxy_peer(descriptor, &user, &group) == 0 ? (user, group) : nil
    }

    /// The local address of the connection.
    package var localAddress: SocketAddress? {
        boundAddress(descriptor)
    }
}

/// The address a socket is bound to.
package func boundAddress(_ descriptor: Int32) -> SocketAddress? { address(of: descriptor) { getsockname($0, $1, $2) } }

/// The address a socket is connected to; nil for one that is not connected.
package func peerAddress(_ descriptor: Int32) -> SocketAddress? { address(of: descriptor) { getpeername($0, $1, $2) } }

/// The error of a socket since it was last asked for: that of a connection that could not be made; 0 without one.
package func pendingError(of descriptor: Int32) -> Int32 {
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno
}

private func address(
    of descriptor: Int32,
    _ ask: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &storage) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            ask(descriptor, address, &length) == 0 ? SocketAddress(address, length: length) : nil
        }
    }
}
