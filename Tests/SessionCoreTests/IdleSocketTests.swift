import Glibc
import IOCore
import TestSupport
import Testing

@testable import SessionCore

/// A connection that libcurl keeps for the next transfer, and the events of its socket meanwhile.
@Suite("Sockets of idle connections")
struct IdleSocketTests {
    /// A connection of a pool's, to a listener of the test's.
    private final class Stage {
        let loop: EventLoop
        let pool: TransferPool
        let socket: CurlSocket
        let port: UInt16
        private let peer: Int32

        init() throws {
            loop = try EventLoop()
            pool = try TransferPool(loop: loop, configuration: SessionConfiguration())
            let listener = try TestSocket.listen()
            defer { close(listener.descriptor) }
            let descriptor = pool.open(family: AF_INET)
            try #require(descriptor >= 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = in_port_t(listener.port).bigEndian
            address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
            // It does not wait; the listener does.
            _ = withUnsafeBytes(of: &address) { bytes in
                connect(descriptor, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
            }
            peer = accept(listener.descriptor, nil, nil)
            try #require(peer >= 0)
            port = try #require(boundAddress(descriptor)?.port)
            socket = CurlSocket(descriptor: descriptor, isOwn: true, pool: pool)
        }

        deinit {
            socket.unregister()
            pool.closeSocket(socket.descriptor)
            pool.close()
            close(peer)
        }

        var hasSpoken: Bool { pool.hasSpokenWhileIdle(localPort: port) }

        /// Some rounds of the loop, with what is ready already.
        func turn() { for _ in 0..<3 { loop.turn(waitingAtMost: .milliseconds(0)) } }

        /// Whether the pool learns of what the peer says.
        func isHeard() -> Bool {
            sendByte()
            return loop.run(until: { hasSpoken }, atMost: .seconds(10))
        }

        func sendByte() {
            var byte: UInt8 = 1
            _ = send(peer, &byte, 1, 0)
        }

        func takeByte() {
            var byte: UInt8 = 0
            #expect(recv(socket.descriptor, &byte, 1, 0) == 1)
        }
    }

    @Test("a connection that can be written to has not spoken")
    func writable() throws {
        let stage = try Stage()
        stage.socket.want([.readable, .writable])
        stage.socket.wantNothing()
        stage.turn()
        #expect(!stage.hasSpoken)
        #expect(stage.isHeard())
    }

    @Test("an event of bytes that libcurl has read by the time that it is told is no word of an idle connection")
    func late() throws {
        let stage = try Stage()
        stage.socket.want(.readable)
        stage.sendByte()
        stage.takeByte()
        stage.socket.wantNothing()
        stage.socket.ready(.readable)
        #expect(!stage.hasSpoken)
        #expect(stage.isHeard())
    }
}
