// SPDX-License-Identifier: Apache-2.0
import Glibc

/// A non-blocking socket of a peer of the proxy, which runs on the same thread. It owns its descriptor.
final class FuzzSocket {
    private(set) var descriptor: Int32
    /// The bytes that could not be written yet.
    private var output: [UInt8] = []
    private var endsAfterOutput = false
    private(set) var hasEnded = false

    init(adopting descriptor: Int32) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    }

    deinit { close() }

    var isOpen: Bool { descriptor >= 0 }

    func send(_ bytes: [UInt8]) {
        guard isOpen else { return }
        output += bytes
        _ = flush()
    }

    /// Writes pending bytes.
    ///
    /// - Returns: whether bytes were written.
    func flush() -> Bool {
        guard isOpen, !output.isEmpty else { return false }
        let written = output.withUnsafeBytes {
            Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        if written > 0 {
            output.removeFirst(written)
        } else if errno != EAGAIN {
            output = []
        }
        if output.isEmpty, endsAfterOutput { _ = shutdown(descriptor, Int32(SHUT_WR)) }
        return written > 0
    }

    /// - Returns: whether bytes or the end have arrived.
    func receive(into bytes: inout [UInt8]) -> Bool {
        guard isOpen, !hasEnded else { return false }
        var room = [UInt8](repeating: 0, count: 16 << 10)
        let count = recv(descriptor, &room, room.count, 0)
        if count > 0 {
            bytes += room[..<count]
            return true
        }
        if count < 0, errno == EAGAIN { return false }
        hasEnded = true
        return true
    }

    /// Shuts down the write side after the pending bytes.
    func halfClose() {
        guard isOpen else { return }
        endsAfterOutput = true
        if output.isEmpty { _ = shutdown(descriptor, Int32(SHUT_WR)) }
    }

    func close(byReset: Bool = false) {
        guard isOpen else { return }
        if byReset {
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        }
        Glibc.close(descriptor)
        descriptor = -1
    }
}
