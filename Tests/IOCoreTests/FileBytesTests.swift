// SPDX-License-Identifier: Apache-2.0
import Glibc
import TestSupport
import Testing

@testable import IOCore

@Suite("Bytes that are sent from their file")
struct FileBytesTests {
    private static let page = sysconf(Int32(_SC_PAGESIZE))

    /// A file of its own, open for reading.
    private final class OpenFile {
        let folder: TemporaryFolder
        let path: String
        let descriptor: Int32

        init(_ bytes: [UInt8]) throws {
            folder = try TemporaryFolder()
            path = try folder.write(bytes: bytes, as: "body")
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
            try #require(descriptor >= 0)
        }

        deinit { close(descriptor) }

        func bytes(_ range: Range<Int>) -> FileBytes { FileBytes(descriptor, range) }

        /// Whether its bytes have left the kernel's memory: a filesystem in memory keeps them.
        func dropFromPageCache() throws -> Bool {
            let kind = try Programs.run("stat", ["-f", "-c", "%T", path]).output
            return try !kind.hasPrefix("tmpfs") && folder.dropFromPageCache() > 0
        }
    }

    /// A connected pair, of which one end does not block.
    private static func pair() throws -> (end: Int32, peer: Int32) {
        _ = TestSocket.ready
        var ends: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        try #require(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        return (ends[0], ends[1])
    }

    @Test("written bytes are in memory to the last, 1 MB at once")
    func inMemory() throws {
        let file = try OpenFile(patternBytes(1_500_001))
        #expect(file.bytes(0..<1_500_001).inMemory.range == 0..<1 << 20)
        // A piece that does not begin with a page ends with one.
        #expect(file.bytes(10..<1_500_001).inMemory.range == 10..<1 << 20)
        #expect(file.bytes(600_000..<1_500_001).inMemory.range == 600_000..<1_500_001)
        #expect(file.bytes(600_000..<600_001).inMemory.range == 600_000..<600_001)
        // What is asked beyond the end is not there.
        #expect(file.bytes(1_499_999..<1 << 40).inMemory.range == 1_499_999..<1_500_001)
        for beyond in [1_500_001..<1_500_002, 1_500_000..<1_500_000, 1 << 40..<1 << 41] {
            #expect(file.bytes(beyond).inMemory.range == beyond.lowerBound..<beyond.lowerBound)
        }
    }

    @Test("bytes are not in memory where only the disk has them")
    func onDisk() throws {
        let file = try OpenFile(patternBytes(1 << 20))
        guard try file.dropFromPageCache() else { return }
        // No page is read ahead.
        try #require(posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_RANDOM) == 0)
        try Patience.poll(for: "the pages to go") { file.bytes(0..<1 << 20).inMemory.count == 0 ? true : nil }
        var byte: UInt8 = 0
        let place = 16 * Self.page
        try #require(pread(file.descriptor, &byte, 1, off_t(place)) == 1)
        let found = file.bytes(place + 5..<1 << 20).inMemory
        #expect(found.range.lowerBound == place + 5)
        #expect(found.count >= Self.page - 5 && found.range.upperBound < 1 << 20)
        #expect(found.range.upperBound % Self.page == 0)
        #expect(file.bytes(0..<1 << 20).inMemory.count == 0)
        // Some systems read them at once.
        var buffer = ByteBuffer()
        let read = file.bytes(0..<1 << 20).readCached(into: &buffer)
        let known = buffer.withUnsafeBytes { Array($0) }
        #expect(known.count == read && firstDifference(known, Array(patternBytes(read))) == nil)
    }

    @Test("the file of another user counts as not in memory")
    func foreign() throws {
        // Only root can give a file away.
        guard geteuid() == 0 else { return }
        let file = try OpenFile(patternBytes(10_000))
        #expect(file.bytes(0..<10_000).inMemory.count == 10_000)
        #expect(chown(file.path, 65_534, 65_534) == 0)
        #expect(file.bytes(0..<10_000).inMemory.count == 0)
    }

    @Test("a range is taken apart without losing a byte")
    func parts() {
        let bytes = FileBytes(3, 10..<30)
        #expect(bytes.count == 20 && bytes.first(5).range == 10..<15 && bytes.first(99).range == 10..<30)
        #expect(bytes.dropFirst(5).range == 15..<30 && bytes.dropFirst(20).range == 30..<30)
    }

    @Test("a socket takes what fits, and its peer gets each byte in order")
    func sending() throws {
        let body = patternBytes(3_000_001)
        let file = try OpenFile(body)
        let (end, peer) = try Self.pair()
        let socket = StreamSocket(adopting: end)
        defer { close(peer) }
        var head = ByteBuffer()
        head.append("head")
        #expect(socket.write(from: &head, beforeMore: ()) == .bytes(4))
        #expect(head.count == 0)
        var received: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 100_000)
        var rest = file.bytes(1..<body.count)
        var pauses = 0
        while rest.count > 0 {
            switch socket.write(rest) {
            case .bytes(let count): rest = rest.dropFirst(count)
            case .wouldBlock:
                pauses += 1
                let count = read(peer, &room, room.count)
                received += room.prefix(max(0, count))
            case .end, .failed:
                Issue.record("the socket took \(rest.range.lowerBound) bytes")
                return
            }
        }
        shutdown(socket.descriptor, Int32(SHUT_WR))
        while case let count = read(peer, &room, room.count), count > 0 { received += room.prefix(count) }
        #expect(pauses > 0)
        #expect(firstDifference(received, Array("head".utf8) + body.dropFirst()) == nil)
    }

    @Test("a file that became shorter ends, and a lost peer is a failure")
    func ends() throws {
        let file = try OpenFile(patternBytes(10_000))
        let (end, peer) = try Self.pair()
        let socket = StreamSocket(adopting: end)
        #expect(truncate(file.path, 5000) == 0)
        #expect(file.bytes(4000..<10_000).inMemory.range == 4000..<5000)
        #expect(socket.write(file.bytes(4000..<10_000)) == .bytes(1000))
        #expect(socket.write(file.bytes(5000..<10_000)) == .end)
        // A process that another test is just starting may hold a copy of the descriptor.
        shutdown(peer, Int32(SHUT_RDWR))
        close(peer)
        #expect(socket.write(file.bytes(0..<10)) == .failed(IOFailure(code: EPIPE, during: "sendfile")))
    }
}
