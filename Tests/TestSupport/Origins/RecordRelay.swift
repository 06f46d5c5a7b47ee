// SPDX-License-Identifier: Apache-2.0
import Foundation
import Glibc

/// A relay between a client and a TLS origin that controls when and in which pieces the origin's bytes arrive, like a
/// network. It parses only the heads of TLS records (RFC 8446, section 5.1).
package final class RecordRelay: Sendable {
    /// The origin's side of one connection, for the thread that controls it.
    package final class Stream {
        package struct Gone: Error {}

        private let origin: Int32
        private let client: Int32
        private var buffer: [UInt8] = []
        /// The connection to the client is to end with a reset.
        package var endsWithReset = false

        fileprivate init(origin: Int32, client: Int32) {
            self.origin = origin
            self.client = client
        }

        /// Some bytes; empty at the end.
        private func read() -> [UInt8] {
            [UInt8](unsafeUninitializedCapacity: 64 << 10) { room, count in
                count = max(0, recv(origin, room.baseAddress!, 64 << 10, 0))
            }
        }

        /// The next complete record, with its head; nil at the end.
        package func nextRecord() -> [UInt8]? {
            while true {
                if buffer.count >= 5 {
                    let length = 5 + Int(buffer[3]) << 8 + Int(buffer[4])
                    if buffer.count >= length {
                        defer { buffer.removeFirst(length) }
                        return Array(buffer[..<length])
                    }
                }
                let bytes = read()
                if bytes.isEmpty { return nil }
                buffer += bytes
            }
        }

        /// The available bytes, without regard to records; nil at the end.
        package func nextBytes() -> [UInt8]? {
            if !buffer.isEmpty {
                defer { buffer = [] }
                return buffer
            }
            let bytes = read()
            return bytes.isEmpty ? nil : bytes
        }

        /// Passes on all remaining bytes.
        package func passRest() throws {
            while let bytes = nextBytes() { try deliver(bytes) }
        }

        /// Sends bytes to the client in one piece.
        package func deliver(_ bytes: [UInt8]) throws {
            var sent = 0
            while sent < bytes.count {
                let count = bytes.withUnsafeBytes { all in
                    send(client, all.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { throw Gone() }
                sent += count
            }
        }

        /// Waits until the client's kernel has received all delivered bytes, so that the client's next read finds them.
        package func waitUntilArrived() throws {
            try Patience.poll(for: "bytes to arrive", every: 0.001) {
                var waiting: Int32 = 0
                return ioctl(client, UInt(TIOCOUTQ), &waiting) == 0 && waiting == 0 ? true : nil
            }
        }
    }

    package let port: UInt16
    private let listener: Int32
    private let open = Monitor<[Int32]>([])

    /// - Parameter shape: gets the origin's bytes, on one thread for each connection. Its end ends the connection.
    package convenience init(to originPort: UInt16, shape: @escaping @Sendable (Stream) throws -> Void) throws {
        try self.init(choosing: { originPort }, shape: shape)
    }

    /// - Parameter choosing: the origin's port for the next connection.
    package init(
        choosing originPort: @escaping @Sendable () -> UInt16,
        shape: @escaping @Sendable (Stream) throws -> Void
    ) throws {
        let listening = try TestSocket.listen()
        listener = listening.descriptor
        port = listening.port
        let listener = listener
        let open = open
        Thread.detachNewThread {
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                guard let origin = try? TestSocket.connect(port: originPort()) else {
                    close(client)
                    continue
                }
                for descriptor in [client, origin] {
                    var one: Int32 = 1
                    setsockopt(
                        descriptor,
                        Int32(IPPROTO_TCP),
                        TCP_NODELAY,
                        &one,
                        socklen_t(MemoryLayout<Int32>.size)
                    )
                    TestSocket.setTimeouts(descriptor, seconds: 60)
                }
                open.with { $0 += [client, origin] }
                let upstreamEnded = Gate()
                Thread.detachNewThread {
                    Self.copy(from: client, to: origin)
                    upstreamEnded.open()
                }
                Thread.detachNewThread {
                    let stream = Stream(origin: origin, client: client)
                    try? shape(stream)
                    if stream.endsWithReset {
                        var linger = linger(l_onoff: 1, l_linger: 0)
                        setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
                    }
                    shutdown(client, Int32(stream.endsWithReset ? SHUT_RD : SHUT_RDWR))
                    shutdown(origin, Int32(SHUT_RDWR))
                    try? upstreamEnded.pass()
                    // Under the lock, so that a reused descriptor is never used.
                    open.with { all in
                        all.removeAll { $0 == client || $0 == origin }
                        close(client)
                        close(origin)
                    }
                }
            }
            close(listener)
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        open.with { all in
            for descriptor in all { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    private static func copy(from source: Int32, to target: Int32) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(source, &buffer, buffer.count, 0)
            guard count > 0 else { break }
            var sent = 0
            while sent < count {
                let more = buffer.withUnsafeBytes {
                    send(target, $0.baseAddress! + sent, count - sent, Int32(MSG_NOSIGNAL))
                }
                guard more > 0 else { return }
                sent += more
            }
        }
        shutdown(target, Int32(SHUT_WR))
    }
}
