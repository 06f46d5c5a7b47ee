// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@testable import IOCore

@Suite("Sockets")
struct SocketTests {
    @Test("port 0 takes a free port, and a second socket on it is refused")
    func exclusivePort() throws {
        let first = try ListeningSocket(.loopback(port: 0))
        #expect(first.address.port != 0)
        #expect(throws: IOFailure(code: EADDRINUSE, during: "bind")) {
            _ = try ListeningSocket(.loopback(port: first.address.port))
        }
    }

    @Test("a connection has its peer's address, over IPv4, IPv6 and Unix sockets")
    func accepting() throws {
        let path = "/tmp/pinproxy-test-\(getpid())-\(UInt32.random(in: 0 ... .max)).sock"
        let wanted = [
            .loopback(port: 0), SocketAddress(ipv6Upper: 0, lower: 1, port: 0), SocketAddress(unixPath: path),
        ]
        for address in wanted {
            let listener = try ListeningSocket(address)
            let family = address.family == .ipv4 ? AF_INET : address.family == .ipv6 ? AF_INET6 : AF_UNIX
            let client = socket(family, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(client) }
            #expect(listener.address.withSockaddr { connect(client, $0, $1) } == 0)
            guard case .connection(let accepted, let peer) = listener.accept() else {
                Issue.record("no connection")
                continue
            }
            #expect(peer.family == address.family)
            let stream = StreamSocket(adopting: accepted)
            #expect(write(client, "hello", 5) == 5)
            var buffer = ByteBuffer()
            #expect(stream.read(into: &buffer, upTo: 100) == .bytes(5))
            #expect(stream.read(into: &buffer, upTo: 100) == .wouldBlock)
            #expect(stream.write(from: &buffer, followedBy: Array(" world".utf8).span) == .bytes(11))
            var got = [UInt8](repeating: 0, count: 11)
            #expect(read(client, &got, 11) == 11)
            #expect(got == Array("hello world".utf8))
            shutdown(client, Int32(SHUT_WR))
            #expect(stream.read(into: &buffer, upTo: 100) == .end)
        }
        #expect(access(path, F_OK) != 0, "the socket's file goes with it")
    }

    @Test("a stale socket file is replaced; a live one and other files stay")
    func unixFiles() throws {
        let path = "/tmp/pinproxy-test-\(getpid())-\(UInt32.random(in: 0 ... .max)).sock"
        defer { unlink(path) }
        let abandoned = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        #expect(SocketAddress(unixPath: path).withSockaddr { bind(abandoned, $0, $1) } == 0)
        close(abandoned)
        do {
            let live = try ListeningSocket(SocketAddress(unixPath: path))
            #expect(throws: IOFailure(code: EADDRINUSE, during: "bind")) {
                _ = try ListeningSocket(SocketAddress(unixPath: path))
            }
            _ = live
        }
        close(open(path, O_CREAT | O_WRONLY, 0o600))
        #expect(throws: IOFailure(code: EEXIST, during: "bind")) {
            _ = try ListeningSocket(SocketAddress(unixPath: path))
        }
    }

    @Test("the rest of a partial write is kept in order")
    func partialWrites() {
        var pair: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        let stream = StreamSocket(adopting: pair[0])
        defer { close(pair[1]) }
        let tail = patternBytes(1_000_000)
        var pending = ByteBuffer()
        pending.append("head:")
        guard case .bytes(let sent) = stream.write(from: &pending, followedBy: tail.span) else {
            Issue.record("nothing was written")
            return
        }
        #expect(sent < tail.count)
        var received: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while received.count < tail.count + 5 {
            let got = read(pair[1], &chunk, chunk.count)
            if got > 0 { received.append(contentsOf: chunk[..<got]) }
            if !pending.isEmpty { _ = stream.write(from: &pending) }
        }
        #expect(firstDifference(received, Array("head:".utf8) + tail) == nil)
    }

    @Test("two pieces behind the buffer stay in order, wherever a partial write ends", arguments: [0, 5, 300_000])
    func partialWritesOfPieces(held: Int) {
        var pair: [Int32] = [0, 0]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        let stream = StreamSocket(adopting: pair[0])
        defer { close(pair[1]) }
        var received: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var expected: [UInt8] = []
        var pending = ByteBuffer()
        // Pieces of which the socket takes all, a part of the second, a part of the first, or nothing.
        for (round, size) in [1_000, 0, 100_000, 500_000, 700].enumerated() {
            let head = [UInt8](repeating: UInt8(round), count: held)
            let first = patternBytes(size, seed: UInt64(2 * round))
            let second = patternBytes(size / 2, seed: UInt64(2 * round + 1))
            pending.append(head.span)
            expected += head + first + second
            let waiting = pending.count
            let outcome = stream.write(from: &pending, followedBy: first.span, second.span)
            let left = pending.count
            switch outcome {
            case .bytes(let sent): #expect(left == waiting + size + size / 2 - sent)
            case .wouldBlock, .end: #expect(left == waiting + size + size / 2)
            case .failed(let failure): Issue.record("\(failure)")
            }
        }
        while received.count < expected.count {
            let got = read(pair[1], &chunk, chunk.count)
            if got > 0 { received.append(contentsOf: chunk[..<got]) }
            if !pending.isEmpty { _ = stream.write(from: &pending) }
        }
        let left = pending.count
        #expect(firstDifference(received, expected) == nil && left == 0)
    }

    @Test("the buffer and the pieces behind it go out in one system call")
    func gatheredWrites() {
        var pair: [Int32] = [0, 0]
        // Such a socket keeps the calls apart: each is a message of its own.
        #expect(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
        let stream = StreamSocket(adopting: pair[0])
        defer { close(pair[1]) }
        var pending = ByteBuffer()
        pending.append("head,")
        let one = stream.write(from: &pending, followedBy: Array("piece".utf8).span)
        pending.append("head,")
        let two = stream.write(from: &pending, followedBy: Array("piece,".utf8).span, Array("end".utf8).span)
        let left = pending.count
        #expect(one == .bytes(10) && two == .bytes(14) && left == 0)
        var messages: [String] = []
        var chunk = [UInt8](repeating: 0, count: 100)
        while case let got = read(pair[1], &chunk, chunk.count), got > 0 {
            messages.append(String(decoding: chunk[..<got], as: UTF8.self))
        }
        #expect(messages == ["head,piece", "head,piece,end"])
    }

    @Test(
        "addresses are written in their canonical form",
        arguments: [
            (SocketAddress(ipv4: 0x7F00_0001, port: 80), "127.0.0.1:80"),
            (SocketAddress(ipv6Upper: 0, lower: 1, port: 443), "[::1]:443"),
            (
                SocketAddress(ipv6Upper: 0x2001_0db8_0000_0000, lower: 0x0001_0000_0000_0001, port: 1),
                "[2001:db8::1:0:0:1]:1"
            ),
            (
                SocketAddress(ipv6Upper: 0x2001_0db8_0000_0001, lower: 0x0001_0001_0001_0001, port: 1),
                "[2001:db8:0:1:1:1:1:1]:1"
            ),
            (SocketAddress(ipv6Upper: 0, lower: 0xFFFF_7F00_0001, port: 1), "[::ffff:127.0.0.1]:1"),
            (SocketAddress(ipv6Upper: 0xfe80_0000_0000_0000, lower: 0, port: 9), "[fe80::]:9"),
            (SocketAddress(unixPath: "/run/x.sock"), "unix:/run/x.sock"),
        ]
    )
    func descriptions(address: SocketAddress, text: String) {
        #expect(address.description == text)
    }
}
