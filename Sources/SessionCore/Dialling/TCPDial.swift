// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import IOCore

/// The dial of one address by this process itself (connect(2)).
final class TCPDial: AddressDial {
    /// Owned until the connection stands.
    private var descriptor: Int32 = -1

    deinit { if descriptor >= 0 { close(descriptor) } }

    override func start() -> DialFailure? {
        let code = address.withSockaddr { connect($0, $1) } ?? ENAMETOOLONG
        guard code == EINPROGRESS || code == EINTR else {
            // The owner is on the stack.
            if code == 0 { loop.atEndOfTurn { [self] in end(0) } }
            return code == 0 ? nil : abandon(code)
        }
        do throws(IOFailure) {
            try loop.register(descriptor, [.writable, .oneShot], self)
            return nil
        } catch {
            return abandon(error.code)
        }
    }

    /// - Returns: the code of the error (connect(2)); 0 when the connection stands already.
    private func connect(_ raw: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
        let opened = open(raw, length)
        guard opened >= 0 else { return -opened }
        descriptor = opened
        _ = pinproxy_set_no_delay(opened)
        return Glibc.connect(opened, raw, length) == 0 ? 0 : errno
    }

    override func ready(_ readiness: Readiness) {
        loop.noteWork(.dial)
        // A connection that failed has an error pending, which epoll reports.
        let isOver = readiness.contains(.failed) || readiness.contains(.hungUp)
        end(isOver ? pendingError(of: descriptor) : 0)
    }

    private func end(_ code: Int32) {
        guard descriptor >= 0 else { return }
        guard code == 0 else { return finish(.failed(abandon(code))) }
        // Its one event has come: the socket is silent until its next owner asks for another one.
        loop.park(descriptor, of: self)
        let connected = descriptor
        descriptor = -1
        finish(.connected(connected, to: peer(of: connected)))
    }

    /// The address at the other end. Only an unspecified one leads elsewhere, to the loopback interface; its upper half is zero,
    /// also in the form of the other family.
    private func peer(of connected: Int32) -> SocketAddress? { address.upper == 0 ? peerAddress(connected) : address }

    private func abandon(_ code: Int32) -> DialFailure {
        closeSocket()
        return failure(code)
    }

    override func stop() {
        super.stop()
        closeSocket()
    }

    private func closeSocket() {
        guard descriptor >= 0 else { return }
        loop.unregister(descriptor, of: self)
        close(descriptor)
        descriptor = -1
    }
}
