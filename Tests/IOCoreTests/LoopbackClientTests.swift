// SPDX-License-Identifier: Apache-2.0
import CShims
import Glibc
import TestSupport
import Testing

@testable import IOCore

@Suite("The user of a loopback connection", .onOwnThreads)
struct LoopbackClientTests {
    private static let addresses = [
        SocketAddress.loopback(port: 0), SocketAddress(ipv6Upper: 0, lower: 1, port: 0),
        SocketAddress(ipv4: 0x7F00_0203, port: 0),
    ]

    /// The client's end of a connection that waits to be accepted.
    private func client(of listener: ListeningSocket) throws -> Int32 {
        let family = listener.address.family == .ipv4 ? AF_INET : AF_INET6
        let client = socket(family, Int32(SOCK_STREAM.rawValue), 0)
        try #require(listener.address.withSockaddr { connect(client, $0, $1) } == 0)
        return client
    }

    private func accept(from listener: ListeningSocket) throws -> StreamSocket {
        var waiting = pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0)
        try #require(poll(&waiting, 1, Int32(Patience.seconds * 1000)) == 1)
        guard case .connection(let accepted, _) = listener.accept() else {
            throw IOFailure(code: EAGAIN, during: "accept")
        }
        return StreamSocket(adopting: accepted)
    }

    @Test("the kernel can be asked on this machine")
    func works() { #expect(LoopbackClient.fault() == nil) }

    @Test("the user is that of the connecting process, over IPv4 and IPv6", arguments: addresses)
    func ownUser(address: SocketAddress) throws {
        let listener = try ListeningSocket(address)
        let client = try client(of: listener)
        let accepted = try accept(from: listener)
        defer { close(client) }
        #expect(LoopbackClient(of: accepted)?.user == geteuid())
        // A client that has said all waits for the response.
        shutdown(client, Int32(SHUT_WR))
        #expect(LoopbackClient(of: accepted)?.user == geteuid())
    }

    @Test("a process of another user is told apart", .enabled(if: getuid() == 0, "another user's process needs root"))
    func otherUser() throws {
        let listener = try ListeningSocket(.loopback(port: 0))
        let connects =
            "import socket, sys; s = socket.create_connection(('127.0.0.1', \(listener.address.port))); s.recv(1)"
        let child = try ChildProcess(
            try Programs.path(of: "setpriv"),
            ["--reuid=61234", "--regid=61234", "--clear-groups", "/usr/bin/python3", "-c", connects]
        )
        let user = try LoopbackClient(of: accept(from: listener))?.user
        #expect(user == 61234)
        #expect(try child.waitForExit().exitCode == 0)
    }

    /// The kernel says that nobody's socket is root's.
    @Test("a client that has closed its socket has no user", arguments: addresses)
    func closed(address: SocketAddress) throws {
        let listener = try ListeningSocket(address)
        let client = try client(of: listener)
        let accepted = try accept(from: listener)
        #expect(write(client, "GET", 3) == 3)
        close(client)
        #expect(LoopbackClient(of: accepted) == nil)
        var received = ByteBuffer()
        #expect(accepted.read(into: &received, upTo: 100) == .bytes(3))
    }

    @Test("a client that has reset its connection has no user")
    func reset() throws {
        let listener = try ListeningSocket(.loopback(port: 0))
        let client = try client(of: listener)
        let accepted = try accept(from: listener)
        #expect(write(client, "GET", 3) == 3)
        StreamSocket(adopting: client).resetOnClose()
        #expect(LoopbackClient(of: accepted) == nil)
    }

    @Test("a Unix socket, and a connection not over loopback, have no user")
    func elsewhere() throws {
        var ends: [Int32] = [0, 0]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        defer { close(ends[1]) }
        #expect(LoopbackClient(of: StreamSocket(adopting: ends[0])) == nil)
        // An address of this machine of which the kernel would say whose the connection is.
        guard let own = SourceAddress.find(for: SocketAddress(ipv4: 0xC000_0201, port: 9)) else { return }
        let listener = try ListeningSocket(own.withPort(0))
        let client = try client(of: listener)
        let accepted = try accept(from: listener)
        defer { close(client) }
        #expect(LoopbackClient(of: accepted) == nil)
    }

    // MARK: The decision

    private static let ends = LoopbackClient.Ends(source: .loopback(port: 50_000), destination: .loopback(port: 8080))

    private func decide(_ change: (inout LoopbackClient.Row) -> Void) -> UInt32? {
        var row = LoopbackClient.Row(
            ends: Self.ends,
            state: PINPROXY_TCP_ESTABLISHED,
            inode: 7,
            user: 1000,
            ownState: PINPROXY_TCP_ESTABLISHED,
            isOfSameNetwork: true
        )
        change(&row)
        return LoopbackClient(row, Self.ends)?.user
    }

    @Test("each doubt about what the kernel has found is a refusal by itself")
    func doubts() {
        #expect(decide { _ in } == 1000)
        #expect(decide { $0.state = PINPROXY_TCP_FIN_WAIT2 } == 1000)
        #expect(decide { $0.ownState = PINPROXY_TCP_CLOSE_WAIT } == 1000)
        #expect(decide { $0.user = 0 } == 0)
        #expect(decide { $0.inode = 0 } == nil)
        #expect(decide { $0.isOfSameNetwork = false } == nil)
        // A listener, one that is still connecting, one that waits for late packets.
        for state: Int32 in [0, 2, 3, 6, 7, 10, 12] { #expect(decide { $0.state = state } == nil, "\(state)") }
        for state: Int32 in [0, 4, 5, 6, 7, 9] { #expect(decide { $0.ownState = state } == nil, "\(state)") }
        #expect(decide { $0.ends.source = .loopback(port: 50_001) } == nil)
        #expect(decide { $0.ends.destination = .loopback(port: 0) } == nil)
        #expect(decide { $0.ends.destination = SocketAddress(ipv4: 0x7F00_0002, port: 8080) } == nil)
        #expect(
            decide { $0.ends = LoopbackClient.Ends(source: $0.ends.destination, destination: $0.ends.source) } == nil
        )
    }
}
